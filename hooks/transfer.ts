/**
 * What a VecBackup, a VecRestore and a VecMigration share: the work of each is done by one Job at a
 * time, which is made again while it has told nothing, and kept for its log once it has ended.
 */
import type { Progress } from '../crds/command.ts'
import type { AnyObject, Job, Secret } from '../crds/kubernetes.ts'
import {
  READINESS_CHECK_SECONDS,
  RETRY_SECONDS,
  SILENT_JOB_SECONDS,
  SILENT_REPORT_SECONDS,
  SOON_SECONDS,
} from '../crds/limits.ts'
import { secondsSince } from './conditions.ts'
import { endingOf } from './ending.ts'
import { outlived } from './history.ts'
import { imageOf, isUnfinished, planOf, staying } from './job.ts'
import type { ShownJobs } from './observations.ts'
import type { Child, Context, Desired, Dropped } from './protocol.ts'
import type { Remark } from './transfer-status.ts'

type Shown = Pick<ShownJobs, 'jobs' | 'progress'>

export function runningJob({ jobs }: Shown): Job | undefined {
  return jobs.find(isUnfinished)
}

/** Whether this Job, not an earlier one, has told of itself. */
export function hasReported({ progress }: Shown, job: Job): boolean {
  return progress?.job === job.metadata.uid
}

/** Number of the next Job, which is made only where there is none. */
export function runAfter(progress: Progress | undefined): number {
  return 1 + (progress?.run ?? 0)
}

/**
 * A Job ended a while ago and its last report does not say how: the cache may lag behind, so only the
 * resource itself tells a crash from that.
 */
export function isCrashed(shown: Shown, context: Context): boolean {
  const ending = endingOf(shown, context)
  const told = shown.progress !== undefined && shown.progress.state !== 'Started'
  return ending !== undefined && ending !== 'unknown' && !told
}

/**
 * Why a Job that has not told of itself is to be made again: a wrong image or a quota is a thing a
 * person can mend. `wanted` is the hash of the plan of this moment, where one can be made.
 */
export function whyStuck(
  job: Job,
  { wanted, missedTurn }: { wanted: string | undefined; missedTurn: boolean },
  { now, settings }: Context,
): string | undefined {
  // It is on its way out already.
  if (job.metadata.deletionTimestamp !== undefined) return undefined
  if (imageOf(job) !== settings.image) return 'runs another image'
  // It appeared so late that its turn was over: the next holder may be at work.
  if (missedTurn) return 'missed its turn'
  if (wanted !== undefined && planOf(job) !== wanted) return 'has another plan than is wanted now'
  const silent = secondsSince(job.metadata.creationTimestamp ?? '', now)
  return silent < SILENT_JOB_SECONDS ? undefined : `reported nothing for ${SILENT_JOB_SECONDS} s`
}

/**
 * A Job that has reported and does so no more. It is not replaced: its pod may still work on a
 * node that cannot be reached. The message does not change while that lasts.
 */
export function silenceOf(
  job: Job,
  progress: Progress | undefined,
  { now }: Context,
): Remark | undefined {
  if (progress === undefined || progress.job !== job.metadata.uid) return undefined
  if (secondsSince(progress.at, now) < SILENT_REPORT_SECONDS) return undefined
  const minutes = SILENT_REPORT_SECONDS / 60
  return {
    reason: 'JobSilent',
    message: `Job ${job.metadata.name} has not reported for more than ${minutes} minutes: look at its pods and their nodes`,
  }
}

/** What is to be done while a Job has not ended, besides the status. */
export interface Watch {
  remark?: Remark
  /** Seconds. */
  again: number
  writes: Pick<Desired<unknown>, 'stop'> & { writeCopies?: Secret[] }
}

/**
 * A Job that has told of itself goes on; one that has not is watched, and stopped once it is stuck: the
 * next pass that finds none makes another.
 */
export function watch(
  job: Job,
  {
    reported,
    silent,
    writeCopies,
    stuck,
  }: {
    reported: boolean
    silent?: Remark | undefined
    writeCopies: Secret[]
    stuck: () => string | undefined
  },
  starting: (message: string) => Remark,
): Watch {
  const { namespace = '', name, uid = '' } = job.metadata
  const writes = writeCopies.length > 0 ? { writeCopies } : {}
  const isParked = silent !== undefined && isSuspended(job)
  if (reported && !isParked) {
    return {
      again: READINESS_CHECK_SECONDS,
      writes,
      ...(silent !== undefined && { remark: silent }),
    }
  }
  // It has no pods that could still be at work, and would hold its Lease for ever.
  const why = isParked ? 'is suspended' : stuck()
  if (why === undefined) {
    const again = writeCopies.length > 0 ? SOON_SECONDS : RETRY_SECONDS
    return { remark: starting(`Job ${name} is starting`), again, writes }
  }
  return {
    remark: { reason: 'JobNotStarted', message: `Job ${name} ${why}: it is made again` },
    again: SOON_SECONDS,
    writes: { stop: [{ namespace, name, uid }] },
  }
}

/** By `spec.suspend`, and without pods. */
function isSuspended({ spec, status }: Job): boolean {
  return spec?.suspend === true && (status?.active ?? 0) === 0
}

/** What is left of the children once the status tells how it ended; `reason` is why rights go. */
export function afterEnd(
  { jobs, children }: { jobs: Job[]; children: AnyObject[] },
  reason: string,
  context: Context,
): { children: Child[]; dropped?: Dropped[] } {
  const rights = children.filter(({ kind }) => kind !== 'Job')
  const dropped = [
    ...outlived(jobs, () => true, context),
    // Its rights are of no use to anybody any more, once its last pod has ended.
    ...(jobs.some(isUnfinished) ? [] : rights.map((right) => useless(right, reason))),
  ]
  const left = staying(children, { dropped })
  return { children: left, ...(dropped.length > 0 && { dropped }) }
}

function useless({ kind, metadata: { name } }: AnyObject, reason: string): Dropped {
  return { kind, name, reason }
}
