/** API resource of each kind of object; without a namespace it covers all namespaces. */
import { VecAccessKey } from '../../../crds/access-key.ts'
import { VecBackup } from '../../../crds/backup.ts'
import { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { VecCluster } from '../../../crds/cluster.ts'
import { VecCollection } from '../../../crds/collection.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { VecMigration } from '../../../crds/migration.ts'
import { VecRestore } from '../../../crds/restore.ts'
import type { ApiResource } from './client.ts'

export type ApiResourceFn = (namespace?: string) => ApiResource

export const namespaces = apiResource('v1', 'namespaces')
export const pods = apiResource('v1', 'pods')
export const persistentVolumeClaims = apiResource('v1', 'persistentvolumeclaims')
export const kubernetesNodes = apiResource('v1', 'nodes')
export const services = apiResource('v1', 'services')
export const configMaps = apiResource('v1', 'configmaps')
export const secrets = apiResource('v1', 'secrets')
export const serviceAccounts = apiResource('v1', 'serviceaccounts')
export const events = apiResource('v1', 'events')
export const jobs = apiResource('batch/v1', 'jobs')
export const statefulSets = apiResource('apps/v1', 'statefulsets')
export const podDisruptionBudgets = apiResource('policy/v1', 'poddisruptionbudgets')
export const endpointSlices = apiResource('discovery.k8s.io/v1', 'endpointslices')
export const leases = apiResource('coordination.k8s.io/v1', 'leases')
export const crds = apiResource('apiextensions.k8s.io/v1', 'customresourcedefinitions')
export const compositeControllers = apiResource(
  'metacontroller.k8s.io/v1alpha1',
  'compositecontrollers',
)

export const clusters = apiResource(API_VERSION, VecCluster.plural)
export const accessKeys = apiResource(API_VERSION, VecAccessKey.plural)
export const collections = apiResource(API_VERSION, VecCollection.plural)
export const backups = apiResource(API_VERSION, VecBackup.plural)
export const backupSchedules = apiResource(API_VERSION, VecBackupSchedule.plural)
export const restores = apiResource(API_VERSION, VecRestore.plural)
export const migrations = apiResource(API_VERSION, VecMigration.plural)

/** One API resource per served namespace, or a single one if all namespaces are served. */
export function inNamespaces(resource: ApiResourceFn, namespaces: string[]): ApiResource[] {
  return namespaces.length === 0 ? [resource()] : namespaces.map((namespace) => resource(namespace))
}

export function apiResource(apiVersion: string, plural: string): ApiResourceFn {
  return (namespace) => ({ apiVersion, plural, ...(namespace !== undefined && { namespace }) })
}
