/**
 * How the last helm run failed, according to its report or to the outcome of its Job, and
 * when the next one may start.
 *
 * A limit applies to the number of concurrent helm Jobs; after a restart of the service many clusters wait for a slot.
 * The count of running Jobs may be a few seconds old, so a Job that was just started is counted separately
 * until it must be visible. A cluster whose Job did not start goes behind the clusters that wait:
 * clusters whose Jobs can never start must not hold every slot.
 */
import type { Progress } from '../../crds/contract/job.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { getCondition, jitterOf, secondsSinceRecorded } from '../conditions.ts'
import { latestJob, runNumber } from '../request.ts'
import { endTime, planHash } from '../job-watch.ts'
import type { Context, Settings } from '../protocol.ts'
import type { Observed } from './ports.ts'

export interface Failure extends ConditionReason {
  /** Hash of the plan that failed. */
  plan: string | undefined
  failedAt: string
  /** The Job rejected the plan; a retry does not help. */
  rejected: boolean
}

/** Reasons of the condition Applied that mean "in progress", not "failed". */
const IN_PROGRESS_REASONS = new Set([
  'HelmRunning',
  'HelmStarting',
  'HelmConcurrencyLimit',
  'ClusterBusy',
  'Draining',
  'ShardsRunning',
  'MaintenanceWindow',
  'AwaitingBackup',
  'Uninstalling',
  // Stored by the previous release for the two above. Remove with the next release.
  'WaitingForTurn',
])

/** Reasons that each sync checks before it starts a run: once it starts one, they no longer apply. */
const CHECKED_REASONS = new Set([
  ...['InvalidSpec', 'InvalidSecret', 'VolumeKept', 'SplitBrain'],
  ...['HibernationBackupFailed', 'BackupScheduleInvalid'],
  // Why nodes cannot be drained.
  ...['NotEnoughNodes', 'NoCapacity', 'NoActiveReplica', 'LastReplicaLost', 'TransferFailed'],
  ...['ForeignResharding', 'TransferStalled'],
  // What becomes of a Job, and what is missing, is observed by each sync.
  ...['JobNotStarted', 'ReleaseIncomplete'],
])

/** How the last run failed; `unknown` while its report may still arrive; undefined if it did not fail. */
export function lastFailure(
  { cluster, jobs, progress }: Observed,
  { now }: Context,
): Failure | 'unknown' | undefined {
  const latest = latestJob(helmJobs(jobs))
  const finished = latest && finishedCondition(latest)
  const report = progress?.verb === 'shards' ? undefined : progress
  const reported = () => reportedFailure(report, latest, now)
  if (latest === undefined || finished === undefined) return reported()
  if (reportsEndOf(progress, latest)) {
    if (report !== undefined) return reported()
    // Work on the shards has replaced the report of this run.
    return finished.type === 'Complete'
      ? undefined
      : replacedFailure(cluster, latest, finished.lastTransitionTime ?? '')
  }
  const failedAt = finished.lastTransitionTime ?? ''
  if (secondsSinceRecorded(failedAt, now) < FINAL_REPORT_TIMEOUT_SECONDS) return 'unknown'
  const crashes = latest.status?.failed ?? 1
  return {
    reason: 'JobCrashed',
    message: `Job crashed ${crashes} times`,
    plan: planHash(latest),
    failedAt,
    rejected: false,
  }
}

/** The Jobs that run helm: the others of a VecCluster work on its shards. */
export function helmJobs(jobs: Job[]): Job[] {
  return jobs.filter(({ metadata }) => metadata.labels?.[LABELS.verb] !== 'shards')
}

/** Reasons of a helm Job that rejects its plan. */
export const REJECTED_REASONS: ReadonlySet<string> = new Set([
  ...['ShardsWouldBeLost', 'VersionSkipped', 'VersionDowngraded'],
  'VolumeNotExpandable',
  'VolumeNotModifiable',
])

/** The failure of a run whose report was replaced: the status still has its reason. */
function replacedFailure(cluster: VecCluster, job: Job, failedAt: string): Failure {
  const recorded = previousFailure(cluster) ?? {
    reason: 'HelmFailed',
    message: 'the helm run failed',
  }
  return {
    ...recorded,
    plan: planHash(job),
    failedAt,
    rejected: REJECTED_REASONS.has(recorded.reason),
  }
}

function reportedFailure(
  progress: Progress | undefined,
  job: Job | undefined,
  now: Date,
): Failure | undefined {
  if (progress?.state !== 'Failed' && progress?.state !== 'Refused') return undefined
  return {
    reason: progress.reason ?? 'HelmFailed',
    message: progress.message ?? 'the helm run failed',
    plan: progress.plan,
    failedAt: endTime(progress, job, now),
    rejected: progress.state === 'Refused',
  }
}

/** The report describes the outcome of this Job, or of a later Job that is already deleted. */
export function reportsEndOf(progress: Progress | undefined, job: Job): boolean {
  if (progress === undefined) return false
  if (progress.job === job.metadata.uid) return progress.state !== 'Started'
  return progress.run > runNumber(job)
}

const NEXT_ATTEMPT = '; the next attempt '

/** The failure of the previous run, and what the next one waits for; status.failedRun has the former alone. */
export function awaitingNextAttempt(
  { reason, message }: ConditionReason,
  awaited: ConditionReason,
): ConditionReason {
  return { reason, message: `${message}${NEXT_ATTEMPT}${awaited.message}` }
}

/** The failure of the previous run of this generation; it is reported until a run succeeds. */
export function previousFailure(cluster: VecCluster): ConditionReason | undefined {
  const applied = getCondition(cluster, 'Applied')
  if (applied?.status !== 'False' || IN_PROGRESS_REASONS.has(applied.reason)) return undefined
  if (CHECKED_REASONS.has(applied.reason)) return undefined
  if (applied.observedGeneration !== cluster.metadata.generation) return undefined
  // What the next one waited for is decided again.
  const { failedRun } = cluster.status ?? {}
  if (failedRun?.reason === applied.reason) return failedRun
  // Stored by the previous release, which had no such field. Remove with the next release.
  const [message = ''] = applied.message.split(NEXT_ATTEMPT)
  return { reason: applied.reason, message }
}

/** Whether a reason describes a failure that needs attention. */
export function isFailureReason(reason: string): boolean {
  return !IN_PROGRESS_REASONS.has(reason)
}

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
