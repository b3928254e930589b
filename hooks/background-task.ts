/**
 * Engine calls that a decision depends on. A hook has five seconds and an engine may take an hour:
 * a task gets one second inline, then continues in the background while the last result is
 * returned. A waiting hook occupies one of Metacontroller's five workers for its kind. Only the
 * hook that starts a task therefore waits, and it does not wait if the engine was slow last time.
 */

import {
  EngineError,
  HelmError,
  KubernetesError,
  NotReady,
  Rejected,
  StorageError,
} from '../crds/contract/errors.ts'
import { isRecent } from './conditions.ts'

const INLINE_MS = 1_000
const FIRST_RETRY_SECONDS = 2
const LAST_RETRY_SECONDS = 30
/** Maximum number of engines remembered as slow; beyond it the oldest entry is forgotten. */
const MAX_SLOW = 1000

/** What is known about a task when a decision is made. */
export interface TaskResult<T> {
  /** The newest result; undefined until the first one. */
  value?: T
  /** The error of the latest task; the value then comes from an earlier one. */
  failure?: { error: unknown }
  /** A task is still running: check again after this many seconds. */
  requeueAfterSeconds?: number
}

export interface TaskOptions {
  isDue?: boolean
  /** The engine that the task calls; by default it is not shared with other resources. */
  engine?: string
}

interface TaskEntry<T> {
  running: RunningTask | undefined
  latest: { value: T; at: number } | undefined
  failure: { error: unknown } | undefined
  /**
   * Number of times a running task was checked so far; each check doubles the delay to the next.
   */
  polls: number
  /** When the task that failed last was started. */
  failedAt: number
}

interface RunningTask {
  completion: Promise<void>
  abort: AbortController
}

/**
 * Runs at most one task per resource, keyed by uid. Holds the running tasks and the last results.
 */
export class BackgroundTasks<T> {
  readonly #entries = new Map<string, TaskEntry<T>>()
  readonly #freshSeconds: number
  readonly #inlineMs: number
  /** Keys whose last task took longer than a hook waits; the latest entry is last. */
  readonly #slowEngines = new Set<string>()

  /** A result younger than `freshSeconds` is reused for another decision. */
  constructor(freshSeconds: number, inlineMs = INLINE_MS) {
    this.#freshSeconds = freshSeconds
    this.#inlineMs = inlineMs
  }

  /**
   * For kinds that decide themselves when a task is due. Resources with the same `engine` share its
   * slowness: if it was slow for one of them, the others do not wait for it.
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
      const { completion } = (entry.running = startTask(entry, now, task))
      await this.#waitInline(engine, completion)
    }
    return currentResult(entry)
  }

  /** Returns the newest result without checking the running task. */
  latest(uid: string): T | undefined {
    return this.#entries.get(uid)?.latest?.value
  }

  /** Aborts the task of a resource and waits for it, so that it writes nothing afterwards. */
  async abort(uid: string): Promise<void> {
    const running = this.#entries.get(uid)?.running
    running?.abort.abort()
    await running?.completion
    this.#entries.delete(uid)
    this.#slowEngines.delete(uid)
  }

  /** Waits at most one second, and not at all for a slow engine. */
  async #waitInline(engine: string, completion: Promise<void>): Promise<void> {
    const started = performance.now()
    void completion.then(() =>
      this.#recordSpeed(engine, performance.now() - started >= this.#inlineMs),
    )
    if (this.#slowEngines.has(engine)) return
    if (!(await settlesWithin(completion, this.#inlineMs))) this.#recordSpeed(engine, true)
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
      ...{ polls: 0, failedAt: -Infinity },
    }
    this.#entries.set(uid, entry)
    return entry
  }

  #isDue({ latest, failedAt }: TaskEntry<T>, now: number): boolean {
    if (isRecent(failedAt, LAST_RETRY_SECONDS * 1000, now)) return false
    return latest === undefined || !isRecent(latest.at, this.#freshSeconds * 1000, now)
  }
}

function startTask<T>(
  entry: TaskEntry<T>,
  now: Date,
  task: (signal: AbortSignal) => Promise<T>,
): RunningTask {
  const abort = new AbortController()
  entry.polls = 0
  const completion = task(abort.signal)
    .then(
      (value) => {
        entry.latest = { value, at: now.getTime() }
        entry.failure = undefined
      },
      (error: unknown) => {
        // An aborted task throws because it was aborted.
        if (!abort.signal.aborted) entry.failure = { error }
        // The last result remains valid; an engine that did not respond is not called for a while.
        entry.failedAt = now.getTime()
      },
    )
    .finally(() => {
      entry.running = undefined
    })
  return { completion, abort }
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
  const hasCompleted = await Promise.race([promise.then(() => true), limit])
  clearTimeout(timer)
  return hasCompleted
}

const EXPECTED_ERRORS = [NotReady, Rejected, EngineError, StorageError, KubernetesError, HelmError]

/**
 * Whether the error is in the closed set of errors; any other error is a defect, which the log
 * shows with its stack.
 */
export function isExpected(error: unknown): error is Error {
  return EXPECTED_ERRORS.some((expected) => error instanceof expected)
}

/**
 * Reports of a defect only that it happened: its message may contain anything, secrets included.
 */
export function errorMessage(error: unknown): string {
  if (isExpected(error)) return error.message
  const name = error instanceof Error ? error.name : typeof error
  return `internal error: ${name}; see the log of the service`
}
