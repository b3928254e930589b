/**
 * Limits the number of concurrent helm Jobs; after a restart of the service many clusters wait for a slot.
 * The count of running Jobs may be a few seconds old, so a Job that was just started is counted separately
 * until it must be visible.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { getCondition, jitterOf } from '../conditions.ts'
import type { Settings } from '../protocol.ts'

const VISIBLE_AFTER_MS = 15_000

export class HelmConcurrency {
  readonly #started = new Map<string, number>()

  /** Number of Jobs started for other resources that the count may not include yet. */
  othersStarting(uid: string, now: Date): number {
    for (const [startedUid, startedAt] of this.#started) {
      if (now.getTime() - startedAt > VISIBLE_AFTER_MS) this.#started.delete(startedUid)
    }
    return this.#started.size - (this.#started.has(uid) ? 1 : 0)
  }

  markStarted(uid: string, now: Date): void {
    this.#started.set(uid, now.getTime())
  }
}

const MIN_RETRY_SECONDS = 10
const MAX_RETRY_SECONDS = 20

/** Shows the limit, not the changing number of running Jobs, so the message is stable during the wait. */
export function limitMessage({ maxHelmJobs }: Pick<Settings, 'maxHelmJobs'>): string {
  return `${maxHelmJobs} helm Jobs are running`
}

/** The last sync found no slot and released its Lease; nothing else must be read until a slot is free. */
export function isWaitingForSlot(
  cluster: Pick<VecCluster, 'metadata' | 'status'>,
  settings: Pick<Settings, 'maxHelmJobs'>,
): boolean {
  return getCondition(cluster, 'Applied')?.message === limitMessage(settings)
}

/** Seconds until the next check, with jitter so that waiting clusters do not all check at once. */
export function slotRetrySeconds({ metadata }: Pick<VecCluster, 'metadata'>): number {
  return MIN_RETRY_SECONDS + jitterOf(metadata.uid) * (MAX_RETRY_SECONDS - MIN_RETRY_SECONDS)
}
