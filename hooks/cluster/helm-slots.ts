/**
 * The limit of concurrent helm Jobs (10 unless the chart sets another one); after a restart of the service many clusters wait
 * for a slot. The count of running Jobs may be a few seconds old, so a Job that was just started is counted separately
 * until it must be visible. A cluster whose Job did not start goes behind the clusters that wait: clusters whose Jobs can never
 * start must not hold every slot.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { getCondition, jitterOf } from '../conditions.ts'
import type { Settings } from '../protocol.ts'

const VISIBLE_AFTER_MS = 15_000

export class HelmConcurrency {
  readonly #started = new Map<string, number>()
  /** When each cluster last found no slot. */
  readonly #waiting = new Map<string, number>()
  /** Clusters whose last Job was deleted because it had not started. */
  readonly #notStarted = new Set<string>()

  /**
   * Number of slots that the count of running Jobs may not include: of Jobs started for other
   * clusters, and those of the clusters that this one goes behind.
   */
  slotsOfOthers(uid: string, now: Date): number {
    forgetOlder(this.#started, VISIBLE_AFTER_MS, now)
    const starting = this.#started.size - (this.#started.has(uid) ? 1 : 0)
    if (!this.#notStarted.has(uid)) return starting
    forgetOlder(this.#waiting, WAITING_MS, now)
    // Two clusters whose Jobs did not start must not wait for each other.
    const ahead = [...this.#waiting.keys()].filter((waiting) => !this.#notStarted.has(waiting))
    return starting + ahead.length
  }

  /** A helm Job is created for this cluster. */
  markStarted(uid: string, now: Date): void {
    this.forget(uid)
    this.#started.set(uid, now.getTime())
  }

  /** Whether the cluster waits for a slot and for nothing else. */
  markWaiting(uid: string, isWaiting: boolean, now: Date): void {
    if (isWaiting) this.#waiting.set(uid, now.getTime())
    else this.#waiting.delete(uid)
  }

  /** The Job of this cluster is deleted because it has not started. */
  markNotStarted(uid: string): void {
    this.#notStarted.add(uid)
  }

  /** The cluster is deleted, or gets a Job. */
  forget(uid: string): void {
    this.#waiting.delete(uid)
    this.#notStarted.delete(uid)
  }
}

function forgetOlder(times: Map<string, number>, maxAgeMs: number, now: Date): void {
  for (const [uid, time] of times) if (now.getTime() - time > maxAgeMs) times.delete(uid)
}

const MIN_RETRY_SECONDS = 10
const MAX_RETRY_SECONDS = 20
/** A waiting cluster is checked again before that, unless the service is busy. */
const WAITING_MS = 2 * MAX_RETRY_SECONDS * 1000

/** Shows the limit, not the changing number of running Jobs, so the message is stable during the wait. */
export function limitMessage({ maxHelmJobs }: Pick<Settings, 'maxHelmJobs'>): string {
  return `${maxHelmJobs} helm Jobs are running`
}

export function areSlotsTaken(
  unfinishedHelmJobs: number,
  { maxHelmJobs }: Pick<Settings, 'maxHelmJobs'>,
): boolean {
  return unfinishedHelmJobs >= maxHelmJobs
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
