/**
 * The result of a suite that is run by itself, kept for `npm run proof -- --collect`. A suite that a test starts
 * keeps none.
 */
import { mkdirSync, readFileSync, existsSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { machine } from './machine.ts'
import { PARTS, type Part } from './parts.ts'
import type { Proved } from './section.ts'

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'dist/proof')
/** Of the output: the result is at its end. */
const MAX_CHARACTERS = 1_000_000

export interface Started {
  name: string
  /** Arguments of Node, the file first. */
  command: readonly string[]
  /** Date, commit and machine at the start. */
  run: string
}

/** Follows what this process prints, and keeps the result of the part when it exits. */
export function recordRun(name: string, { env, argv }: NodeJS.Process = process): void {
  // A selection of scenarios is no result of the suite.
  const { TAP, SCENARIOS, ONLY } = env
  if ([TAP, SCENARIOS, ONLY].some((value) => value !== undefined)) return
  const [, file = '', ...args] = argv
  const started = { name, command: [relative(ROOT, file), ...args], run: machine(ROOT) }
  let output = ''
  const write = process.stdout.write.bind(process.stdout) as (...all: unknown[]) => boolean
  process.stdout.write = (...all: unknown[]) => {
    output = `${output}${String(all[0])}`.slice(-MAX_CHARACTERS)
    return write(...all)
  }
  process.on('exit', (code) => keepResult(started, { code, output }))
}

/**
 * Whether a run with this command is the result of the whole claim: with no option that selects a part of it or repeats
 * a run, and with at least the numbers of the claim's own command.
 */
export function isWhole({ command, options = {} }: Part, [, ...args]: readonly string[]): boolean {
  try {
    const given = parseArgs({ args, options, strict: true }).values
    const due = parseArgs({ args: command.slice(1), options, strict: true }).values
    return Object.entries(due).every(([name, value]) => {
      const one = given[name]
      return one === value || Number(one) >= Number(value)
    })
  } catch {
    return false
  }
}

/**
 * Writes the result of a whole run that printed one. One that was broken off, and a run of a part of the claim, leave
 * the earlier result.
 */
export function keepResult(
  started: Started,
  { code, output }: { code: number; output: string },
  folder = FOLDER,
): void {
  const part = PARTS.find(({ name }) => name === started.name)
  if (part === undefined) throw new Error(`there is no part ${started.name}`)
  const words = part.said(output)
  if (words === undefined || !isWhole(part, started.command)) return
  mkdirSync(folder, { recursive: true })
  const proved = provedOf(part, started, {
    holds: code === 0 && !/, fail: [1-9]/.test(words),
    words,
  })
  writeFileSync(join(folder, `${part.name}.json`), `${JSON.stringify(proved)}\n`)
}

/** What the page says of a part. */
export function provedOf(
  { name, title, scope, fails }: Part,
  { command, run }: Omit<Started, 'name'>,
  result: Pick<Proved, 'holds' | 'words'>,
): Proved {
  return { name, title, scope, fails, command: `node ${command.join(' ')}`, run, ...result }
}

/** The last results of these parts; parts that were not run by themselves have none. */
export function recordedResults(parts: readonly Part[], folder = FOLDER): Proved[] {
  return parts.flatMap((part) => {
    const { name, title, scope, fails } = part
    const file = join(folder, `${name}.json`)
    if (!existsSync(file)) return []
    const { command, run, holds, words } = JSON.parse(readFileSync(file, 'utf8')) as Proved
    // Kept when the claim was smaller.
    if (!isWhole(part, command.split(' ').slice(1))) return []
    return [{ name, title, scope, fails, command, run, holds, words }]
  })
}
