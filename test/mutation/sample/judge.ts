/** Test files as processes: which mutants each comes past, and whether it notices one. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Mutant } from './instrument.ts'

export interface TestFile {
  file: string
  milliseconds: number
  covered: ReadonlySet<string>
}

export type Outcome =
  | { is: 'killed'; by: string }
  | { is: 'timeout'; by: string }
  | { is: 'survived' }
  | { is: 'not covered' }

/** A mutant that makes a test hang is killed by this, however busy the machine is. */
const TIMEOUT_FACTOR = 5
const TIMEOUT_MS = 60_000
const BASELINE_MS = 900_000

/** Runs a test file without a change; undefined where it fails so: it cannot judge. */
export async function baseline(folder: string, file: string): Promise<TestFile | undefined> {
  const record = join(folder, `covered-${file.replaceAll('/', '-')}.json`)
  rmSync(record, { force: true })
  const began = Date.now()
  const outcome = await run(folder, file, { MUTANTS_COVERED: record }, BASELINE_MS)
  if (outcome !== 'passed' || !existsSync(record)) return undefined
  const covered = new Set(JSON.parse(readFileSync(record, 'utf8')) as string[])
  return { file, milliseconds: Date.now() - began, covered }
}

/** The quickest tests first, until one notices. */
export async function judge(
  folder: string,
  mutant: Mutant,
  tests: readonly TestFile[],
): Promise<Outcome> {
  const own = tests
    .filter(({ covered }) => covered.has(mutant.id))
    .toSorted((one, other) => one.milliseconds - other.milliseconds)
  for (const { file, milliseconds } of own) {
    const limit = TIMEOUT_FACTOR * milliseconds + TIMEOUT_MS
    const outcome = await run(folder, file, { __STRYKER_ACTIVE_MUTANT__: mutant.id }, limit)
    if (outcome === 'failed') return { is: 'killed', by: file }
    if (outcome === 'timeout') return { is: 'timeout', by: file }
  }
  return { is: own.length === 0 ? 'not covered' : 'survived' }
}

/** Runs one test file as a separate process in the copy. */
export function run(
  folder: string,
  file: string,
  env: Record<string, string> = {},
  limitMs = BASELINE_MS,
): Promise<'passed' | 'failed' | 'timeout'> {
  const preloads = ['./test/preload.ts', './test/mutation/sample/record.ts']
  const child = spawn(process.execPath, [...preloads.flatMap((one) => ['--import', one]), file], {
    cwd: folder,
    stdio: 'ignore',
    // In a separate group: what the test has started ends with it.
    detached: true,
    env: { ...process.env, TAP_BAIL: '1', TAP_TIMEOUT: '0', ...env },
  })
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve('timeout')
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    }, limitMs)
    child.once('exit', (code) => {
      clearTimeout(timer)
      resolve(code === 0 ? 'passed' : 'failed')
    })
  })
}
