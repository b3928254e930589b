/**
 * The status and Events of a VecBackup, from what its Jobs reported. The status of a schedule's
 * backup is compacted a day after the backup finished: a schedule receives all its backups in one
 * request, so fields that repeat the manifest in the bucket must not stay on them forever.
 */
import { nodesOf, type BackupStatus, type VecBackup } from '../../crds/backup.ts'
import { s3Path } from '../../crds/contract/backup-keys.ts'
import type { BackupResult, Progress } from '../../crds/contract/job.ts'
import { BACKUP_DETAILS_SECONDS } from '../../crds/contract/limits.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { ConditionReason, NamespacedName } from '../../crds/schema.ts'
import { formatBytes } from '../../crds/units.ts'
import { getCondition, secondsSince, setConditions, timestamp } from '../conditions.ts'
import type { Outcome } from '../data-job/observe.ts'
import {
  completionFields,
  dataJobEvents,
  outcomeCondition,
  outcomeTime,
  formatStartTime,
  unfinishedCondition,
  unlistedFields,
} from '../data-job/decision.ts'
import { newEvent } from '../events.ts'
import type { Context } from '../protocol.ts'
import { EXPIRED, formatRestores, scheduleOf } from './deletion-policy.ts'

const DAY_MS = 86_400_000

interface StatusInputs {
  backup: VecBackup
  progress?: Progress
}

/** Pending until its first report, then InProgress. */
export function activeStatus(
  inputs: StatusInputs,
  conditionReason: ConditionReason | undefined,
  { now }: Context,
): BackupStatus {
  const { backup, progress } = inputs
  const isStarted = progress !== undefined || backup.status?.startTime !== undefined
  const reason = conditionReason ?? {
    reason: 'BackupRunning',
    message: progress?.message ?? 'the backup has started',
  }
  return {
    phase: isStarted ? 'InProgress' : 'Pending',
    ...reportedFields(inputs),
    conditions: setConditions(backup, [unfinishedCondition(reason)], now),
  }
}

export function finishedStatus(inputs: StatusInputs, outcome: Outcome): BackupStatus {
  const { backup, progress } = inputs
  const { phase, at } = outcome
  const update = outcomeCondition(outcome, {
    reason: phase === 'Completed' ? 'BackupCompleted' : 'BackupFailed',
    message: outcomeMessage(progress),
  })
  const { retentionDays } = backup.spec
  // The clock of a Job may be behind that of the API server: no backup is complete before it was created.
  const completed = Math.max(Date.parse(at), Date.parse(backup.metadata.creationTimestamp))
  const expires = new Date(completed + (retentionDays ?? 0) * DAY_MS)
  return {
    phase,
    ...reportedFields(inputs),
    ...completionFields(outcome),
    ...(phase === 'Completed' && retentionDays !== undefined && { expiresAt: timestamp(expires) }),
    conditions: setConditions(backup, [update], outcomeTime(outcome)),
  }
}

/** With the notes of the Job if the backup is completed; a failed one has an error instead. */
function outcomeMessage({ state, message = '', backup }: Partial<Progress> = {}): string {
  const { completed = 0, total = 0 } = backup ?? {}
  const summary = `Backed up ${completed}/${total} collections`
  return state === 'Done' && message.startsWith(summary) ? message : summary
}

/**
 * Status of a finished backup. Only spec.deletionPolicy can change after that, and the conditions
 * do not depend on it, so they hold for the newest generation too. Why it was not deleted when it
 * expired depends on restores: it is determined again.
 */
export function finalStatus({ metadata, status: lastStatus = {} }: VecBackup): BackupStatus {
  // Its Job may be deleted by now.
  const { jobName: _, ...status } = lastStatus
  if (status.conditions === undefined) return status
  const observedGeneration = metadata.generation
  return {
    ...status,
    conditions: status.conditions
      .filter(({ type, status: value }) => type !== EXPIRED || value === 'True')
      .map((condition) => ({ ...condition, observedGeneration })),
  }
}

/** retentionDays have passed: the backup deletes itself next, with its objects. */
export function expiredStatus(backup: VecBackup, now: Date): BackupStatus {
  const { conditions = [], ...status } = finalStatus(backup)
  const waitedForRestores = getCondition(backup, EXPIRED) !== undefined
  const expiredAt = waitedForRestores ? now : new Date(status.expiresAt ?? 0)
  const update = {
    ...{ type: EXPIRED, status: 'True' as const, reason: 'RetentionDaysPassed' },
    message: `spec.retentionDays have passed since the backup completed; it is deleted with its objects`,
  }
  return { ...status, conditions: [...conditions, ...setConditions(backup, [update], expiredAt)] }
}

/**
 * retentionDays have not passed. A clock that was ahead and is set back may have recorded that they have: deletion by a
 * user would then delete the objects, whatever spec.deletionPolicy says.
 */
export function unexpiredStatus(status: BackupStatus): BackupStatus {
  const { conditions } = status
  if (conditions?.some(({ type }) => type === EXPIRED) !== true) return status
  return { ...status, conditions: conditions.filter(({ type }) => type !== EXPIRED) }
}

/** retentionDays have passed, and the backup is deleted once these restores have ended. */
export function neededByRestoreStatus(
  backup: VecBackup,
  status: BackupStatus,
  { restores, now }: NeededByRestore,
): BackupStatus {
  const update = { type: EXPIRED, status: 'False' as const, ...neededByRestore(restores) }
  const others = (status.conditions ?? []).filter(({ type }) => type !== EXPIRED)
  return { ...status, conditions: [...others, ...setConditions(backup, [update], now)] }
}

