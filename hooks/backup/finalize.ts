/**
 * Deletion of a VecBackup: its Job is stopped, then the objects that it wrote are deleted unless
 * they are retained (deletion-policy.ts). Nothing is created meanwhile but a purge Job and its RBAC.
 *
 * The objects are deleted in batches, as tasks that outlast a hook call, after the restores that
 * read them. A restore in a namespace that the VecBackup does not allow can name
 * the backup, or its location in a bucket, without reading anything there: it must not keep the
 * objects forever.
 *
 * A bucket that is accessed with the identity of a ServiceAccount is purged by a Job (purge-job.ts),
 * because the service cannot take that identity.
 */
import type { VecBackup } from '../../crds/backup.ts'
import {
  PURGE_TIMEOUT_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
  FOREIGN_READER_TIMEOUT_SECONDS,
} from '../../crds/contract/limits.ts'
import type { CaRef } from '../../crds/certificates.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { Job, KubernetesEvent } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { caRefOf } from '../../crds/storage.ts'
import { type BackgroundTasks, errorMessage, isExpected } from '../background-task.ts'
import { getCondition, secondsSince, setConditions } from '../conditions.ts'
import { namespaceWarning, warningEvent } from '../events.ts'
import { readAccount, readBucketCa } from '../data-job/observe.ts'
import type { Context, HookRequest } from '../protocol.ts'
import {
  childrenAfter,
  isUnfinished,
  jobsToDelete,
  unchanged,
  refreshProgress,
} from '../request.ts'
import { deletionActionFor, scheduleOf } from './deletion-policy.ts'
import {
  accountOf,
  fromRequest,
  type BackupPorts,
  type BackupReader,
  type Deletion,
  type Purge,
} from './observe.ts'
import { isPurgedByJob, isPurgeJob, purgeByJob, type PurgeStep } from './purge-job.ts'
import { s3PathOf } from './status.ts'
import type { Decision } from './sync.ts'
import { isBlockingJob, isNamespaceAllowed } from '../cross-namespace.ts'

const NEXT_BATCH_SECONDS = 1
/** Reasons of the condition Purged that a Warning reports once. */
const WARNING_REASONS = new Set(['PurgeFailed', 'JobSilent', 'JobNotStarted'])

export interface DeletionDependencies {
  ports: BackupPorts
  purges: BackgroundTasks<Purge>
}

export async function observeDeletion(
  request: HookRequest<VecBackup>,
  { ports, purges }: DeletionDependencies,
  context: Context,
): Promise<Deletion> {
  const { now } = context
  const observed = fromRequest(request)
  const { backup } = observed
  const { namespace, uid } = backup.metadata
  const [liveJobs, isNamespaceTerminating] = await Promise.all([
    ports.jobsOf(namespace, uid),
    ports.isNamespaceTerminating(namespace),
  ])
  const deletion: Deletion = { ...observed, liveJobs, isNamespaceTerminating }
  if (isStopping(deletion)) return deletion
  if (!mayHaveWritten(deletion)) {
    // The deleted Job may have reported its start after the cached state.
    await refreshProgress(deletion, backup, (...args) => ports.backup(...args))
  }
  if (!mayHaveWritten(deletion)) return deletion
  deletion.deletionAction = deletionActionFor(backup, {
    schedule: await currentSchedulePolicy(backup, ports),
    isNamespaceTerminating,
  })
  if (deletion.deletionAction !== 'delete') return deletion

  const reader = await activeReader(backup, ports, context)
  if (reader !== undefined) return { ...deletion, reader }
  if (isPurgedByJob(backup)) {
    const report = await readPurgeReport(deletion, ports)
    return { ...deletion, ...report, ...(await readAccount(accountOf(backup), ports)) }
  }
  const credentials = await ports.secret(namespace, bucketSecretName(backup))
  if (credentials === undefined) return deletion
  const missingCa = isNamespaceTerminating ? await readMissingCa(backup, ports) : undefined
  if (missingCa !== undefined) return { ...deletion, credentials, missingCa }

  const previous = purges.latest(uid)
  const batch = (signal: AbortSignal) => purgeBatch(backup, ports, { previous, signal })
  const { value: purge, requeueAfterSeconds } = await purges.run(uid, now, batch)
  // Check once more that no Job was started during the purge.
  const jobs = purge?.done === true ? await ports.jobsOf(namespace, uid) : liveJobs
  return {
    ...deletion,
    credentials,
    liveJobs: jobs,
    ...(purge !== undefined && { purge }),
    ...(requeueAfterSeconds !== undefined && { requeueAfterSeconds }),
  }
}

