/** Where each kind of object stands in the API. Without a namespace, everywhere. */
import { VecBackup } from '../crds/backup.ts'
import { VecBackupSchedule } from '../crds/backup-schedule.ts'
import { VecCluster } from '../crds/cluster.ts'
import { VecCollection } from '../crds/collection.ts'
import { VecMigration } from '../crds/migration.ts'
import { API_VERSION } from '../crds/names.ts'
import { VecRestore } from '../crds/restore.ts'
import type { Collection } from '../jobs/clients/kubernetes.ts'

export type Place = (namespace?: string) => Collection

export const namespaces = place('v1', 'namespaces')
export const pods = place('v1', 'pods')
export const services = place('v1', 'services')
export const secrets = place('v1', 'secrets')
export const events = place('v1', 'events')
export const jobs = place('batch/v1', 'jobs')
export const statefulSets = place('apps/v1', 'statefulsets')
export const leases = place('coordination.k8s.io/v1', 'leases')
export const definitions = place('apiextensions.k8s.io/v1', 'customresourcedefinitions')
export const compositeControllers = place('metacontroller.k8s.io/v1alpha1', 'compositecontrollers')
export const clusters = place(API_VERSION, VecCluster.plural)
export const collections = place(API_VERSION, VecCollection.plural)
export const backups = place(API_VERSION, VecBackup.plural)
export const schedules = place(API_VERSION, VecBackupSchedule.plural)
export const restores = place(API_VERSION, VecRestore.plural)
export const migrations = place(API_VERSION, VecMigration.plural)

/** The same kind in each of the namespaces served, or at once where all are. */
export function served(kind: Place, namespaces: string[]): Collection[] {
  return namespaces.length === 0 ? [kind()] : namespaces.map((namespace) => kind(namespace))
}

function place(apiVersion: string, plural: string): Place {
  return (namespace) => ({ apiVersion, plural, ...(namespace !== undefined && { namespace }) })
}