/** Written when it begins, and when the restores change. */
export function neededByRestoreEvents(
  backup: VecBackup,
  { restores, now }: NeededByRestore,
): KubernetesEvent[] {
  const cause = neededByRestore(restores)
  if (getCondition(backup, EXPIRED)?.message === cause.message) return []
  return [newEvent(backup, { type: 'Normal', ...cause, transition: cause.message }, now)]
}

interface NeededByRestore {
  restores: readonly NamespacedName[]
  now: Date
}

function neededByRestore(restores: readonly NamespacedName[]): ConditionReason {
  const message = `spec.retentionDays have passed; the backup is deleted after the restores that name it: ${formatRestores(restores)}`
  return { reason: 'NeededByRestore', message }
}

export function s3PathOf({ metadata, spec }: VecBackup): string {
  return s3Path({ ...spec.storage.s3, name: metadata.name })
}

/** The reported fields over those of earlier reports: a user may have removed the report. */
function reportedFields({ backup, progress }: StatusInputs): BackupStatus {
  const { status = {} } = backup
  const {
    startTime = reportedStart(progress),
    totalSize,
    collections,
    unlistedCollections,
  } = status
  const { clusterUid, collectionHashes, emptyCollectionHashes } = status
  if (startTime === undefined) return {}
  return {
    startTime,
    s3Path: s3PathOf(backup),
    ...(totalSize !== undefined && { totalSize }),
    ...(collections !== undefined && { collections }),
    ...(clusterUid !== undefined && { clusterUid }),
    ...(collectionHashes !== undefined && { collectionHashes }),
    ...(progress?.backup === undefined
      ? {
          ...(unlistedCollections !== undefined && { unlistedCollections }),
          ...(emptyCollectionHashes !== undefined && { emptyCollectionHashes }),
        }
      : resultFields(progress.backup)),
  }
}

function reportedStart(progress: Progress | undefined): string | undefined {
  return formatStartTime(progress?.backup?.startedAt ?? progress?.startedAt)
}

function resultFields(result: BackupResult): BackupStatus {
  const { bytes, collections, clusterUid, collectionHashes, emptyCollectionHashes } = result
  return {
    ...(clusterUid !== undefined && { clusterUid }),
    ...(collectionHashes !== undefined && { collectionHashes }),
    ...(emptyCollectionHashes !== undefined && { emptyCollectionHashes }),
    totalSize: formatBytes(bytes),
    ...unlistedFields(result.unlisted),
    collections: collections.map((collection) => ({
      name: collection.name,
      status: collection.status,
      ...(collection.bytes !== undefined && { size: formatBytes(collection.bytes) }),
      ...(collection.snapshots !== undefined && { snapshots: collection.snapshots }),
      ...(collection.error !== undefined && { error: collection.error }),
    })),
  }
}

export function backupEvents(
  backup: VecBackup,
  status: BackupStatus,
  now: Date,
): KubernetesEvent[] {
  const { phase, totalSize = '0 B', s3Path } = status
  return dataJobEvents(
    { resource: backup, status, now },
    {
      started: phase === 'InProgress' &&
        backup.status?.phase !== 'InProgress' && {
          reason: 'BackupStarted',
          message: `writing the backup to ${s3Path ?? 'its bucket'}`,
        },
      completed: {
        reason: 'BackupCompleted',
        suffix: `, ${totalSize} in ${s3Path ?? 'the bucket'}`,
      },
      failed: 'BackupFailed',
    },
  )
}

/** Maximum number of collections listed for an old backup. */
const MAX_LISTED = 20
const MAX_ERROR = 200

/** The report without the list that the status also has; undefined if there is nothing to omit. */
export function compactReport(progress: Progress | undefined): Progress | undefined {
  if (progress?.backup === undefined || progress.backup.collections.length === 0) return undefined
  return { ...progress, backup: withoutCollections(progress.backup) }
}

/**
 * The status of a schedule's backup, a day after it finished: the manifest names its snapshots, and
 * `collectionHashes`, which retention uses, covers all its collections.
 */
export function compactStatus(backup: VecBackup, status: BackupStatus, now: Date): BackupStatus {
  const { collections, completionTime = '', collectionHashes } = status
  const isRecent = !(secondsSince(completionTime, now) >= BACKUP_DETAILS_SECONDS)
  if (collections === undefined || isRecent || scheduleOf(backup) === undefined) return status
  const shortened = collections.map(({ name, status: phase, size, error }) => ({
    ...{ name, status: phase },
    ...(size !== undefined && { size }),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }))
  const nodes = nodesOf({ ...backup, status })
  const fields = { ...status, ...(nodes !== undefined && { nodes }) }
  // Without the hashes, retention identifies the collections by their names alone.
  if (collectionHashes === undefined) return { ...fields, collections: shortened }
  const failedFirst = shortened.toSorted((a, b) => failedRank(a) - failedRank(b))
  const omitted = failedFirst.slice(MAX_LISTED).map((collection) => collection.status)
  const count = (phase: string) => omitted.filter((a) => a === phase).length
  const { completed = 0, failed = 0, pending = 0 } = status.unlistedCollections ?? {}
  const [omittedCompleted, omittedFailed] = [count('Completed'), count('Failed')]
  return {
    ...fields,
    collections: failedFirst.slice(0, MAX_LISTED),
    ...unlistedFields({
      completed: completed + omittedCompleted,
      failed: failed + omittedFailed,
      pending: pending + omitted.length - omittedCompleted - omittedFailed,
    }),
  }
}

function failedRank({ status }: { status: string }): number {
  return status === 'Completed' ? 1 : 0
}

function withoutCollections(result: BackupResult): BackupResult {
  const { total, completed, failed } = result
  const pending = Math.max(0, total - completed - failed)
  return { ...result, collections: [], unlisted: { completed, failed, pending } }
}
