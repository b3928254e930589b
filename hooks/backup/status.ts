/** The whole status of a VecBackup, from what its Jobs reported (specification: states and transitions). */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { BackupResult, Progress } from '../../crds/command.ts'
import { s3Path } from '../../crds/layout.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionsOf, timestamp } from '../conditions.ts'
import type { Ending } from '../ending.ts'
import type { Context } from '../protocol.ts'
import { EXPIRED } from './fate.ts'
import {
  complete,
  endFields,
  incomplete,
  startTimeOf,
  unlistedFields,
  type Remark,
} from '../transfer-status.ts'

const DAY_MS = 86_400_000

interface Reported {
  backup: VecBackup
  progress?: Progress
}

/** Pending until its first report, then InProgress. */
export function openStatus(
  reported: Reported,
  remark: Remark | undefined,
  { now }: Context,
): BackupStatus {
  const { backup, progress } = reported
  const isStarted = progress !== undefined || backup.status?.startTime !== undefined
  const said = remark ?? {
    reason: 'BackupRunning',
    message: progress?.message ?? 'the backup has started',
  }
  return {
    phase: isStarted ? 'InProgress' : 'Pending',
    ...soFar(reported),
    conditions: conditionsOf(backup, [incomplete(said)], now),
  }
}

export function endedStatus(reported: Reported, ending: Ending, { now }: Context): BackupStatus {
  const { backup, progress } = reported
  const { phase, at } = ending
  const { completed: done = 0, total = 0 } = progress?.backup ?? {}
  const finding = complete(ending, {
    reason: phase === 'Completed' ? 'BackupCompleted' : 'BackupFailed',
    message: `Backed up ${done}/${total} collections`,
  })
  const { retentionDays } = backup.spec
  const expires = new Date(Date.parse(at) + (retentionDays ?? 0) * DAY_MS)
  return {
    phase,
    ...soFar(reported),
    ...endFields(ending),
    ...(phase === 'Completed' && retentionDays !== undefined && { expiresAt: timestamp(expires) }),
    conditions: conditionsOf(backup, [finding], now),
  }
}

/**
 * Of a backup that has ended. Only spec.deletionPolicy can change after that, of which the conditions say
 * nothing: so they hold for the newest generation too.
 */
export function finalStatus({ metadata, status = {} }: VecBackup): BackupStatus {
  if (status.conditions === undefined) return status
  const observedGeneration = metadata.generation
  return { ...status, conditions: status.conditions.map((one) => ({ ...one, observedGeneration })) }
}

/** retentionDays have passed: it deletes itself next, with its objects. */
export function expiredStatus(backup: VecBackup, { now }: Context): BackupStatus {
  const { conditions = [], ...status } = finalStatus(backup)
  const finding = {
    ...{ type: EXPIRED, status: 'True' as const, reason: 'RetentionDaysPassed' },
    message: `spec.retentionDays have passed since it completed: it is deleted with its objects`,
  }
  return { ...status, conditions: [...conditions, ...conditionsOf(backup, [finding], now)] }
}

export function s3PathOf({ metadata, spec }: VecBackup): string {
  return s3Path({ ...spec.storage.s3, name: metadata.name })
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ backup, progress }: Reported): BackupStatus {
  const { status = {} } = backup
  const { startTime = startOf(progress), totalSize, collections, unlistedCollections } = status
  const { clusterUid, collectionHashes } = status
  if (startTime === undefined) return {}
  return {
    startTime,
    s3Path: s3PathOf(backup),
    ...(totalSize !== undefined && { totalSize }),
    ...(collections !== undefined && { collections }),
    ...(clusterUid !== undefined && { clusterUid }),
    ...(collectionHashes !== undefined && { collectionHashes }),
    ...(progress?.backup === undefined
      ? unlistedCollections !== undefined && { unlistedCollections }
      : resultOf(progress.backup)),
  }
}

function startOf(progress: Progress | undefined): string | undefined {
  return startTimeOf(progress?.backup?.startedAt ?? progress?.startedAt)
}

function resultOf(result: BackupResult): BackupStatus {
  const { bytes, collections, clusterUid, collectionHashes } = result
  return {
    ...(clusterUid !== undefined && { clusterUid }),
    ...(collectionHashes !== undefined && { collectionHashes }),
    totalSize: humanSize(bytes),
    ...unlistedFields(result.unlisted),
    collections: collections.map((collection) => ({
      name: collection.name,
      status: collection.status,
      ...(collection.bytes !== undefined && { size: humanSize(collection.bytes) }),
      ...(collection.snapshots !== undefined && { snapshots: collection.snapshots }),
      ...(collection.error !== undefined && { error: collection.error }),
    })),
  }
}
