/** What is observed of a backup; a test states only what it is about. */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupResult, Progress } from '../../../crds/command.ts'
import type { Job, Secret } from '../../../crds/kubernetes.ts'
import { backupRights, wantedRun } from '../../../hooks/backup/children.ts'
import type { Observed } from '../../../hooks/backup/observed.ts'
import {
  ago,
  cluster,
  resource,
  secret,
  type ClusterParts,
  type JobParts,
  type Parts,
} from '../../builders.ts'
import { leaseOf, reportOf, transferJobOf } from '../transfer.ts'

export type BackupParts = Parts<VecBackup['spec'], NonNullable<VecBackup['status']>>

export function backup({ spec, ...parts }: BackupParts = {}): VecBackup {
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
          credentialsSecretRef: {
            name: 's3',
            accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
            secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
          },
        },
      },
      ...spec,
    },
    { name: 'b', ...parts },
  )
}

/** Hash of the plan that is wanted for `ready()`. */
export const PLAN = wantedRun(backup(), runningCluster(), undefined).hash

const TRANSFER = { kind: 'backup', uid: 'uid-b', plan: PLAN }

export function transferJob(parts: JobParts = {}): Job {
  return transferJobOf(TRANSFER, parts)
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
  return reportOf(TRANSFER, parts)
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
