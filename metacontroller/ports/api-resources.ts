/** API resource of each kind of ours; without a namespace it covers all namespaces. */
import { VecBackup } from '../../crds/backup.ts'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { VecCollection } from '../../crds/collection.ts'
import { VecMigration } from '../../crds/migration.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { VecRestore } from '../../crds/restore.ts'
import { apiResource } from '../../jobs/clients/kubernetes/api-resources.ts'

export const clusters = apiResource(API_VERSION, VecCluster.plural)
export const collections = apiResource(API_VERSION, VecCollection.plural)
export const backups = apiResource(API_VERSION, VecBackup.plural)
export const backupSchedules = apiResource(API_VERSION, VecBackupSchedule.plural)
export const restores = apiResource(API_VERSION, VecRestore.plural)
export const migrations = apiResource(API_VERSION, VecMigration.plural)
