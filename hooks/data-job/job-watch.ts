/**
 * What a VecBackup, a VecRestore and a VecMigration share: the work of each is done by one Job at a
 * time, which is made again while it has told nothing, and kept for its log once it has ended.
 */
import type { Progress } from '../../crds/contract/job.ts'
import {
  FIRST_REPORT_TIMEOUT_SECONDS,
  READINESS_CHECK_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
  STALE_REPORT_SECONDS,
} from '../../crds/contract/limits.ts'
import type { AnyObject, Job, Secret } from '../../crds/kubernetes.ts'
import { secondsSince } from '../conditions.ts'
import { childrenAfter, expiredJobs, isUnfinished, jobImage, planHash } from '../job.ts'
import type { Child, Context, Desired, PrunedChild } from '../protocol.ts'
import type { ObservedJobs } from '../request.ts'
import { outcomeOf } from './outcome.ts'
import type { CompleteReason } from './status.ts'

type JobsAndProgress = Pick<ObservedJobs, 'jobs' | 'progress'>

export function activeJob({ jobs }: JobsAndProgress): Job | undefined {
  return jobs.find(isUnfinished)
}

/** Whether this Job, not an earlier one, has told of itself. */
export function hasReported({ progress }: JobsAndProgress, job: Job): boolean {
  return progress?.job === job.metadata.uid
}

/** Number of the next Job, which is made only where there is none. */
export function runNumberAfter(progress: Progress | undefined): number {
  return 1 + (progress?.run ?? 0)
}

/**
 * A Job ended a while ago and its last report does not say how: the cache may lag behind, so only the
 * resource itself tells a crash from that.
 */
export function needsLiveProgress(observed: JobsAndProgress, context: Context): boolean {
  const outcome = outcomeOf(observed, context)
  const hasFinalReport = observed.progress !== undefined && observed.progress.state !== 'Started'
  return outcome !== undefined && outcome !== 'unknown' && !hasFinalReport
}

/**
 * Why a Job that has not told of itself is to be made again: a wrong image or a quota is a thing a
 * person can mend. `wanted` is the hash of the plan of this moment, where one can be made.
 */
export function restartReason(
  job: Job,
  { desiredHash, lostLease }: { desiredHash: string | undefined; lostLease: boolean },
  { now, settings }: Context,
): string | undefined {
  // It is on its way out already.
  if (job.metadata.deletionTimestamp !== undefined) return undefined
  if (jobImage(job) !== settings.image) return 'runs another image'
  // It appeared so late that its turn was over: the next holder may be at work.
  if (lostLease) return 'missed its turn'
  if (desiredHash !== undefined && planHash(job) !== desiredHash)
    return 'has another plan than is wanted now'
  const silentSeconds = secondsSince(job.metadata.creationTimestamp ?? '', now)
  return silentSeconds < FIRST_REPORT_TIMEOUT_SECONDS
    ? undefined
    : `reported nothing for ${FIRST_REPORT_TIMEOUT_SECONDS} s`
}

/**
 * A Job that has reported and does so no more. It is not replaced: its pod may still work on a
 * node that cannot be reached. The message does not change while that lasts.
 */
export function silenceReason(
  job: Job,
  progress: Progress | undefined,
  { now }: Context,
): CompleteReason | undefined {
  if (progress === undefined || progress.job !== job.metadata.uid) return undefined
  if (secondsSince(progress.at, now) < STALE_REPORT_SECONDS) return undefined
  const minutes = STALE_REPORT_SECONDS / 60
  return {
    reason: 'JobSilent',
    message: `Job ${job.metadata.name} has not reported for more than ${minutes} minutes: look at its pods and their nodes`,
  }
}

/** What is to be done while a Job has not ended, besides the status. */
export interface JobWatch {
  conditionReason?: CompleteReason
  /** Seconds. */
  resyncAfterSeconds: number
  sideEffects: Pick<Desired<unknown>, 'deleteJobs'> & { writeCopies?: Secret[] }
}

/**
 * A Job that has told of itself goes on; one that has not is watched, and stopped once it is stuck: the
 * next pass that finds none makes another.
 */
export function watchJob(
  job: Job,
  {
    isReporting,
    silence,
    writeCopies,
    stuckReason,
  }: {
    isReporting: boolean
    silence?: CompleteReason | undefined
    writeCopies: Secret[]
    stuckReason: () => string | undefined
  },
  startingReason: (message: string) => CompleteReason,
): JobWatch {
  const { namespace = '', name, uid = '' } = job.metadata
  const sideEffects = writeCopies.length > 0 ? { writeCopies } : {}
  const isSuspendedAndSilent = silence !== undefined && isSuspended(job)
  if (isReporting && !isSuspendedAndSilent) {
    return {
      resyncAfterSeconds: READINESS_CHECK_SECONDS,
      sideEffects,
      ...(silence !== undefined && { conditionReason: silence }),
    }
  }
  // It has no pods that could still be at work, and would hold its Lease for ever.
  const stuckBecause = isSuspendedAndSilent ? 'is suspended' : stuckReason()
  if (stuckBecause === undefined) {
    const resyncAfterSeconds = writeCopies.length > 0 ? REQUEUE_SOON_SECONDS : RETRY_SECONDS
    return {
      conditionReason: startingReason(`Job ${name} is starting`),
      resyncAfterSeconds,
      sideEffects,
    }
  }
  return {
    conditionReason: {
      reason: 'JobNotStarted',
      message: `Job ${name} ${stuckBecause}: it is made again`,
    },
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    sideEffects: { deleteJobs: [{ namespace, name, uid }] },
  }
}

/** By `spec.suspend`, and without pods. */
function isSuspended({ spec, status }: Job): boolean {
  return spec?.suspend === true && (status?.active ?? 0) === 0
}

/** What is left of the children once the status tells how it ended; `reason` is why rights go. */
export function cleanUpFinished(
  { jobs, children }: { jobs: Job[]; children: AnyObject[] },
  reason: string,
  context: Context,
): { children: Child[]; pruned?: PrunedChild[] } {
  const rbac = children.filter(({ kind }) => kind !== 'Job')
  const pruned = [
    ...expiredJobs(jobs, () => true, context),
    // Its rights are of no use to anybody any more, once its last pod has ended.
    ...(jobs.some(isUnfinished) ? [] : rbac.map((object) => prunedRbac(object, reason))),
  ]
  const remaining = childrenAfter(children, { pruned })
  return { children: remaining, ...(pruned.length > 0 && { pruned }) }
}

function prunedRbac({ kind, metadata: { name } }: AnyObject, reason: string): PrunedChild {
  return { kind, name, reason }
}
