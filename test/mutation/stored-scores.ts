/** The scores of all files, one line of JSON each: what was judged and has not changed is not judged again. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PURE, ROOT, testsOf } from './files.ts'
import { dependenciesOf } from './imports.ts'
import type { Scored } from './score.ts'

const FILE = join(import.meta.dirname, 'scores.jsonl')
/** Held while the file is rewritten: another run may have judged another file at the same time. */
const LOCK = `${FILE}.lock`
const LOCK_TRIES = 100
const LOCK_PAUSE_MS = 100

/** What each test loads: the same during one run. */
const dependencies = new Map<string, readonly string[]>()

/** Of the text as it is now, and of its tests with their helpers: the score depends on both. */
export function digestOf(
  file: string,
  tests: readonly string[] = testsOf(file),
  root = ROOT,
): string {
  const hash = createHash('sha256')
  for (const path of judgedBy(file, tests, root)) {
    hash.update(`${path}\n`).update(readFileSync(join(root, path)))
  }
  return hash.digest('hex').slice(0, 16)
}

/** Whether one of these paths is among what the score depends on, or was a test in the folder of the tests. */
export function isConcerned(
  file: string,
  changed: readonly string[],
  { tests = testsOf(file), root = ROOT }: { tests?: readonly string[]; root?: string } = {},
): boolean {
  const folder = join('test', dirname(file))
  const isGone = (path: string) =>
    path.endsWith('.test.ts') && dirname(path) === folder && !existsSync(join(root, path))
  const known = new Set(judgedBy(file, tests, root))
  return changed.some((path) => known.has(path) || isGone(path))
}

/** The file, its tests and their helpers. */
function judgedBy(file: string, tests: readonly string[], root: string): string[] {
  return [file, ...new Set(tests.flatMap((test) => testFilesOf(test, root)))]
}

/** Those under test/ that the test loads, itself among them. */
function testFilesOf(test: string, root: string): readonly string[] {
  const known = dependencies.get(join(root, test))
  const found = known ?? dependenciesOf(test, root).filter((path) => path.startsWith('test/'))
  dependencies.set(join(root, test), found)
  return found
}

/** The score of the file as it is now. */
export function stored(file: string): Scored | undefined {
  const found = all().find((one) => one.file === file)
  return found?.of === digestOf(file) ? found : undefined
}

/** In the place of what was kept of that file; files that are gone go. */
export function keep(scored: Scored): void {
  alone(() => {
    const others = all().filter(({ file }) => file !== scored.file && PURE.includes(file))
    const sorted = [...others, scored].toSorted((one, other) => (one.file < other.file ? -1 : 1))
    writeFileSync(`${FILE}.new`, sorted.map((one) => `${JSON.stringify(one)}\n`).join(''))
    renameSync(`${FILE}.new`, FILE)
  })
}

function alone(write: () => void, tries = LOCK_TRIES): void {
  try {
    mkdirSync(LOCK)
  } catch (error) {
    if (tries === 0)
      throw new Error(`${LOCK}: if no other run holds it, remove it`, { cause: error })
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_PAUSE_MS)
    alone(write, tries - 1)
    return
  }
  try {
    write()
  } finally {
    rmdirSync(LOCK)
  }
}

function all(): Scored[] {
  const lines = readFileSync(FILE, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Scored)
}
