/** What is observed of a backup; a test states only what it is about. */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupResult, Progress } from '../../../crds/command.ts'
import type { Job, Lease, Secret } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import { backupRights, wantedRun } from '../../../hooks/backup/children.ts'
import type { Observed } from '../../../hooks/backup/observed.ts'
import { ago, cluster, secret, type ClusterParts } from '../../builders.ts'
import { jobOf, type TransferJobParts } from '../transfer.ts'

export interface BackupParts {
  namespace?: string
  spec?: Partial<VecBackup['spec']>
  status?: VecBackup['status']
  annotations?: Record<string, string>
  deletionTimestamp?: string
}

export function backup(parts: BackupParts = {}): VecBackup {
  const { namespace = 'ns', spec, status, annotations, deletionTimestamp } = parts
  return {
    apiVersion: API_VERSION,
    kind: 'VecBackup',
    metadata: {
      name: 'b',
      namespace,
      uid: 'uid-b',
      generation: 1,
      creationTimestamp: ago(3600),
      ...(annotations !== undefined && { annotations }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: {
      clusterRef: { name: 'a' },
      ...{ method: 'Node', parallelism: 2 },
      storage: {
        s3: {
          bucket: 'store',
          prefix: 'daily',
          region: 'us-east-1',
          forcePathStyle: false,
          credentialsSecretRef: {
            name: 's3',
            accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
            secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
          },
        },
      },
      ...spec,
    },
    ...(status !== undefined && { status }),
  }
}

/** Hash of the plan that is wanted for `ready()`. */
export const PLAN = wantedRun(backup(), runningCluster(), undefined).hash

export function transferJob(parts: TransferJobParts = {}): Job {
  return jobOf({ kind: 'backup', uid: 'uid-b', plan: PLAN }, parts)
}

export function runningCluster(parts: ClusterParts = {}) {
  return cluster({ status: { phase: 'Running' }, ...parts })
}

export const bucketKeys = secret({ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'key' })

export function result(parts: Partial<BackupResult> = {}): BackupResult {
  return {
    startedAt: ago(300),
    total: 2,
    completed: 1,
    failed: 0,
    bytes: 1_503_238_553,
    collections: [],
    unlisted: { completed: 0, failed: 0, pending: 0 },
    ...parts,
  }
}

export function report(parts: Partial<Progress> = {}): Progress {
  const run = parts.run ?? 1
  return {
    uid: 'uid-b',
    verb: 'run',
    run,
    job: `job-${run}`,
    runner: 'pod-1',
    plan: PLAN,
    state: 'Started',
    at: ago(30),
    startedAt: ago(200),
    ...parts,
  }
}

export function leaseOf(kind: string, holder: string, secondsAgo = 5): Lease {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name: `vec-a-${kind}`,
      namespace: 'ns',
      uid: 'uid-lease',
      resourceVersion: '7',
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name: 'a', uid: 'uid-a' }],
    },
    spec: { holderIdentity: holder, acquireTime: ago(secondsAgo) },
  }
}

export const MINE = 'VecBackup/ns/b/uid-b'

/** Nothing is missing but the Job: the rights are there and the Lease is held. */
export function ready(parts: Partial<Observed> = {}): Observed {
  const jobs = parts.jobs ?? []
  return {
    backup: backup(),
    cluster: runningCluster(),
    secrets: { bucket: bucketKeys },
    liveJobs: [],
    leases: {
      write: { kind: 'write' },
      backup: { kind: 'backup', lease: leaseOf('backup', MINE), jobs: [] },
    },
    jobs,
    ...parts,
    children: [...(parts.children ?? backupRights(backup())), ...jobs],
  }
}

export function keySecret(value = 'k'): Secret {
  return secret({ 'api-key': value })
}
