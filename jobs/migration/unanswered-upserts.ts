/**
 * Upserts whose outcome is unknown. One may reach the target, or a replica behind the node that took it, after its
 * repetition was compared: it would replace what clients write once the collection is Completed.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { Clock } from '../clock.ts'
import { IN_TRANSIT_MS, poll } from '../retry.ts'
import type { RunContext, UpsertWatch } from './context.ts'

const POLL_MS = 5_000

export class UnansweredUpserts implements UpsertWatch {
  readonly #time: Pick<Clock, 'monotonicMs'>
  #count = 0
  /** From then on none of them is in transit. */
  #endsAtMs = -Infinity

  constructor(time: Pick<Clock, 'monotonicMs'>) {
    this.#time = time
  }

  get count(): number {
    return this.#count
  }

  add(afterMs = 0): void {
    this.#count += 1
    const endsAtMs = this.#time.monotonicMs() + afterMs + IN_TRANSIT_MS
    this.#endsAtMs = Math.max(this.#endsAtMs, endsAtMs)
  }

  async wait({ tools, progress }: Pick<RunContext, 'tools' | 'progress'>): Promise<void> {
    const { time, signal, log } = tools
    const afterPause = () => {
      progress.check()
    }
    await poll({ time, signal, pauseMs: POLL_MS, afterPause }, async () => {
      const seconds = Math.ceil((this.#endsAtMs - time.monotonicMs()) / 1000)
      if (seconds <= 0) return true
      log.info({ seconds }, 'waiting for unanswered upserts')
      progress.reportWaiting(
        `comparing in ${seconds} s: an upsert that the target did not answer may still reach it`,
      )
      return undefined
    })
  }
}

/** Whether the engine may still apply an upsert that failed with this error. */
export function mayBeApplied(error: unknown): boolean {
  if (!(error instanceof EngineError)) return false
  const { status } = error
  return status === undefined || status === 408 || status >= 500
}
