/**
 * Calls to an engine that a decision needs. A hook has five seconds and an engine may take an
 * hour: a pass gets one second inline, then goes on in the background while the last result is shown. A
 * hook that waits keeps one of Metacontroller's five workers of its kind: so only the hook that starts a
 * pass waits, and none where the engine was slow the last time.
 */

import {
  EngineError,
  HelmError,
  KubernetesError,
  NotReady,
  Rejected,
  StorageError,
} from '../crds/contract/errors.ts'

const INLINE_MS = 1_000
const FIRST_RETRY_SECONDS = 2
const LAST_RETRY_SECONDS = 30
/** Engines that are known to be slow; past it the oldest is given another chance. */
const MAX_SLOW = 1000

/** What is known of a pass when a decision is made. */
export interface TaskResult<T> {
  /** The newest result there is; undefined until the first one. */
  value?: T
  /** What the newest pass threw; the value is that of an earlier one. */
  failure?: { error: unknown }
  /** A pass is still under way: look again after so many seconds. */
  requeueAfterSeconds?: number
}

export interface TaskOptions {
  isDue?: boolean
  /** Whom the pass asks; by default nobody else asks it. */
  engine?: string
}

interface TaskEntry<T> {
  running: RunningTask | undefined
  latest: { value: T; at: number } | undefined
  failure: { error: unknown } | undefined
  /** Looks at a running pass so far; each doubles the pause to the next. */
  polls: number
  retryNotBefore: number
}

interface RunningTask {
  settled: Promise<void>
  abort: AbortController
}

/** At most one pass per resource, keyed by uid. Holds what is under way and the last results. */
export class BackgroundTasks<T> {
  readonly #entries = new Map<string, TaskEntry<T>>()
  readonly #freshSeconds: number
  readonly #inlineMs: number
  /** Whose last pass took longer than a hook waits; the one noted last comes last. */
  readonly #slowEngines = new Set<string>()

  /** A result younger than `freshSeconds` is good enough for another decision. */
  constructor(freshSeconds: number, inlineMs = INLINE_MS) {
    this.#freshSeconds = freshSeconds
    this.#inlineMs = inlineMs
  }

  /**
   * A room that knows better when a pass is due says so. Resources with the same `engine` wait for the
   * same one: where it was slow for one of them, the others do not wait for it.
   */
  async run(
    uid: string,
    now: Date,
    task: (signal: AbortSignal) => Promise<T>,
    { isDue = true, engine = uid }: TaskOptions = {},
  ): Promise<TaskResult<T>> {
    const entry = this.#getOrCreate(uid)
    const shouldStart = isDue && entry.running === undefined && this.#isDue(entry, now.getTime())
    if (shouldStart) {
      const { settled } = (entry.running = startTask(entry, now, task))
      await this.#waitInline(engine, settled)
    }
    return currentResult(entry)
  }

  /** The newest result, without a look at what runs. */
  latest(uid: string): T | undefined {
    return this.#entries.get(uid)?.latest?.value
  }

  /** Ends the pass of a resource and waits for it, so that nothing is written afterwards. */
  async abort(uid: string): Promise<void> {
    const running = this.#entries.get(uid)?.running
    running?.abort.abort()
    await running?.settled
    this.#entries.delete(uid)
    this.#slowEngines.delete(uid)
  }

  /** One second at most, and nothing at all for an engine that is slow. */
  async #waitInline(engine: string, settled: Promise<void>): Promise<void> {
    const started = performance.now()
    void settled.then(() =>
      this.#recordSpeed(engine, performance.now() - started >= this.#inlineMs),
    )
    if (this.#slowEngines.has(engine)) return
    if (!(await settlesWithin(settled, this.#inlineMs))) this.#recordSpeed(engine, true)
  }

  #recordSpeed(engine: string, isSlow: boolean): void {
    this.#slowEngines.delete(engine)
    if (!isSlow) return
    this.#slowEngines.add(engine)
    const [oldest] = this.#slowEngines
    if (this.#slowEngines.size > MAX_SLOW && oldest !== undefined) this.#slowEngines.delete(oldest)
  }

  #getOrCreate(uid: string): TaskEntry<T> {
    const existing = this.#entries.get(uid)
    if (existing !== undefined) return existing
    const entry = {
      ...{ running: undefined, latest: undefined, failure: undefined },
      ...{ polls: 0, retryNotBefore: 0 },
    }
    this.#entries.set(uid, entry)
    return entry
  }

  #isDue({ latest, retryNotBefore }: TaskEntry<T>, now: number): boolean {
    return (
      now >= retryNotBefore &&
      (latest === undefined || now - latest.at >= this.#freshSeconds * 1000)
    )
  }
}

function startTask<T>(
  entry: TaskEntry<T>,
  now: Date,
  task: (signal: AbortSignal) => Promise<T>,
): RunningTask {
  const abort = new AbortController()
  entry.polls = 0
  const settled = task(abort.signal)
    .then(
      (value) => {
        entry.latest = { value, at: now.getTime() }
        entry.failure = undefined
      },
      (error: unknown) => {
        // One that was ended throws because of that.
        if (!abort.signal.aborted) entry.failure = { error }
        // The last result stands; an engine that did not answer is left alone for a while.
        entry.retryNotBefore = now.getTime() + LAST_RETRY_SECONDS * 1000
      },
    )
    .finally(() => {
      entry.running = undefined
    })
  return { settled, abort }
}

function currentResult<T>(entry: TaskEntry<T>): TaskResult<T> {
  const value = {
    ...(entry.latest !== undefined && { value: entry.latest.value }),
    ...(entry.failure !== undefined && { failure: entry.failure }),
  }
  if (entry.running === undefined) return value
  const pauseSeconds = Math.min(FIRST_RETRY_SECONDS * 2 ** entry.polls, LAST_RETRY_SECONDS)
  entry.polls += 1
  return { ...value, requeueAfterSeconds: pauseSeconds }
}

async function settlesWithin(promise: Promise<void>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, milliseconds, false)
  })
  const isSettled = await Promise.race([promise.then(() => true), limit])
  clearTimeout(timer)
  return isSettled
}

const EXPECTED_ERRORS = [NotReady, Rejected, EngineError, StorageError, KubernetesError, HelmError]

/** One of the closed set of errors; anything else is a defect, which the log shows with its stack. */
export function isExpected(error: unknown): error is Error {
  return EXPECTED_ERRORS.some((expected) => error instanceof expected)
}

/** Nothing of a defect but that it happened: its message may hold anything. */
export function errorMessage(error: unknown): string {
  if (isExpected(error)) return error.message
  const name = error instanceof Error ? error.name : typeof error
  return `internal error: ${name}; the log of the service has it`
}
