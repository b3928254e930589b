/** The whole status of a VecBackup, from what its Jobs reported (specification: states and transitions). */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { BackupResult, Progress } from '../../crds/command.ts'
import { s3Path } from '../../crds/layout.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionsOf, timestamp, type Finding } from '../conditions.ts'
import type { Ending } from '../ending.ts'
import type { Context } from '../protocol.ts'

const DAY_MS = 86_400_000
/** A status shows no more of an error than this; the log of the Job has it all. */
const MAX_ERROR = 4096

interface Reported {
  backup: VecBackup
  progress?: Progress
}

/** Why a backup has not ended yet. */
export interface Remark {
  reason: string
  message: string
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
  const finding: Finding = { type: 'Complete', status: 'False', ...said }
  return {
    phase: isStarted ? 'InProgress' : 'Pending',
    ...soFar(reported),
    conditions: conditionsOf(backup, [finding], now),
  }
}

export function endedStatus(
  reported: Reported,
  { phase, at, error }: Ending,
  { now }: Context,
): BackupStatus {
  const { backup, progress } = reported
  const isComplete = phase === 'Completed'
  const completed = new Date(at)
  const { completed: done = 0, total = 0 } = progress?.backup ?? {}
  const finding: Finding = {
    type: 'Complete',
    status: isComplete ? 'True' : 'False',
    reason: isComplete ? 'BackupCompleted' : 'BackupFailed',
    message: `Backed up ${done}/${total} collections`,
  }
  const { retentionDays } = backup.spec
  const expires = new Date(completed.getTime() + (retentionDays ?? 0) * DAY_MS)
  return {
    phase,
    ...soFar(reported),
    completionTime: timestamp(completed),
    ...(isComplete && retentionDays !== undefined && { expiresAt: timestamp(expires) }),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
    conditions: conditionsOf(backup, [finding], now),
  }
}

export function s3PathOf({ metadata, spec }: VecBackup): string {
  return s3Path({ ...spec.storage.s3, name: metadata.name })
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ backup, progress }: Reported): BackupStatus {
  const { startTime = startOf(progress), totalSize, collections } = backup.status ?? {}
  if (startTime === undefined) return {}
  return {
    startTime,
    s3Path: s3PathOf(backup),
    ...(totalSize !== undefined && { totalSize }),
    ...(collections !== undefined && { collections }),
    ...(progress?.backup !== undefined && resultOf(progress.backup)),
  }
}

/** The first attempt's: a later one goes on with its work. */
function startOf(progress: Progress | undefined): string | undefined {
  const start = progress?.backup?.startedAt ?? progress?.startedAt
  return start === undefined ? undefined : timestamp(new Date(start))
}

function resultOf({ bytes, collections }: BackupResult): BackupStatus {
  return {
    totalSize: humanSize(bytes),
    collections: collections.map((collection) => ({
      name: collection.name,
      status: collection.status,
      ...(collection.bytes !== undefined && { size: humanSize(collection.bytes) }),
      ...(collection.snapshots !== undefined && { snapshots: collection.snapshots }),
      ...(collection.error !== undefined && { error: collection.error }),
    })),
  }
}