/** What the bucket names as its certificate authority, if that does not exist. */
async function readMissingCa(
  { metadata: { namespace }, spec }: VecBackup,
  ports: BackupPorts,
): Promise<CaRef | undefined> {
  const access = spec.storage.s3
  const reference = caRefOf(access)
  if (reference === undefined) return undefined
  return (await readBucketCa({ namespace, access }, ports)) === undefined ? reference : undefined
}

/** A finished purge Job reports before it ends: the cache may not have its report yet. */
async function readPurgeReport(deletion: Deletion, ports: BackupPorts) {
  const refreshed = { ...deletion }
  await refreshProgress(refreshed, deletion.backup, (...args) => ports.backup(...args))
  return refreshed.progress === undefined ? {} : { progress: refreshed.progress }
}

export function finalize(deletion: Deletion, context: Context): Decision {
  const { now } = context
  const { backup, credentials, missingCa, reader, purge, requeueAfterSeconds } = deletion
  const { namespace } = backup.metadata
  // A purge Job is stopped only if the objects are to be retained by now.
  const unfinishedJobs = deletion.liveJobs.filter(
    (job) => isUnfinished(job) && (deletion.deletionAction !== 'delete' || !isPurgeJob(job)),
  )
  const [unfinishedJob] = unfinishedJobs
  if (unfinishedJob !== undefined) {
    const message = `waiting for Job ${unfinishedJob.metadata.name} to stop`
    const decision = notPurged(deletion, 'StoppingJob', message, REQUEUE_SOON_SECONDS, now)
    return { ...decision, deleteJobs: jobsToDelete(unfinishedJobs) }
  }
  // A Job reports before it writes (jobs/main.ts): without a report the bucket has no objects of it.
  if (!mayHaveWritten(deletion) || deletion.deletionAction === 'retain')
    return finalizedDecision(deletion)
  if (deletion.deletionAction === 'retain in a deleted namespace') {
    const message = `namespace ${namespace} is being deleted and spec.deletionPolicy is not Delete; the objects in ${s3PathOf(backup)} are retained`
    return finalizedWithWarning(deletion, { reason: 'ObjectsRetained', message }, now)
  }
  if (isPastPurgeDeadline(deletion, now)) {
    const message = `namespace ${namespace} is terminating and ${s3PathOf(backup)} could not be emptied within ${PURGE_TIMEOUT_SECONDS} s; the remaining objects were not deleted`
    return finalizedWithWarning(deletion, { reason: 'PurgeTimedOut', message }, now)
  }
  if (reader !== undefined) {
    return notPurged(deletion, 'WaitingForRestore', `waiting for ${reader}`, RETRY_SECONDS, now)
  }
  if (isPurgedByJob(backup)) return afterPurgeJob(deletion, purgeByJob(deletion, context), now)
  const secret = { kind: 'Secret', name: bucketSecretName(backup) }
  const missing = credentials === undefined ? secret : missingCa
  if (missing !== undefined) {
    const { kind, name } = missing
    // Kubernetes deletes the objects of a terminating namespace in any order, also during the purge.
    const message = deletion.isNamespaceTerminating
      ? `namespace ${namespace} is being deleted and its ${kind} ${name} was deleted first; the remaining objects in ${s3PathOf(backup)} were not deleted`
      : `Secret ${namespace}/${name} not found; the objects in ${s3PathOf(backup)} were not deleted`
    return finalizedWithWarning(deletion, { reason: 'CredentialsMissing', message }, now)
  }
  if (purge?.done === true) return purgeFinished(deletion, purge, now)
  if (purge?.reader !== undefined) {
    const { namespace: from, name, until } = purge.reader
    const message = `waiting for VecRestore ${from}/${name}, which recorded in the bucket that it reads ${s3PathOf(backup)}; the record expires at ${until} unless the restore renews it`
    return notPurged(deletion, 'WaitingForRestore', message, RETRY_SECONDS, now)
  }
  if (purge?.error !== undefined) {
    const message = `${s3PathOf(backup)}: ${purge.error} (set the annotation ${ANNOTATIONS.retainObjects}: "true" to retain the objects)`
    const failed = notPurged(deletion, 'PurgeFailed', message, RETRY_SECONDS, now)
    return 'defect' in purge ? { ...failed, failures: [{ error: purge.defect }] } : failed
  }
  const remainingText = purge === undefined ? '' : remainingObjects(purge)
  const resyncAfterSeconds = requeueAfterSeconds ?? NEXT_BATCH_SECONDS
  return notPurged(
    deletion,
    'Purging',
    `deleting the objects in ${s3PathOf(backup)}${remainingText}`,
    resyncAfterSeconds,
    now,
  )
}

