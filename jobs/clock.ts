/** The clock of a command: tests pass one that does not really wait. */
import { setTimeout } from 'node:timers/promises'

export interface Clock {
  now(): Date
  /** Rejects with the signal's reason when it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => new Date(),
  async sleep(ms, signal) {
    await setTimeout(ms, undefined, { ...(signal !== undefined && { signal }) }).catch(
      (error: unknown) => {
        signal?.throwIfAborted()
        throw error
      },
    )
  },
}
