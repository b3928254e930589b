/** The tour of the demo, kind by kind. A new kind joins it with its sample, its steps and its row. */
import { API_VERSION } from '../../../crds/contract/names.ts'
import { ACCESS_KEY_STEPS } from './access-key-steps.ts'
import { BACKUP_END, BACKUP_STEPS, SCHEDULE_STEPS } from './backup-steps.ts'
import { CLUSTER_END, CLUSTER_STEPS } from './cluster-steps.ts'
import { COLLECTION_END, COLLECTION_STEPS } from './collection-steps.ts'
import { RETURN_END, RETURN_STEPS } from './return-steps.ts'
import type { Step } from './step.ts'

export const TOUR: Step[] = [
  ...CLUSTER_STEPS,
  ...COLLECTION_STEPS,
  ...ACCESS_KEY_STEPS,
  ...BACKUP_STEPS,
  ...COLLECTION_END,
  ...RETURN_STEPS,
  ...SCHEDULE_STEPS,
  ...RETURN_END,
  ...BACKUP_END,
  ...CLUSTER_END,
]

/** Every kind the demo shows, and in this order. */
export const WATCHED_KINDS = [
  { apiVersion: API_VERSION, kind: 'VecCluster' },
  { apiVersion: API_VERSION, kind: 'VecCollection' },
  { apiVersion: API_VERSION, kind: 'VecAccessKey' },
  { apiVersion: API_VERSION, kind: 'VecBackupSchedule' },
  { apiVersion: API_VERSION, kind: 'VecBackup' },
  { apiVersion: API_VERSION, kind: 'VecRestore' },
  { apiVersion: API_VERSION, kind: 'VecMigration' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
]
