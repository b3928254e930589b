/** The lives of the seven kinds, each in several small worlds; the first of a kind is its smallest. */
import { accessKeys } from './access-key.ts'
import { schedules } from './backup-schedule.ts'
import { clusters } from './cluster.ts'
import { collections } from './collection.ts'
import type { Life } from './life.ts'
import { backups, migrations, restores } from './data-jobs.ts'

export const LIVES: Record<string, Record<string, Life>> = {
  VecCluster: clusters(),
  VecCollection: collections(),
  VecAccessKey: accessKeys(),
  VecBackup: backups(),
  VecBackupSchedule: schedules(),
  VecRestore: restores(),
  VecMigration: migrations(),
}
