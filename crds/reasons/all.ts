/**
 * Every reason of every kind: the one source of `vec-operator explain` and of docs/reasons.md. A test
 * finds the reasons in the code of hooks and jobs and wants each to be here, and none besides.
 */
import type { Resource } from '../resources.ts'
import { ACCESS_KEY_REASONS } from './access-key.ts'
import { BACKUP_REASONS } from './backup.ts'
import { BACKUP_SCHEDULE_REASONS } from './backup-schedule.ts'
import { CLUSTER_REASONS } from './cluster.ts'
import { COLLECTION_REASONS } from './collection.ts'
import { MIGRATION_REASONS } from './migration.ts'
import type { Reason } from './reason.ts'
import { RESTORE_REASONS } from './restore.ts'

export const REASONS: Readonly<Record<Resource['kind'], readonly Reason[]>> = {
  VecCluster: CLUSTER_REASONS,
  VecCollection: COLLECTION_REASONS,
  VecAccessKey: ACCESS_KEY_REASONS,
  VecBackup: BACKUP_REASONS,
  VecBackupSchedule: BACKUP_SCHEDULE_REASONS,
  VecRestore: RESTORE_REASONS,
  VecMigration: MIGRATION_REASONS,
}
