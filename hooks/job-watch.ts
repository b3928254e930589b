/**
 * The state of an unfinished Job: whether it has reported, whether it must be recreated, and whether
 * it has become silent. The annotation of its resource has the newest report.
 */
import type { Progress } from '../crds/contract/job.ts'
import { FIRST_REPORT_TIMEOUT_SECONDS, STALE_REPORT_SECONDS } from '../crds/contract/limits.ts'
import type { Job } from '../crds/kubernetes.ts'
import type { ConditionReason } from '../crds/schema.ts'
import { secondsSince } from './conditions.ts'
import { jobImage, planHash } from './job.ts'
import type { Context } from './protocol.ts'
import type { ObservedJobs } from './request.ts'

/** Whether this Job, not an earlier one, has reported. */
export function hasReported({ progress }: Pick<ObservedJobs, 'progress'>, job: Job): boolean {
  return progress?.job === job.metadata.uid
}

/**
 * Why a Job that has not reported is to be recreated: a wrong image or a quota is something that a
 * user can fix. `desiredHash` is the hash of the current plan, if one can be computed.
 */
export function restartReason(
  job: Job,
  { desiredHash, lostLease }: { desiredHash: string | undefined; lostLease: boolean },
  { now, settings }: Context,
): string | undefined {
  // The Job is being deleted already.
  if (job.metadata.deletionTimestamp !== undefined) return undefined
  if (jobImage(job) !== settings.image) return 'has an outdated image'
  // The Job appeared after its Lease expired: the next holder may be working.
  if (lostLease) return 'lost its Lease'
  if (desiredHash !== undefined && planHash(job) !== desiredHash) return 'has an outdated plan'
  const silentSeconds = secondsSince(job.metadata.creationTimestamp ?? '', now)
  return silentSeconds < FIRST_REPORT_TIMEOUT_SECONDS
    ? undefined
    : `has not reported for ${FIRST_REPORT_TIMEOUT_SECONDS} s`
}

/**
 * Why a Job that has reported is silent. It is not replaced: its pod may still be working on an
 * unreachable node. The message stays the same while the silence lasts.
 */
export function silenceReason(
  job: Job,
  progress: Progress | undefined,
  { now }: Context,
): ConditionReason | undefined {
  if (progress === undefined || progress.job !== job.metadata.uid) return undefined
  if (secondsSince(progress.at, now) < STALE_REPORT_SECONDS) return undefined
  const minutes = STALE_REPORT_SECONDS / 60
  return {
    reason: 'JobSilent',
    message: `Job ${job.metadata.name} has not reported for more than ${minutes} minutes: check its pods and their nodes`,
  }
}
