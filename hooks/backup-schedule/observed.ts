/** All that a decision about a VecBackupSchedule knows. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'

export interface Observed {
  schedule: VecBackupSchedule
  /** Our backups as Metacontroller shows them. */
  children: VecBackup[]
  /** The latest slot of which anything tells that it had its backup. */
  doneUntil?: Date
  /** Size of the request that shows them. */
  bytes?: number
  /** As it is now; only where a backup may have to be made or to go. */
  live?: Live
}

export interface Live {
  schedule?: VecBackupSchedule
  backups: VecBackup[]
  /** A VecBackup of the wanted name that is not among ours. */
  namesake?: VecBackup
}
