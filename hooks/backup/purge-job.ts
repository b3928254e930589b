/**
 * The purge of a bucket that is accessed with the identity of a ServiceAccount: by a Job, which is
 * repeated until it has deleted the objects. What its report says decides; a Job without a report has
 * failed.
 */
import type { VecBackup } from '../../crds/backup.ts'
import {
  PURGE_JOB_RETRY_SECONDS,
  READINESS_CHECK_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { serviceAccountError } from '../../crds/storage.ts'
import { secondsSinceRecorded } from '../conditions.ts'
import { isMissingPermission } from '../data-job/preconditions.ts'
import {
  creationMessage,
  notCreatedReason,
  hasReported,
  recreationReason,
  silenceReason,
  notStartedReason,
} from '../job-watch.ts'
import {
  allObserved,
  isUnfinished,
  latestJob,
  missingObjects,
  nextRunNumber,
  runNumber,
} from '../request.ts'
import type { Child, Context, PrunedChild } from '../protocol.ts'
import { backupRbac, purgeJob, purgePlan } from './job.ts'
import { accountOf, type Deletion } from './observe.ts'
import { s3PathOf } from './status.ts'

export type PurgeStep =
  /** No object of this backup is left. */
  | { is: 'purged' }
  /** Objects are left, and nothing more is done about them. */
  | { is: 'remaining'; cause: ConditionReason }
  | Waiting

interface Waiting extends ConditionReason {
  is: 'waiting'
  resyncAfterSeconds: number
  created?: Child[]
  pruned?: PrunedChild[]
  /** Jobs to stop. */
  stopped?: Job[]
}

export function isPurgeJob({ metadata }: Job): boolean {
  return metadata.labels?.[LABELS.verb] === 'purge'
}

/** The service cannot take the identity of a ServiceAccount. */
export function isPurgedByJob({ spec }: VecBackup): boolean {
  return spec.storage.s3.credentialsSecretRef === undefined
}

export function purgeByJob(deletion: Deletion, context: Context): PurgeStep {
  const { backup, liveJobs, progress, account, isNamespaceTerminating } = deletion
  const report = progress?.verb === 'purge' ? progress : undefined
  const path = s3PathOf(backup)
  if (report?.state === 'Done') {
    if (report.message === undefined) return { is: 'purged' }
    const message = `${path}: ${report.message}`
    return { is: 'remaining', cause: { reason: 'OtherObjectsKept', message } }
  }
  const running = liveJobs.find((job) => isPurgeJob(job) && isUnfinished(job))
  const { namespace, name = '' } = accountOf(backup)
  const blocker = serviceAccountError({ namespace, name }, account)
  if (blocker !== undefined && isMissingPermission(blocker)) {
    const stopped = running === undefined ? {} : { stopped: [running] }
    const failed = { reason: 'PurgeFailed', message: withWayOut(path, blocker.message) }
    return { ...waiting(failed, RETRY_SECONDS), ...stopped }
  }
  if (running !== undefined) {
    const step = watchPurge(running, deletion, context)
    const missingRbac = missingObjects(backupRbac(backup), deletion.children)
    // Nothing can be created in a terminating namespace.
    return isNamespaceTerminating || step.stopped !== undefined || missingRbac.length === 0
      ? step
      : { ...step, created: missingRbac }
  }
  if (isNamespaceTerminating) {
    const message = `namespace ${namespace} is being deleted, so that no Job of ServiceAccount ${name} can be created; the objects in ${path} were not deleted`
    return { is: 'remaining', cause: { reason: 'ObjectsRetained', message } }
  }
  if (blocker !== undefined) {
    const message = `${blocker.message}; the objects in ${path} were not deleted`
    return { is: 'remaining', cause: { reason: 'CredentialsMissing', message } }
  }
  return lastFailure(deletion, report, context) ?? startPurge(deletion, name, context)
}

function watchPurge(job: Job, deletion: Deletion, context: Context): Waiting {
  const { backup, progress } = deletion
  const { name } = job.metadata
  const { hash: desiredHash } = purgePlan(backup)
  // The backup has reported, otherwise nothing would be purged.
  const facts = { desiredHash, lostLease: false, hasStarted: true }
  const restart = recreationReason(deletion, job, facts, context)
  if (restart !== undefined) {
    const message = `Job ${name} ${restart}; recreating it`
    return {
      ...waiting({ reason: 'JobNotStarted', message }, REQUEUE_SOON_SECONDS),
      stopped: [job],
    }
  }
  const silence = silenceReason(job, progress, context)
  if (silence !== undefined) {
    return waiting(silence, READINESS_CHECK_SECONDS)
  }
  const isReported = hasReported(deletion, job)
  const problem = isReported ? undefined : notStartedReason(job, context)
  if (problem !== undefined) {
    return waiting(problem, READINESS_CHECK_SECONDS)
  }
  const count = isReported ? progress?.message : undefined
  const message = `Job ${name} is deleting the objects in ${s3PathOf(backup)}${count === undefined ? '' : `; ${count}`}`
  return waiting({ reason: 'Purging', message }, READINESS_CHECK_SECONDS)
}

/** The last Job has failed a short time ago: another one follows after a pause. */
function lastFailure(
  deletion: Deletion,
  report: Progress | undefined,
  { now }: Context,
): Waiting | undefined {
  const last = latestJob([...deletion.liveJobs, ...deletion.jobs].filter(isPurgeJob))
  const finished = last && finishedCondition(last)
  if (last === undefined || finished === undefined) return undefined
  const isRefused = report?.state === 'Refused'
  const pause = isRefused ? RETRY_SECONDS : PURGE_JOB_RETRY_SECONDS
  const remaining = pause - secondsSinceRecorded(finished.lastTransitionTime ?? '', now)
  if (!(remaining > 0)) return undefined
  const path = s3PathOf(deletion.backup)
  if (isRefused) {
    return waiting({ reason: 'WaitingForRestore', message: report.message ?? path }, remaining)
  }
  const isReported = report !== undefined && report.run === runNumber(last)
  const error =
    isReported && report.state === 'Failed'
      ? (report.message ?? '')
      : `Job ${last.metadata.name} ended without a report: check the logs and Events of its pods`
  return waiting({ reason: 'PurgeFailed', message: withWayOut(path, error) }, remaining)
}

function withWayOut(path: string, error: string): string {
  return `${path}: ${error} (set the annotation ${ANNOTATIONS.retainObjects}: "true" to retain the objects)`
}

function startPurge(deletion: Deletion, account: string, { settings }: Context): Waiting {
  const { backup, children, jobs, liveJobs, progress } = deletion
  const rbac = backupRbac(backup)
  // A Job must not start before it has permission to report.
  if (!allObserved(rbac, children)) {
    const message = 'creating Role and RoleBinding of the purge Job'
    return { ...waiting({ reason: 'Purging', message }, REQUEUE_SOON_SECONDS), created: rbac }
  }
  const run = nextRunNumber([...jobs, ...liveJobs], progress?.run)
  const job = purgeJob(account, { ...purgePlan(backup), run }, settings)
  const creating = { reason: 'Purging', message: creationMessage(job) }
  return {
    ...waiting(notCreatedReason(backup, 'Purged', job) ?? creating, REQUEUE_SOON_SECONDS),
    created: [job],
    pruned: jobs.filter(isPurgeJob).map(({ metadata: { name } }) => ({
      kind: 'Job',
      name,
      reason: 'another purge Job follows',
    })),
  }
}

function waiting({ reason, message }: ConditionReason, resyncAfterSeconds: number): Waiting {
  return { is: 'waiting', reason, message, resyncAfterSeconds: Math.max(1, resyncAfterSeconds) }
}
