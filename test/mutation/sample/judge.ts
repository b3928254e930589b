/** Test files as processes: which mutants each test comes past, and whether it notices one. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Mutant } from './instrument.ts'
import { environment, endGroup, PRELOADS, started } from './processes.ts'
import type { Recorded } from './record.ts'
import type { Workers } from './workers.ts'

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
const WORKER_TIMEOUT_MS = 15_000
const BASELINE_MS = 900_000
/** A mutant that is hit so many times as often as without a change is in a loop without end. */
const HITS_FACTOR = 100
const MIN_HITS = 1000

/** How long a changed program may take, in milliseconds, of that without a change. */
export function limitOf(milliseconds: number): number {
  return TIMEOUT_FACTOR * milliseconds + TIMEOUT_MS
}

/** A process that has judged other mutants is ended sooner: a separate one has the last word. */
function workerLimitOf(milliseconds: number): number {
  return TIMEOUT_FACTOR * milliseconds + WORKER_TIMEOUT_MS
}

/** Runs a test file without a change; undefined where it fails so: it cannot judge. */
export async function baseline(folder: string, file: string): Promise<TestFile | undefined> {
  const began = Date.now()
  const { is, recorded } = await run(folder, file)
  if (is !== 'passed' || recorded === undefined) return undefined
  return { file, milliseconds: Date.now() - began, recorded }
}

/** What to judge with. */
export interface Means {
  /** Processes that judge several mutants, with all test files but the first one of each; absent: none do. */
  workers?: Workers
  /** Test files that are asked first, as they are the likeliest to notice the mutant. */
  first?: ReadonlySet<string>
  /** No further test file is started once the baselines of those before exceed this; the mutant then counts as survived. */
  budgetMs?: number
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
   * Only those tests that come past the mutant, those in `first` and then the quickest files, until one notices. Undefined
   * if a test was ended from outside before one noticed.
   */
  async judge(
    mutant: Mutant,
    files: readonly TestFile[],
    { workers, first = new Set(), budgetMs = Infinity }: Means = {},
  ): Promise<Outcome | undefined> {
    const plans = files
      .flatMap((file) => planOf(file, mutant.id) ?? [])
      .toSorted(
        (one, other) =>
          Number(first.has(other.file)) - Number(first.has(one.file)) ||
          one.milliseconds - other.milliseconds,
      )
    let isBrokenOff = false
    let spentMs = 0
    for (const [index, plan] of plans.entries()) {
      if (spentMs > budgetMs) break
      // Most mutants are noticed by the first file, and a process ends with what it notices.
      const outcome = await this.#outcomeOf(plan, mutant.id, index === 0 ? undefined : workers)
      if (outcome === 'failed') return { is: 'killed', by: plan.file }
      if (outcome === 'timeout') return { is: 'timeout', by: plan.file }
      if (outcome === 'ended') isBrokenOff = true
      spentMs += plan.milliseconds
    }
    if (isBrokenOff) return undefined
    return { is: plans.length === 0 ? 'not covered' : 'survived' }
  }

  async #outcomeOf(plan: Plan, id: string, workers: Workers | undefined): Promise<Ran['is']> {
    const { file, tests, hits } = plan
    const limitMs = limitOf(plan.milliseconds)
    const options = { mutant: id, hits, limitMs }
    if (tests === undefined) return (await run(this.#folder, file, options)).is
    const hint = await workers?.ask(
      file,
      { mutant: id, tests, hits: maxHits(hits) },
      workerLimitOf(plan.milliseconds),
    )
    if (hint?.is === 'passed') return 'passed'
    if (hint?.is === 'failed' && (await this.#passesAlone(file, hint.test))) {
      const alone = await run(this.#folder, file, { ...options, tests: [hint.test] })
      if (alone.is !== 'passed') return alone.is
      // What another mutant has left in that process may have been the cause.
      workers?.distrust(file)
    }
    return this.#outcomeAlone(plan, id)
  }

  async #outcomeAlone({ file, tests = [], hits, milliseconds }: Plan, id: string) {
    const options = { mutant: id, hits, limitMs: limitOf(milliseconds) }
    const first = await run(this.#folder, file, { ...options, tests })
    if (first.is !== 'failed') return first.is
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

/** Runs one test file as a separate process in the copy. */
export function run(folder: string, file: string, options: Options = {}): Promise<Ran> {
  const record = join(folder, `recorded-${process.pid}-${started.next()}.json`)
  const child = spawn(process.execPath, [...PRELOADS.flatMap((one) => ['--import', one]), file], {
    cwd: folder,
    stdio: 'ignore',
    // In a separate group: what the test has started ends with it.
    detached: true,
    env: {
      ...environment(folder),
      TAP_BAIL: '1',
      MUTANTS_RECORD: record,
      ...environmentOf(options),
    },
  })
  started.add(child)
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ is: 'timeout' })
      endGroup(child)
    }, options.limitMs ?? BASELINE_MS)
    child.once('exit', (code, signal) => {
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
    ...(hits !== undefined && { MUTANTS_HITS: String(maxHits(hits)) }),
  }
}

function maxHits(hits: number): number {
  return Math.max(MIN_HITS, HITS_FACTOR * hits)
}

function read(record: string): { recorded?: Recorded } {
  if (!existsSync(record)) return {}
  const recorded = JSON.parse(readFileSync(record, 'utf8')) as Recorded
  rmSync(record)
  return { recorded }
}
