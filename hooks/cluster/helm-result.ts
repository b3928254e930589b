/** How the last helm run failed, from its report or from the end of its Job. */
import type { Progress } from '../../crds/contract/job.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { getCondition, secondsSince } from '../conditions.ts'
import { latestJob, planHash, runNumber } from '../job.ts'
import type { Context } from '../protocol.ts'
import type { Observed } from './observed.ts'
import type { ConditionReason } from './status.ts'

export interface Failure extends ConditionReason {
  /** Hash of the plan that failed. */
  plan: string | undefined
  /** When. */
  failedAt: string
  /** The Job refused the plan; it is not a matter of trying again. */
  rejected: boolean
}

/** The reasons of the condition Applied that only mean "under way". */
const IN_PROGRESS_REASONS = new Set(['HelmRunning', 'HelmStarting', 'WaitingForTurn'])

/** How the last run failed; `unknown` while its report may still come; undefined when it did not. */
export function lastFailure(
  { jobs, progress }: Observed,
  { now }: Context,
): Failure | 'unknown' | undefined {
  const latest = latestJob(jobs)
  const finished = latest && finishedCondition(latest)
  if (latest === undefined || finished === undefined || reportsEndOf(progress, latest)) {
    return reportedFailure(progress)
  }
  const failedAt = finished.lastTransitionTime ?? ''
  if (secondsSince(failedAt, now) < FINAL_REPORT_TIMEOUT_SECONDS) return 'unknown'
  const crashes = latest.status?.failed ?? 1
  return {
    reason: 'JobCrashed',
    message: `Job crashed ${crashes} times`,
    plan: planHash(latest),
    failedAt,
    rejected: false,
  }
}

function reportedFailure(progress: Progress | undefined): Failure | undefined {
  if (progress?.state !== 'Failed' && progress?.state !== 'Refused') return undefined
  return {
    reason: progress.reason ?? 'HelmFailed',
    message: progress.message ?? 'the helm run failed',
    plan: progress.plan,
    failedAt: progress.at,
    rejected: progress.state === 'Refused',
  }
}

/** The report is about the end of this Job, or of a later one that is gone. */
export function reportsEndOf(progress: Progress | undefined, job: Job): boolean {
  if (progress === undefined) return false
  if (progress.job === job.metadata.uid) return progress.state !== 'Started'
  return progress.run > runNumber(job)
}

/** What stood in the way of this generation before: shown until a run has succeeded. */
export function previousFailure(cluster: VecCluster): ConditionReason | undefined {
  const applied = getCondition(cluster, 'Applied')
  if (applied?.status !== 'False' || IN_PROGRESS_REASONS.has(applied.reason)) return undefined
  if (applied.observedGeneration !== cluster.metadata.generation) return undefined
  return { reason: applied.reason, message: applied.message }
}

/** Whether a reason tells of something a person should look at. */
export function isFailureReason(reason: string): boolean {
  return !IN_PROGRESS_REASONS.has(reason)
}
