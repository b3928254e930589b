/**
 * Watches the Job of a VecBackup, a VecRestore or a VecMigration. Each runs one Job at a time,
 * which is recreated while it has not reported, and retained for its log once it has finished.
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

/** Whether this Job, not an earlier one, has reported. */
export function hasReported({ progress }: JobsAndProgress, job: Job): boolean {
  return progress?.job === job.metadata.uid
}

/** Number of the next Job, which is created only if there is none. */
export function runNumberAfter(progress: Progress | undefined): number {
  return 1 + (progress?.run ?? 0)
}

/**
 * Whether a Job finished a while ago and its last report has no outcome: the cache may lag behind,
 * so only the live resource distinguishes a crash from a late report.
 */
export function needsLiveProgress(observed: JobsAndProgress, context: Context): boolean {
  const outcome = outcomeOf(observed, context)
  const hasFinalReport = observed.progress !== undefined && observed.progress.state !== 'Started'
  return outcome !== undefined && outcome !== 'unknown' && !hasFinalReport
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
  if (jobImage(job) !== settings.image) return 'runs another image'
  // The Job appeared after its Lease expired: the next holder may be working.
  if (lostLease) return 'missed its turn'
  if (desiredHash !== undefined && planHash(job) !== desiredHash)
    return 'has another plan than is wanted now'
  const silentSeconds = secondsSince(job.metadata.creationTimestamp ?? '', now)
  return silentSeconds < FIRST_REPORT_TIMEOUT_SECONDS
    ? undefined
    : `reported nothing for ${FIRST_REPORT_TIMEOUT_SECONDS} s`
}

/**
 * Why a Job that has reported is silent. It is not replaced: its pod may still be working on an
 * unreachable node. The message stays the same while the silence lasts.
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

/** What to do while a Job is unfinished, in addition to its status. */
export interface JobWatch {
  conditionReason?: CompleteReason
  /** In seconds. */
  resyncAfterSeconds: number
  sideEffects: Pick<Desired<unknown>, 'deleteJobs'> & { writeCopies?: Secret[] }
}

/**
 * A Job that has reported continues. One that has not is watched and deleted once it is stuck: the
 * next sync that finds no Job creates another.
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
  // It has no pods that could still be working, and would hold its Lease forever.
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

/** Suspended by `spec.suspend`, and without pods. */
function isSuspended({ spec, status }: Job): boolean {
  return spec?.suspend === true && (status?.active ?? 0) === 0
}

/**
 * The remaining children once the status has the outcome; `reason` is why the RBAC objects are
 * pruned.
 */
export function cleanUpFinished(
  { jobs, children }: { jobs: Job[]; children: AnyObject[] },
  reason: string,
  context: Context,
): { children: Child[]; pruned?: PrunedChild[] } {
  const rbac = children.filter(({ kind }) => kind !== 'Job')
  const pruned = [
    ...expiredJobs(jobs, () => true, context),
    // The RBAC objects are unused once the last pod has finished.
    ...(jobs.some(isUnfinished) ? [] : rbac.map((object) => prunedRbac(object, reason))),
  ]
  const remaining = childrenAfter(children, { pruned })
  return { children: remaining, ...(pruned.length > 0 && { pruned }) }
}

function prunedRbac({ kind, metadata: { name } }: AnyObject, reason: string): PrunedChild {
  return { kind, name, reason }
}
