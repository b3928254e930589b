/**
 * What an engine answers now and may answer otherwise a little later, and how long that is waited for.
 */
import { EngineError, Rejected, StorageError } from '../crds/contract/errors.ts'
import type { Dependencies } from './dependencies.ts'

const POLL_MS = 5_000
const MAX_WAIT_MS = 600_000
const TOTAL_MS = 1_800_000
/** Also where all patience is gone, a moment is left for what ends at once. */
const MIN_MS = 10_000

/**
 * How long may still be waited. A node that stays away must not cost its time for each of hundreds of
 * collections.
 */
export class RetryBudget {
  #remainingMs: number
  #consumedUntil = 0

  constructor(totalMs = TOTAL_MS) {
    this.#remainingMs = totalMs
  }

  /** For one thing that is waited for. */
  nextLimitMs(): number {
    return Math.max(MIN_MS, Math.min(MAX_WAIT_MS, this.#remainingMs))
  }

  /** So long was waited, up to `now`: what was waited beside it at the same time counts once. */
  consume(ms: number, now?: Date): void {
    const until = now?.getTime() ?? this.#consumedUntil + ms
    const from = Math.max(until - ms, this.#consumedUntil)
    this.#remainingMs -= Math.max(0, until - from)
    this.#consumedUntil = Math.max(until, from)
  }
}

/** Asks until there is an answer, within bounds: for nodes that are restarted. */
export async function retryTransient<Result>(
  {
    patience,
    tools,
  }: { patience: RetryBudget; tools: Pick<Dependencies, 'signal' | 'log' | 'time'> },
  call: () => Promise<Result>,
): Promise<Result> {
  const limitMs = patience.nextLimitMs()
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    try {
      return await call()
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isTransient(error) || waitedMs >= limitMs) throw error
      tools.log.info({ reason: error.message }, 'waits for the engine')
      await tools.time.sleep(POLL_MS, tools.signal)
      patience.consume(POLL_MS)
    }
  }
}

/** Whether the engine may answer otherwise a little later. */
export function isTransient(error: unknown): error is EngineError {
  if (!(error instanceof EngineError)) return false
  const { status, message } = error
  if (status === undefined) return !isTlsError(message)
  return (status >= 500 && !isDiskFull(message)) || [404, 408, 429].includes(status)
}

/** What a person can do about it, where the engine's words do not say. */
export function withHint(message: string): string {
  // A node whose volume is full says so of most files, but not of those it unpacks.
  if (/failed to unpack/i.test(message) && !isDiskFull(message)) {
    return `${message} (is the data volume of that node full?)`
  }
  if (!isDiskFull(message)) return message
  return `${message} (the snapshot does not fit: enable snapshotPersistence or grow the data volume)`
}

/** Nobody mends a certificate by waiting. */
export function isTlsError(message: string): boolean {
  return message.includes('TLS verification failed')
}

export function isDiskFull(message: string): boolean {
  return /no space left|out of disk|answered 507\b/i.test(message)
}

/** What a person can mend is told; anything else is a crash, and tried again. */
export function isReportable(error: unknown): error is Rejected | StorageError | EngineError {
  return error instanceof Rejected || error instanceof StorageError || error instanceof EngineError
}

/** A word for the report. */
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
 * The items of a lane one after the other, so many lanes at once. Past the first failure nothing more is
 * begun; what is under way comes to its end before that failure is thrown.
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
