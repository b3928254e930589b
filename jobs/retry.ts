/**
 * Retries and polls: the loops of all commands, which errors of an engine are transient, and the
 * time budget for them. Also runs groups of tasks concurrently.
 */
import { EngineError, Rejected, StorageError } from '../crds/contract/errors.ts'
import type { Clock } from './clock.ts'
import type { Logger } from 'pino'

interface RetryOptions {
  time: Pick<Clock, 'monotonicMs' | 'sleep'>
  /** Ends a pause early, with its reason. */
  signal?: AbortSignal | undefined
  /**
   * Milliseconds until the next attempt; undefined if there is none: the error is thrown. `waitedMs` counts pauses
   * and calls since the first call failed.
   */
  pauseMs: (
    error: unknown,
    state: { retries: number; waitedMs: number },
  ) => number | undefined | Promise<number | undefined>
  /** Runs between a pause and the next attempt. */
  afterPause?: (pauseMs: number, error: unknown) => void | Promise<void>
}

/** Repeats a call until it succeeds or `pauseMs` gives up. */
export async function retry<Result>(
  { time, signal, pauseMs, afterPause }: RetryOptions,
  call: () => Promise<Result>,
): Promise<Result> {
  let firstFailureMs: number | undefined
  for (let retries = 0; ; retries += 1) {
    try {
      return await call()
    } catch (error) {
      firstFailureMs ??= time.monotonicMs()
      const waitedMs = time.monotonicMs() - firstFailureMs
      const pause = await pauseMs(error, { retries, waitedMs })
      if (pause === undefined) throw error
      await time.sleep(pause, signal)
      await afterPause?.(pause, error)
    }
  }
}

interface PollOptions {
  time: Pick<Clock, 'monotonicMs' | 'sleep'>
  /** Ends a pause early, with its reason. */
  signal?: AbortSignal | undefined
  /** Milliseconds between two checks; the last entry of a list repeats. */
  pauseMs: number | readonly number[]
  /** Pauses before the first check too. */
  pauseFirst?: boolean
  /** Runs after each pause. */
  afterPause?: () => void | Promise<void>
}

/**
 * Repeats a check until it returns a result; a check that no longer waits throws. `waitedMs` returns the time since
 * the first check or, with `pauseFirst`, since the start: pauses and checks, including the current one.
 */
export async function poll<Result>(
  { time, signal, pauseMs, pauseFirst = false, afterPause }: PollOptions,
  check: (state: { pauses: number; waitedMs: () => number }) => Promise<Result | undefined>,
): Promise<Result> {
  const schedule = typeof pauseMs === 'number' ? [pauseMs] : pauseMs
  let startMs: number | undefined
  const waitedMs = () => (startMs === undefined ? 0 : time.monotonicMs() - startMs)
  for (let pauses = 0; ; pauses += 1) {
    if (pauses > 0 || !pauseFirst) {
      const result = await check({ pauses, waitedMs })
      if (result !== undefined) return result
    }
    startMs ??= time.monotonicMs()
    await time.sleep(schedule[pauses] ?? schedule.at(-1) ?? 0, signal)
    await afterPause?.()
  }
}

/**
 * A request may reach the engine after its client has disconnected: the kernel keeps sending what the client has
 * written, for about 100 s while the network is down. After this time no request is in transit.
 */
export const IN_TRANSIT_MS = 120_000

const POLL_MS = 5_000
const MAX_WAIT_MS = 600_000
const TOTAL_MS = 1_800_000
/** Even with an exhausted budget a moment is left for conditions that clear at once. */
const MIN_MS = 10_000

/**
 * The remaining time to wait. A node that stays away must not cost its time for each of hundreds of
 * collections.
 */
export class RetryBudget {
  #remainingMs: number
  #consumedUntil = -Infinity

  constructor(totalMs = TOTAL_MS) {
    this.#remainingMs = totalMs
  }