function isStopping({ liveJobs }: Pick<Deletion, 'liveJobs'>): boolean {
  return liveJobs.some((job) => isUnfinished(job) && !isPurgeJob(job))
}

function bucketSecretName({ spec }: VecBackup): string {
  return spec.storage.s3.credentialsSecretRef?.name ?? ''
}

/** The decision of the next step of a purge Job. */
function afterPurgeJob(deletion: Deletion, step: PurgeStep, now: Date): Decision {
  switch (step.is) {
    case 'purged':
      return finalizedDecision(deletion)
    case 'remaining':
      return finalizedWithWarning(deletion, step.cause, now)
    case 'waiting': {
      const { reason, message, resyncAfterSeconds, created = [], pruned = [] } = step
      return {
        ...notPurged(deletion, reason, message, resyncAfterSeconds, now),
        children: childrenAfter(deletion.children, { created, pruned }),
        ...(pruned.length > 0 && { pruned }),
        ...(created.some(({ kind }) => kind === 'Job') && { startsPurge: true as const }),
        ...(step.stopped !== undefined && { deleteJobs: jobsToDelete(step.stopped) }),
      }
    }
  }
}

/**
 * The live policy of its schedule: a policy that was just set may not be on the backup yet. A
 * schedule that was created later under the same name is not its schedule.
 */
async function currentSchedulePolicy(
  backup: VecBackup,
  ports: Pick<BackupPorts, 'schedulePolicy'>,
) {
  const owner = scheduleOf(backup)
  if (owner === undefined) return undefined
  const live = await ports.schedulePolicy(backup.metadata.namespace, owner.name)
  return live?.uid === owner.uid ? live : undefined
}

function mayHaveWritten({ backup, jobs, liveJobs, progress }: Deletion): boolean {
  return (
    progress !== undefined ||
    backup.status?.startTime !== undefined ||
    jobs.length + liveJobs.length > 0
  )
}

function isPastPurgeDeadline({ backup, isNamespaceTerminating }: Deletion, now: Date): boolean {
  const { deletionTimestamp = now.toISOString() } = backup.metadata
  return isNamespaceTerminating && secondsSince(deletionTimestamp, now) >= PURGE_TIMEOUT_SECONDS
}

function notPurged(
  { backup, children }: Deletion,
  reason: string,
  message: string,
  resyncAfterSeconds: number,
  now: Date,
): Decision {
  const update = { type: 'Purged', status: 'False' as const, reason, message }
  const otherConditions = backup.status?.conditions?.filter(({ type }) => type !== 'Purged') ?? []
  const hasChanged = getCondition(backup, 'Purged')?.message !== message
  const conditions = [...otherConditions, ...setConditions(backup, [update], now)]
  return {
    status: { ...backup.status, conditions },
    children: children.map(unchanged),
    resyncAfterSeconds,
    ...(WARNING_REASONS.has(reason) &&
      hasChanged && { events: [warningEvent(backup, { reason, message }, now)] }),
  }
}

function finalizedDecision({ backup, children }: Deletion): Decision {
  return { status: backup.status ?? {}, children: children.map(unchanged), finalized: true }
}

/**
 * Objects that this backup did not write are not deleted: a warning shows the owner where they are.
 */
function purgeFinished(deletion: Deletion, { others }: Purge, now: Date): Decision {
  if (others === undefined) return finalizedDecision(deletion)
  const { bucket } = deletion.backup.spec.storage.s3
  const message = `${s3PathOf(deletion.backup)}: ${others.count} objects that this backup did not write were not deleted, such as s3://${bucket}/${others.example}`
  return finalizedWithWarning(deletion, { reason: 'OtherObjectsKept', message }, now)
}

