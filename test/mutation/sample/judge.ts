/** Test files as processes: which mutants each test comes past, and whether it notices one. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Mutant } from './instrument.ts'
import type { Recorded } from './record.ts'

export interface TestFile {
  file: string
  /** Of the whole file. */
  milliseconds: number
  recorded: Recorded
}

export type Outcome =
  | { is: 'killed'; by: string }
  | { is: 'timeout'; by: string }
  | { is: 'survived' }
  | { is: 'not covered' }

/** These end a process from outside, which says nothing about a mutant. SIGABRT: it ran out of memory. */
const FROM_OUTSIDE: ReadonlySet<string> = new Set(['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP'])

/** A mutant that makes a test hang is killed by this, however busy the machine is. */
const TIMEOUT_FACTOR = 5
const TIMEOUT_MS = 60_000
const BASELINE_MS = 900_000
/** A mutant that is hit so many times as often as without a change is in a loop without end. */
const HITS_FACTOR = 100
const MIN_HITS = 1000

/** How long a changed program may take, in milliseconds, of that without a change. */
export function limitOf(milliseconds: number): number {
  return TIMEOUT_FACTOR * milliseconds + TIMEOUT_MS
}

/** Runs a test file without a change; undefined where it fails so: it cannot judge. */
export async function baseline(folder: string, file: string): Promise<TestFile | undefined> {
  const began = Date.now()
  const { is, recorded } = await run(folder, file)
  if (is !== 'passed' || recorded === undefined) return undefined
  return { file, milliseconds: Date.now() - began, recorded }
}

/** Judges with the tests of some files; one instance for all mutants of a copy. */
export class Judge {
  readonly #folder: string
  /** By file and test: whether it passes alone and without a change. */
  readonly #alone = new Map<string, Promise<boolean>>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * Only those tests that come past the mutant, the quickest files first, until one notices. Undefined
   * if a test was ended from outside before one noticed.
   */
  async judge(mutant: Mutant, files: readonly TestFile[]): Promise<Outcome | undefined> {
    const plans = files
      .flatMap((file) => planOf(file, mutant.id) ?? [])
      .toSorted((one, other) => one.milliseconds - other.milliseconds)
    let isBrokenOff = false
    for (const plan of plans) {
      const outcome = await this.#outcomeOf(plan, mutant.id)
      if (outcome === 'failed') return { is: 'killed', by: plan.file }
      if (outcome === 'timeout') return { is: 'timeout', by: plan.file }
      if (outcome === 'ended') isBrokenOff = true
    }
    if (isBrokenOff) return undefined
    return { is: plans.length === 0 ? 'not covered' : 'survived' }
  }

  async #outcomeOf(plan: Plan, id: string): Promise<Ran['is']> {
    const { file, tests, hits } = plan
    const limitMs = limitOf(plan.milliseconds)
    const options = { mutant: id, hits, limitMs }
    const first = await run(this.#folder, file, { ...options, ...(tests && { tests }) })
    if (first.is !== 'failed' || tests === undefined) return first.is
    const last = first.recorded?.last
    if (last === undefined || (await this.#passesAlone(file, last))) return first.is
    // It needs the tests before it: that it fails without them says nothing about the mutant.
    return (await run(this.#folder, file, options)).is
  }

  #passesAlone(file: string, test: string): Promise<boolean> {
    const key = `${file} ${test}`
    const known = this.#alone.get(key)
    if (known !== undefined) return known
    const found = run(this.#folder, file, { tests: [test] }).then(({ is }) => is === 'passed')
    this.#alone.set(key, found)
    return found
  }
}

interface Plan {
  file: string
  milliseconds: number
  /** Absent: all of them, where the mutant is in what a module does when it is loaded. */
  tests?: string[]
  hits: number
}

function planOf({ file, milliseconds, recorded }: TestFile, id: string): Plan | undefined {
  const { loading, tests } = recorded
  const covering = Object.entries(tests).filter(([, test]) => test.hits[id] !== undefined)
  const counts = [loading[id] ?? 0, ...covering.map(([, test]) => test.hits[id] ?? 0)]
  const hits = counts.reduce((sum, count) => sum + count, 0)
  if (hits === 0) return undefined
  if (loading[id] !== undefined) return { file, milliseconds, hits }
  const time = covering.reduce((sum, [, test]) => sum + test.milliseconds, 0)
  return { file, milliseconds: time, tests: covering.map(([number]) => number), hits }
}

interface Ran {
  /** `ended`: by a signal from outside. */
  is: 'passed' | 'failed' | 'timeout' | 'ended'
  recorded?: Recorded
}

interface Options {
  mutant?: string
  /** Numbers of the top-level tests in their file; absent: all of them. */
  tests?: string[]
  /** How often the mutant is hit without a change. */
  hits?: number
  limitMs?: number
}

let runs = 0
const running = new Set<number>()
process.on('exit', () => {
  for (const id of running) process.kill(-id, 'SIGKILL')
})

/** Runs one test file as a separate process in the copy. */
export function run(folder: string, file: string, options: Options = {}): Promise<Ran> {
  runs += 1
  const record = join(folder, `recorded-${process.pid}-${runs}.json`)
  const preloads = ['./test/preload.ts', './test/mutation/sample/record.ts']
  const child = spawn(process.execPath, [...preloads.flatMap((one) => ['--import', one]), file], {
    cwd: folder,
    stdio: 'ignore',
    // In a separate group: what the test has started ends with it.
    detached: true,
    env: {
      ...process.env,
      ...{ TAP_BAIL: '1', TAP_TIMEOUT: '0', MUTANTS_RECORD: record },
      // What only a part of the cases meets is met.
      TEST_DEPTH: 'full',
      // What one process has compiled serves the next.
      NODE_COMPILE_CACHE: join(folder, 'compiled'),
      ...environmentOf(options),
    },
  })
  const { pid: id } = child
  if (id !== undefined) running.add(id)
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ is: 'timeout' })
      if (id !== undefined) process.kill(-id, 'SIGKILL')
    }, options.limitMs ?? BASELINE_MS)
    child.once('exit', (code, signal) => {
      if (id !== undefined) running.delete(id)
      clearTimeout(timer)
      const isEnded = signal !== null && FROM_OUTSIDE.has(signal)
      const is = code === 0 ? 'passed' : isEnded ? 'ended' : 'failed'
      resolve({ is, ...read(record) })
    })
  })
}

function environmentOf({ mutant, tests, hits }: Options): Record<string, string> {
  return {
    ...(mutant !== undefined && { __STRYKER_ACTIVE_MUTANT__: mutant }),
    ...(tests !== undefined && { MUTANTS_TESTS: tests.join(',') }),
    ...(hits !== undefined && { MUTANTS_HITS: String(Math.max(MIN_HITS, HITS_FACTOR * hits)) }),
  }
}

function read(record: string): { recorded?: Recorded } {
  if (!existsSync(record)) return {}
  const recorded = JSON.parse(readFileSync(record, 'utf8')) as Recorded
  rmSync(record)
  return { recorded }
}