  /** The time limit for one wait. */
  nextLimitMs(): number {
    return Math.max(MIN_MS, Math.min(MAX_WAIT_MS, this.#remainingMs))
  }

  /** Subtracts the `ms` before `now`, by the monotonic clock: concurrent waits count once. */
  consume(ms: number, now: number): void {
    const from = Math.max(now - ms, this.#consumedUntil)
    this.#remainingMs -= Math.max(0, now - from)
    this.#consumedUntil = Math.max(now, from)
  }
}

interface RetryTools {
  signal: AbortSignal
  log: Logger
  time: Clock
}

/** Retries until there is a response, within bounds: for nodes that are restarted. */
export async function retryTransient<Result>(
  { retryBudget, tools }: { retryBudget: RetryBudget; tools: RetryTools },
  call: () => Promise<Result>,
): Promise<Result> {
  const { time, signal, log } = tools
  const limitMs = retryBudget.nextLimitMs()
  const pauseMs = (error: unknown, { waitedMs }: { waitedMs: number }) => {
    signal.throwIfAborted()
    retryBudget.consume(waitedMs, time.monotonicMs())
    if (!isTransient(error) || waitedMs >= limitMs) return undefined
    log.info({ reason: error.message }, 'waiting for the engine')
    return POLL_MS
  }
  const afterPause = () => {
    retryBudget.consume(POLL_MS, time.monotonicMs())
  }
  return retry({ time, signal, pauseMs, afterPause }, call)
}

/**
 * The same for a call that changes something: before each attempt it verifies that no other pod has replaced this one,
 * which may have happened during a pause.
 */
export async function retryChange<Result>(
  context: {
    retryBudget: RetryBudget
    tools: RetryTools & { reporter: { verifyOwnership(): Promise<unknown> } }
  },
  change: () => Promise<Result>,
): Promise<Result> {
  return retryTransient(context, async () => {
    await context.tools.reporter.verifyOwnership()
    return change()
  })
}

/** Whether the engine may answer differently a little later. */
export function isTransient(error: unknown): error is EngineError {
  if (!(error instanceof EngineError)) return false
  const { status, message } = error
  if (status === undefined) return !isTlsError(message)
  return (status >= 500 && !isDiskFull(message)) || [404, 408, 429].includes(status)
}

/** Adds what a user can do about it if the engine's message does not say. */
export function withHint(message: string): string {
  // A node with a full volume says so for most files, but not for those it unpacks.
  if (/failed to unpack/i.test(message) && !isDiskFull(message)) {
    return `${message} (is the data volume of that node full?)`
  }
  if (!isDiskFull(message)) return message
  return `${message} (the snapshot does not fit: enable snapshotPersistence or grow the data volume)`
}

/** Waiting does not fix a certificate. */
export function isTlsError(message: string): boolean {
  return message.includes('TLS verification failed')
}

export function isDiskFull(message: string): boolean {
  return /no space left|out of disk|answered 507\b/i.test(message)
}

/** An error that a user can fix is reported; any other is a crash and is retried. */
export function isReportable(error: unknown): error is Rejected | StorageError | EngineError {
  return error instanceof Rejected || error instanceof StorageError || error instanceof EngineError
}

/** The reason code for the report. */
export function reportReason(error: Rejected | StorageError | EngineError): string {
  switch (error.code) {
    case 'Rejected':
      return 'Rejected'
    case 'StorageError':
      return 'BucketFailed'
    case 'EngineError':
      return 'EngineFailed'
  }
}

/**
 * Runs groups of tasks concurrently; tasks within a group run in order. After the first failure no
 * task is started; running tasks finish before that failure is thrown.
 */
export async function runGroupsConcurrently<Item>(
  groups: readonly (readonly Item[])[],
  concurrency: number,
  task: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = []
  const queue = groups.values()
  const worker = async () => {
    for (const group of queue) {
      for (const item of group) {
        if (failures.length > 0) return
        await task(item).catch((error: unknown) => failures.push(error))
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, groups.length) }, worker))
  if (failures.length > 0) throw failures[0]
}

/** Runs `task` on every item, at most `limit` at the same time. Results are in the order of the items. */
export async function mapConcurrently<Item, Result>(
  items: readonly Item[],
  limit: number,
  task: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const queue = items.entries()
  const worker = async () => {
    for (const [index, item] of queue) results[index] = await task(item)
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  return results
}
