/** The clock of a command: tests pass one that does not really wait. */
import { setTimeout } from 'node:timers/promises'

export interface Clock {
  now(): Date
  /** Milliseconds since an arbitrary moment, for elapsed time: setting the system clock does not change it. */
  monotonicMs(): number
  /** Rejects with the signal's reason when it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMs: () => performance.now(),
  async sleep(ms, signal) {
    await setTimeout(ms, undefined, { ...(signal !== undefined && { signal }) }).catch(
      (error: unknown) => {
        signal?.throwIfAborted()
        throw error
      },
    )
  },
}
