/**
 * What an engine answers now and may answer otherwise a little later, and how long that is waited for.
 */
import { EngineError } from '../crds/errors.ts'
import type { Tools } from './tools.ts'

const POLL_MS = 5_000
const COLLECTION_MS = 600_000
const RUN_MS = 1_800_000
/** Also where all patience is gone, a moment is left for what ends at once. */
const LEAST_MS = 10_000

/**
 * How long may still be waited. A node that stays away must not cost its time for each of hundreds of
 * collections.
 */
export class Patience {
  #leftMs: number
  #spentUntil = 0

  constructor(leftMs = RUN_MS) {
    this.#leftMs = leftMs
  }

  /** For one thing that is waited for. */
  share(): number {
    return Math.max(LEAST_MS, Math.min(COLLECTION_MS, this.#leftMs))
  }

  /** So long was waited, up to `now`: what was waited beside it at the same time counts once. */
  spend(ms: number, now?: Date): void {
    const until = now?.getTime() ?? this.#spentUntil + ms
    const from = Math.max(until - ms, this.#spentUntil)
    this.#leftMs -= Math.max(0, until - from)
    this.#spentUntil = Math.max(until, from)
  }
}

/** Asks until there is an answer, within bounds: for nodes that are restarted. */
export async function patiently<Result>(
  { patience, tools }: { patience: Patience; tools: Pick<Tools, 'signal' | 'log' | 'time'> },
  ask: () => Promise<Result>,
): Promise<Result> {
  const limit = patience.share()
  for (let waited = 0; ; waited += POLL_MS) {
    try {
      return await ask()
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isPassing(error) || waited >= limit) throw error
      tools.log.info({ reason: error.message }, 'waits for the engine')
      await tools.time.sleep(POLL_MS, tools.signal)
      patience.spend(POLL_MS)
    }
  }
}

/** Whether the engine may answer otherwise a little later. */
export function isPassing(error: unknown): error is EngineError {
  if (!(error instanceof EngineError)) return false
  const { status, message } = error
  if (status === undefined) return !isUntrusted(message)
  return (status >= 500 && !isFull(message)) || [404, 408, 429].includes(status)
}

/** What a person can do about it, where the engine's words do not say. */
export function explained(message: string): string {
  // A node whose volume is full says so of most files, but not of those it unpacks.
  if (/failed to unpack/i.test(message) && !isFull(message)) {
    return `${message} (is the data volume of that node full?)`
  }
  if (!isFull(message)) return message
  return `${message} (the snapshot does not fit: enable snapshotPersistence or grow the data volume)`
}

/** Nobody mends a certificate by waiting. */
export function isUntrusted(message: string): boolean {
  return message.includes('TLS verification failed')
}

export function isFull(message: string): boolean {
  return /no space left|out of disk|answered 507\b/i.test(message)
}
