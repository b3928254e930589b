/** Every field of a VecBackupSchedule's status (specification: VecBackupSchedule). */
import type { VecBackup } from '../../crds/backup.ts'
import type { BackupScheduleStatus } from '../../crds/backup-schedule.ts'
import { RECENT_BACKUPS } from '../../crds/limits.ts'
import { conditionsOf, timestamp, type Finding } from '../conditions.ts'
import { heldMessage, type Held } from './contents.ts'
import { largeHistory } from './history.ts'
import { isActive, standing } from './decision.ts'
import type { Observed } from './observed.ts'

/** A condition shows no more than this. */
const MAX_MESSAGE = 1024

export function scheduleStatus(
  observed: Observed,
  { ready, next, held = [] }: { ready: Finding; next?: Date; held?: Held[] },
  now: Date,
): BackupScheduleStatus {
  const { schedule, doneUntil } = observed
  // As Metacontroller shows them, like all other passes see them: a live look would flicker.
  const backups = standing(observed, observed.children)
  const active = backups.find(isActive)
  const findings = [ready, ...heldFinding(held), ...largeHistory(observed)].map((finding) => ({
    ...finding,
    message: finding.message.slice(0, MAX_MESSAGE),
  }))
  return {
    phase: schedule.spec.suspend ? 'Suspended' : 'Active',
    // Told by backups that were made, never by the clock: so it is frozen while none is made.
    ...(doneUntil !== undefined && { lastScheduleTime: timestamp(doneUntil) }),
    ...lastOf(backups.find((backup) => !isActive(backup))),
    ...(next !== undefined && { nextBackupTime: timestamp(next) }),
    ...(active !== undefined && { activeBackup: active.metadata.name }),
    recentBackups: backups.slice(0, RECENT_BACKUPS).map(recentOf),
    conditions: conditionsOf(schedule, findings, now),
  }
}

/** Only while retention holds something back. */
export function heldFinding(held: Held[]): Finding[] {
  if (held.length === 0) return []
  const message = heldMessage(held)
  return [{ type: 'RetentionApplied', status: 'False', reason: 'LastCopyKept', message }]
}

function lastOf(backup: VecBackup | undefined): BackupScheduleStatus {
  if (backup?.status === undefined) return {}
  const { phase, completionTime } = backup.status
  return {
    lastBackupName: backup.metadata.name,
    ...(completionTime !== undefined && { lastBackupTime: completionTime }),
    ...(phase !== undefined && { lastBackupStatus: phase }),
  }
}

function recentOf({ metadata, status }: VecBackup) {
  const { phase = 'Pending', completionTime, totalSize } = status ?? {}
  return {
    name: metadata.name,
    creationTime: metadata.creationTimestamp,
    ...(completionTime !== undefined && { completionTime }),
    status: phase,
    ...(totalSize !== undefined && { size: totalSize }),
  }
}
