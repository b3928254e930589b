/** Observations of a backup; a test states only what it is about. */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupResult, Progress } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { AnyObject, Job, Secret } from '../../../crds/kubernetes.ts'
import { backupRbac, desiredPlan } from '../../../hooks/backup/job.ts'
import type { Observed } from '../../../hooks/backup/observe.ts'
import {
  ago,
  cluster,
  resource,
  secret,
  type ClusterOverrides,
  type JobOverrides,
  type ResourceOverrides,
} from '../../builders.ts'
import { leaseOf, progressReport, dataJobOf } from '../data-job/fixtures.ts'

export type BackupOverrides = ResourceOverrides<VecBackup['spec'], NonNullable<VecBackup['status']>>

export const BUCKET_SECRET = {
  name: 's3',
  accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
  secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
}

export function backup({ spec, ...overrides }: BackupOverrides = {}): VecBackup {
  return resource(
    'VecBackup',
    {
      clusterRef: { name: 'a' },
      ...{ method: 'Node', parallelism: 2 },
      storage: {
        s3: {
          bucket: 'store',
          prefix: 'daily',
          region: 'us-east-1',
          forcePathStyle: false,
          credentialsSecretRef: BUCKET_SECRET,
        },
      },
      ...spec,
    },
    { name: 'b', ...overrides },
  )
}

/** The same with a bucket that is accessed with the identity of a ServiceAccount. */
export function identityBackup({ spec, ...overrides }: BackupOverrides = {}): VecBackup {
  const { credentialsSecretRef: _, ...s3 } = backup().spec.storage.s3
  const storage = { s3: { ...s3, serviceAccountName: 'backup' } }
  return backup({ ...overrides, spec: { storage, ...spec } })
}

export function serviceAccount(
  annotations: Record<string, string> = { [ANNOTATIONS.dataJobs]: 'allow' },
): AnyObject {
  const metadata = { name: 'backup', namespace: 'ns', annotations }
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata }
}

/** Hash of the desired plan for `ready()`. */
export const PLAN_HASH = desiredPlan(backup(), runningCluster(), undefined).hash

const DATA_JOB = { kind: 'backup', name: 'b', uid: 'uid-b', plan: PLAN_HASH }

export function dataJob(overrides: JobOverrides = {}): Job {
  return dataJobOf(DATA_JOB, overrides)
}

export function runningCluster(overrides: ClusterOverrides = {}) {
  return cluster({ status: { phase: 'Running' }, ...overrides })
}

export const bucketKeys = secret({ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'key' })

export function result(overrides: Partial<BackupResult> = {}): BackupResult {
  return {
    startedAt: ago(300),
    total: 2,
    completed: 1,
    failed: 0,
    bytes: 1_503_238_553,
    collections: [],
    unlisted: { completed: 0, failed: 0, pending: 0 },
    ...overrides,
  }
}

export function report(overrides: Partial<Progress> = {}): Progress {
  return progressReport(DATA_JOB, overrides)
}

export const OWN_HOLDER = 'VecBackup/ns/b/uid-b'

/** Everything except the Job exists: RBAC and the Lease. */
export function ready(overrides: Partial<Observed> = {}): Observed {
  const jobs = overrides.jobs ?? []
  return {
    backup: backup(),
    cluster: runningCluster(),
    secrets: { bucket: bucketKeys },
    liveJobs: [],
    leases: {
      write: { kind: 'write' },
      backup: { kind: 'backup', lease: leaseOf('backup', OWN_HOLDER), jobs: [] },
    },
    jobs,
    ...overrides,
    children: [...(overrides.children ?? backupRbac(backup())), ...jobs],
  }
}

export function keySecret(value = 'k'): Secret {
  return secret({ 'api-key': value })
}
