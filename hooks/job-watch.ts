/**
 * What becomes of a Job: whether it was created, has a running pod and has reported, whether it must be recreated,
 * whether it has become silent, and when a finished one is pruned. The annotation of its resource has the newest
 * report.
 */
import type { Progress } from '../crds/contract/job.ts'
import {
  FIRST_REPORT_TIMEOUT_SECONDS,
  JOB_START_SECONDS,
  STALE_REPORT_SECONDS,
} from '../crds/contract/limits.ts'
import { ANNOTATIONS } from '../crds/contract/names.ts'
import { finishedCondition, type Job } from '../crds/kubernetes.ts'
import type { ConditionReason } from '../crds/schema.ts'
import {
  getCondition,
  notCreatedMessage,
  secondsSince,
  secondsSinceRecorded,
} from './conditions.ts'
import type { Context, PrunedChild } from './protocol.ts'
import { type ObservedJobs, runNumber } from './request.ts'

/** Whether this Job, not an earlier one, has reported. */
export function hasReported({ progress }: Pick<ObservedJobs, 'progress'>, job: Job): boolean {
  return progress?.job === job.metadata.uid
}

/** A resource with a Job, and its conditions. */
type JobOwner = Parameters<typeof getCondition>[0] & {
  kind: string
  metadata: { namespace: string; name: string }
}

/** Message of its condition in the answer that creates the Job. */
export function creationMessage({ metadata }: { metadata: { name: string } }): string {
  return `creating Job ${metadata.name}`
}

/**
 * Why the Job that is to be created does not exist, although the answer before has created it: the API server refuses
 * it. Only Metacontroller knows the cause, and writes an Event with it. Undefined if the answer before did not.
 */
export function notCreatedReason(
  owner: JobOwner,
  conditionType: string,
  job: { metadata: { name: string } },
): ConditionReason | undefined {
  const { namespace, name } = owner.metadata
  const command = `kubectl describe ${owner.kind.toLowerCase()} ${name} -n ${namespace}`
  const message = notCreatedMessage(`Job ${job.metadata.name}`, command)
  const previous = getCondition(owner, conditionType)?.message
  const isRepeated = previous === creationMessage(job) || previous === message
  return isRepeated ? { reason: 'JobNotStarted', message } : undefined
}

/**
 * Why a Job that has not reported does no work, as far as its status shows it. Undefined at first, and while a pod
 * runs. The causes are in Events, which the service does not read.
 */
export function notStartedReason(
  job: Job,
  { now }: Pick<Context, 'now'>,
): ConditionReason | undefined {
  const { creationTimestamp = '', deletionTimestamp } = job.metadata
  const isOld = secondsSince(creationTimestamp, now) > JOB_START_SECONDS
  const message = isOld && deletionTimestamp === undefined ? notStartedMessage(job) : undefined
  return message === undefined ? undefined : { reason: 'JobNotStarted', message }
}

function notStartedMessage({ metadata, spec, status = {} }: Job): string | undefined {
  const { name, namespace = '' } = metadata
  const { active = 0, ready, failed = 0 } = status
  if (ready !== undefined && ready > 0) return undefined
  const ofPods = `kubectl describe pods -l job-name=${name} -n ${namespace} shows the cause`
  if (spec?.suspend === true && active === 0) {
    return `Job ${name} is suspended: it gets a pod once its spec.suspend is false`
  }
  if (failed > 0) return `the pods of Job ${name} have failed before their first report: ${ofPods}`
  if (active > 0) return ready === 0 ? `the pod of Job ${name} does not run: ${ofPods}` : undefined
  const ofJob = `kubectl describe job ${name} -n ${namespace} shows the cause in an Event`
  return `Job ${name} has no pod: ${ofJob}, such as a quota or an admission webhook`
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
 * Why a Job is to be recreated, whether it has reported or not. `hasStarted`: the status shows that a Job of
 * the resource has reported.
 */
export function recreationReason(
  observed: Pick<ObservedJobs, 'progress'>,
  job: Job,
  facts: Parameters<typeof restartReason>[1] & { hasStarted: boolean },
  context: Context,
): string | undefined {
  if (hasReported(observed, job)) return suspendedReason(job, observed.progress, context)
  return mayReport(observed, job, facts) ? undefined : restartReason(job, facts, context)
}

/** A user removed the report. A pod that runs writes another one within a minute, or gives up. */
export function mayReport(
  { progress }: Pick<ObservedJobs, 'progress'>,
  job: Job,
  { hasStarted, lostLease }: { hasStarted: boolean; lostLease: boolean },
): boolean {
  return progress === undefined && hasStarted && !lostLease && (job.status?.ready ?? 0) > 0
}

/**
 * Why a Job that has reported is to be recreated: it is suspended, so that it has no pods that could still be working,
 * and it would never end.
 */
export function suspendedReason(
  job: Job,
  progress: Progress | undefined,
  context: Context,
): string | undefined {
  const { spec, status, metadata } = job
  const isSuspended = spec?.suspend === true && (status?.active ?? 0) === 0
  if (!isSuspended || metadata.deletionTimestamp !== undefined) return undefined
  return silenceReason(job, progress, context) === undefined ? undefined : 'is suspended'
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

/** When a Job ended: as it has reported, or by the control plane if the clock of its node was far ahead. */
export function endTime({ at }: Pick<Progress, 'at'>, job: Job | undefined, now: Date): string {
  if (secondsSinceRecorded(at, now) !== Infinity) return at
  return (job && finishedCondition(job)?.lastTransitionTime) ?? at
}

/** Hash of the plan that a Job was created with. */
export function planHash({ metadata }: Job): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.plan]
}

/**
 * Image that the Job was created with. Admission may rewrite the image of the pods (a mirror, a
 * digest), so the pod template is used only for Jobs of releases that did not record it.
 */
export function jobImage(job: Job): string | undefined {
  return (
    job.metadata.annotations?.[ANNOTATIONS.image] ?? job.spec?.template.spec.containers[0]?.image
  )
}

/** Number of finished runs retained per outcome. */
const MAX_RETAINED_RUNS = 3

/**
 * The Jobs to prune: each is finished, its result is recorded in the parent's status, and it is
 * expired or beyond the limit. Until then it is retained for its log.
 */
export function expiredJobs(
  jobs: Job[],
  isRecorded: (job: Job) => boolean,
  { now, settings }: Context,
): PrunedChild[] {
  const recorded = jobs.filter(isRecorded)
  const beyondLimit = new Set([
    ...jobsBeyondLimit(recorded, 'Failed'),
    ...jobsBeyondLimit(recorded, 'Complete'),
  ])
  // The age of a Job that is unfinished, or has no finish time, is unknown.
  const isExpired = (job: Job) =>
    secondsSince(finishedCondition(job)?.lastTransitionTime ?? '', now) > settings.historySeconds
  return recorded
    .filter((job) => isExpired(job) || beyondLimit.has(job))
    .map((job) => ({
      kind: 'Job',
      name: job.metadata.name,
      reason: isExpired(job) ? 'its history time is over' : 'newer runs are kept',
    }))
}

/** All but the newest Jobs with this outcome. */
function jobsBeyondLimit(jobs: Job[], outcome: 'Complete' | 'Failed'): Job[] {
  return jobs
    .filter((job) => finishedCondition(job)?.type === outcome)
    .toSorted((a, b) => runNumber(b) - runNumber(a))
    .slice(MAX_RETAINED_RUNS)
}
