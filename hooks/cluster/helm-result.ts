/** How the last helm run failed, according to its report or to the outcome of its Job. */
import type { Progress } from '../../crds/contract/job.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { getCondition, secondsSinceRecorded } from '../conditions.ts'
import { latestJob, runNumber } from '../request.ts'
import { endTime, planHash } from '../job-watch.ts'
import type { Context } from '../protocol.ts'
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
