/**
 * Turns of helm Jobs. The count of running Jobs is some seconds old, so a Job that was just granted
 * counts until it must have become visible.
 */

import type { VecCluster } from '../../crds/cluster.ts'
import { getCondition } from '../conditions.ts'
import { jitterOf } from '../jitter.ts'
import type { Settings } from '../protocol.ts'

const VISIBLE_AFTER_MS = 15_000

export class HelmConcurrency {
  readonly #started = new Map<string, number>()

  /** Jobs granted to other resources that the count may not show yet. */
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

/** The same words for all of a wait: the number that runs changes all the time. */
export function limitMessage({ maxHelmJobs }: Pick<Settings, 'maxHelmJobs'>): string {
  return `${maxHelmJobs} helm Jobs are running`
}

/** The last pass found no slot, and gave its Lease back: until there is one, nothing more need be read. */
export function isWaitingForSlot(
  cluster: Pick<VecCluster, 'metadata' | 'status'>,
  settings: Pick<Settings, 'maxHelmJobs'>,
): boolean {
  return getCondition(cluster, 'Applied')?.message === limitMessage(settings)
}

/** When it looks again; those that wait together do not all look at once. */
export function slotRetrySeconds({ metadata }: Pick<VecCluster, 'metadata'>): number {
  return MIN_RETRY_SECONDS + jitterOf(metadata.uid) * (MAX_RETRY_SECONDS - MIN_RETRY_SECONDS)
}
