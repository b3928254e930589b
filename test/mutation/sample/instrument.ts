/** A copy of the repository in which every small change of some files can be switched on, one at a time. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Instrumenter } from '@stryker-mutator/instrumenter'
import { isLogged, loggedIn } from './logged.ts'

export interface Mutant {
  /** What `__STRYKER_ACTIVE_MUTANT__` switches on. */
  id: string
  /** Its file and its number there: the same in each copy while the file is the same. */
  key: string
  file: string
  line: number
  location: Location
  mutator: string
  /** The source that is replaced. */
  original: string
  replacement: string
}

/** Lines and columns count from 1; the end is that after the last column. */
interface Location {
  start: Position
  end: Position
}

export interface Copy {
  folder: string
  mutants: Mutant[]
}

/** Discards Stryker's log. */
const SILENT = {
  isTraceEnabled: never,
  isDebugEnabled: never,
  isInfoEnabled: never,
  isWarnEnabled: never,
  isErrorEnabled: never,
  isFatalEnabled: never,
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
}

/** Copies what git does not ignore in `root` to `folder`, which is replaced. */
export function copyOf(root: string, folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const file of filesIn(root)) {
    mkdirSync(join(folder, dirname(file)), { recursive: true })
    cpSync(join(root, file), join(folder, file))
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
}

/** Copies what git does not ignore in `root` to `folder`, and instruments these files there. */
export async function instrumentedCopy(
  root: string,
  folder: string,
  files: readonly string[],
): Promise<Copy> {
  copyOf(root, folder)
  const sources = files.map((name) => ({
    ...{ name, mutate: true },
    content: readFileSync(join(root, name), 'utf8'),
  }))
  const texts = new Map(sources.map(({ name, content }) => [name, content]))
  const options = { plugins: null, excludedMutations: [], ignorers: [], mutantPlacers: [] }
  const result = await new Instrumenter(SILENT).instrument(sources, options)
  for (const { name, content } of result.files) writeFileSync(join(folder, name), content)
  const logged = new Map([...texts].map(([name, text]) => [name, loggedIn(text)]))
  const counts = new Map<string, number>()
  const mutants = result.mutants.flatMap(({ id, fileName, location, mutatorName, replacement }) => {
    const text = texts.get(fileName) ?? ''
    const count = (counts.get(fileName) ?? 0) + 1
    counts.set(fileName, count)
    const [from, to] = [offsetOf(text, location.start), offsetOf(text, location.end)]
    // Text that is only logged is for users.
    if (isLogged(logged.get(fileName) ?? [], from, to)) return []
    const original = text.slice(from, to)
    return {
      ...{ id, key: `${fileName} ${count}`, file: fileName, line: location.start.line + 1 },
      location: { start: fromOne(location.start), end: fromOne(location.end) },
      ...{ mutator: mutatorName, original, replacement },
    }
  })
  return { folder, mutants }
}

function filesIn(root: string): string[] {
  const listed = execFileSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    { cwd: root, encoding: 'utf8' },
  )
  return listed.split('\0').filter((file) => file !== '')
}

interface Position {
  line: number
  column: number
}

function fromOne({ line, column }: Position): Position {
  return { line: line + 1, column: column + 1 }
}

/** Lines and columns count from 0. */
function offsetOf(text: string, { line, column }: Position): number {
  let offset = 0
  for (let at = 0; at < line; at += 1) offset = text.indexOf('\n', offset) + 1
  return offset + column
}

function nothing(): void {
  // As its name says.
}

function never(): boolean {
  return false
}
