/** How the last Job on the shards ended, and how long to wait before the same one is tried again. */
import { finishedCondition, type Job } from '../../../crds/kubernetes.ts'
import {
  FINAL_REPORT_TIMEOUT_SECONDS,
  REFUSED_RETRY_SECONDS,
  SHARDS_REPEAT_SECONDS,
  SHARDS_RETRY_SECONDS,
} from '../../../crds/contract/limits.ts'
import { LABELS } from '../../../crds/contract/names.ts'
import type { Progress } from '../../../crds/contract/job.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { getCondition, secondsSinceRecorded } from '../../conditions.ts'
import { latestJob } from '../../request.ts'
import { endTime, planHash } from '../../job-watch.ts'
import type { Context } from '../../protocol.ts'
import { reportsEndOf } from '../helm-result.ts'
import type { Observed } from '../ports.ts'

export interface ShardsRun {
  /** Hash of its plan. */
  plan: string | undefined
  /** Undefined if it did what it was asked to do, or ended to let other work take place. */
  failure?: ConditionReason
  /** Seconds until the same plan may be tried again. */
  restSeconds: number
}

export function isShardsJob({ metadata }: Pick<Job, 'metadata'>): boolean {
  return metadata.labels?.[LABELS.verb] === 'shards'
}

/** Jobs of the two tasks of a VecCluster: what one of them reports says nothing about the other. */
export function shardsJobs(jobs: Job[]): Job[] {
  return jobs.filter(isShardsJob)
}

/** The last Job has finished, and its last report may still arrive. */
export function isShardsEndUnknown(
  { jobs, progress }: Pick<Observed, 'jobs' | 'progress'>,
  { now }: Pick<Context, 'now'>,
): boolean {
  const newest = latestJob(shardsJobs(jobs))
  if (newest === undefined || reportsEndOf(progress, newest)) return false
  const finished = finishedCondition(newest)
  if (finished === undefined) return false
  return secondsSinceRecorded(finished.lastTransitionTime ?? '', now) < FINAL_REPORT_TIMEOUT_SECONDS
}

/** Undefined if no Job has ended, as far as is known. */
export function lastShardsRun(
  { cluster, jobs, progress }: Observed,
  { now }: Pick<Context, 'now'>,
): ShardsRun | undefined {
  const newest = latestJob(shardsJobs(jobs))
  if (progress?.verb === 'shards' && progress.state !== 'Started') {
    if (newest === undefined || reportsEndOf(progress, newest))
      return reportedRun(progress, newest, now)
  }
  if (newest === undefined) return undefined
  const finished = finishedCondition(newest)
  if (finished === undefined) return undefined
  const age = secondsSinceRecorded(finished.lastTransitionTime ?? '', now)
  const plan = planHash(newest)
  // A later helm run has replaced the report.
  if (finished.type === 'Complete') return { plan, restSeconds: SHARDS_REPEAT_SECONDS - age }
  const crashes = newest.status?.failed ?? 1
  return {
    plan,
    failure: recordedFailure(cluster) ?? {
      reason: 'JobCrashed',
      message: `Job crashed ${crashes} times`,
    },
    restSeconds: SHARDS_RETRY_SECONDS - age,
  }
}

function reportedRun(progress: Progress, job: Job | undefined, now: Date): ShardsRun {
  const { state, plan, shards, reason, message } = progress
  const age = secondsSinceRecorded(endTime(progress, job, now), now)
  if (state === 'Done') {
    return { plan, restSeconds: shards?.isYielded === true ? 0 : SHARDS_REPEAT_SECONDS - age }
  }
  return {
    plan,
    failure: {
      reason: reason ?? 'TransferFailed',
      message: message ?? 'the work on the shards failed',
    },
    restSeconds: (state === 'Refused' ? REFUSED_RETRY_SECONDS : SHARDS_RETRY_SECONDS) - age,
  }
}

/** Reasons of ShardsPlaced that only the report of a Job gives. */
const REPORTED_REASONS = new Set([
  ...['TransferFailed', 'ReshardingFailed', 'PointsMissing', 'JobCrashed'],
])

function recordedFailure(cluster: Observed['cluster']): ConditionReason | undefined {
  const placed = getCondition(cluster, 'ShardsPlaced')
  if (placed?.status !== 'False' || !REPORTED_REASONS.has(placed.reason)) return undefined
  return { reason: placed.reason, message: placed.message }
}
