/** The seven kinds, in the order people read about them. */
import { VecAccessKey } from './access-key.ts'
import { VecBackup } from './backup.ts'
import { VecBackupSchedule } from './backup-schedule.ts'
import { VecCluster } from './cluster.ts'
import { VecCollection } from './collection.ts'
import { VecMigration } from './migration.ts'
import { VecRestore } from './restore.ts'

export const RESOURCES = [
  VecCluster,
  VecCollection,
  VecAccessKey,
  VecBackup,
  VecBackupSchedule,
  VecRestore,
  VecMigration,
] as const

export type Resource = (typeof RESOURCES)[number]