/** Objects remain although no policy retains them: report it where users look. */
function finalizedWithWarning(deletion: Deletion, cause: ConditionReason, now: Date): Decision {
  return {
    ...finalizedDecision(deletion),
    events: [remainingObjectsEvent(deletion, cause, now)],
    warnings: [cause.message],
  }
}

/** Users of other namespaces can read Events on a namespace: they do not name the bucket. */
function remainingObjectsEvent(
  { backup, isNamespaceTerminating }: Deletion,
  cause: ConditionReason,
  now: Date,
): KubernetesEvent {
  if (!isNamespaceTerminating) return warningEvent(backup, cause, now)
  const message = `VecBackup ${backup.metadata.name} was deleted with its namespace, and objects of it remain in its bucket; the log of the operator says where`
  return namespaceWarning(backup, { reason: cause.reason, message }, now)
}

/** Deletes the batch after `previous`. A failure is a result: it is reported and retried. */
async function purgeBatch(
  { metadata, spec }: VecBackup,
  ports: Pick<BackupPorts, 'purge'>,
  { previous, signal }: { previous: Purge | undefined; signal: AbortSignal },
): Promise<Purge> {
  const { namespace, name, uid } = metadata
  try {
    const target = { storage: spec.storage.s3, namespace, name, uid, survey: previous?.survey }
    return await ports.purge(target, signal)
  } catch (error) {
    signal.throwIfAborted()
    const defect = isExpected(error) ? {} : { defect: error }
    return { done: false, error: errorMessage(error), ...defect }
  }
}

/** Number of remaining objects, for the condition; empty if it is unknown. */
function remainingObjects({ survey }: Purge): string {
  return survey === undefined ? '' : `; ${survey.left} objects remain`
}

/** The restore as messages name it; undefined if no restore reads the backup. */
export async function activeReader(
  backup: VecBackup,
  ports: Pick<BackupPorts, 'restoresReading' | 'jobsOf'>,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): Promise<string | undefined> {
  const { metadata, spec } = backup
  const isAllowed = (namespace: string) => isNamespaceAllowed(backup, namespace)
  const rules = { isAllowed, jobKeys: settings.jobKeys, now }
  const { namespace, name } = metadata
  for (const restore of await ports.restoresReading({
    namespace,
    name,
    storage: spec.storage.s3,
  })) {
    if (restore.by === 'unknown') {
      if (isAllowed(restore.namespace) || mayBlockByLocation(backup, now))
        return formatReader(restore)
      continue
    }
    // The restore has ended: a Job that still runs under its name is not its own.
    if (restore.isFinished === true && !isAllowed(restore.namespace)) continue
    const isForeignByLocation = restore.by === 'location' && !isAllowed(restore.namespace)
    const jobs = await ports.jobsOf(restore.namespace, restore.uid)
    const blockingJobs = jobs.filter((job) => isBlockingJob(job, rules))
    if (blockingJobs.some((job) => !isForeignByLocation || blocksByLocation(job, backup, now)))
      return formatReader(restore)
  }
  return undefined
}

/**
 * A restore by location needs no permission of the backup, so its Job must be older than the
 * deletion, which bounds the wait. If it may write to the bucket, the purge also finds its record
 * there (jobs/backup/readers.ts).
 */
function blocksByLocation({ metadata }: Job, backup: VecBackup, now: Date): boolean {
  const deletedAt = backup.metadata.deletionTimestamp
  if (deletedAt === undefined) return true
  const isOlder = Date.parse(metadata.creationTimestamp ?? '') <= Date.parse(deletedAt)
  return isOlder && mayBlockByLocation(backup, now)
}

/** Whether a restore by location that has no permission may still delay the deletion. */
function mayBlockByLocation({ metadata }: VecBackup, now: Date): boolean {
  const deletedAt = metadata.deletionTimestamp
  return deletedAt === undefined || secondsSince(deletedAt, now) < FOREIGN_READER_TIMEOUT_SECONDS
}

function formatReader({ namespace, name, by }: BackupReader): string {
  if (by === 'unknown')
    return `a VecRestore of namespace ${namespace}, which cannot be read: run helm upgrade, or remove it from operator.namespaces`
  return `VecRestore ${namespace}/${name}`
}
