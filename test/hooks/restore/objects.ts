/** What is observed of a restore; a test states only what it is about. */
import type { Progress } from '../../../crds/command.ts'
import type { Job, Lease } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import type { RestoreResult } from '../../../crds/restore-command.ts'
import type { VecRestore } from '../../../crds/restore.ts'
import { restoreRights, wantedRun } from '../../../hooks/restore/children.ts'
import type { Observed } from '../../../hooks/restore/observed.ts'
import { ago } from '../../builders.ts'
import { jobOf, type TransferJobParts } from '../transfer.ts'
import { backup, bucketKeys, leaseOf, runningCluster } from '../backup/objects.ts'

export interface RestoreParts {
  namespace?: string
  spec?: Partial<VecRestore['spec']>
  status?: VecRestore['status']
  annotations?: Record<string, string>
}

export function restore(parts: RestoreParts = {}): VecRestore {
  const { namespace = 'ns', spec, status, annotations } = parts
  return {
    apiVersion: API_VERSION,
    kind: 'VecRestore',
    metadata: {
      name: 'r',
      namespace,
      uid: 'uid-r',
      generation: 1,
      creationTimestamp: ago(3600),
      ...(annotations !== undefined && { annotations }),
    },
    spec: {
      backupRef: { name: 'b' },
      targetClusterRef: { name: 'a' },
      collectionMapping: {},
      priority: 'snapshot',
      waitForIndexing: true,
      ...spec,
    },
    ...(status !== undefined && { status }),
  }
}

/** A restore that names its bucket itself. */
export function direct(): VecRestore {
  const { bucket, region, forcePathStyle, credentialsSecretRef } = backup().spec.storage.s3
  const s3 = { bucket, region, forcePathStyle, credentialsSecretRef, path: '/daily/b/' }
  const made = restore({ spec: { source: { s3 } } })
  delete made.spec.backupRef
  return made
}

export function completedBackup(parts: Parameters<typeof backup>[0] = {}) {
  return backup({ status: { phase: 'Completed' }, ...parts })
}

/** Hash of the plan that is wanted for `ready()`. */
export const PLAN =
  wantedRun(restore(), runningCluster(), { backup: completedBackup() })?.hash ?? ''

export function restoreJob(parts: TransferJobParts = {}): Job {
  return jobOf({ kind: 'restore', uid: 'uid-r', plan: PLAN }, parts)
}

export function result(parts: Partial<RestoreResult> = {}): RestoreResult {
  return {
    startedAt: ago(300),
    phase: 'Restoring',
    total: 2,
    completed: 1,
    failed: 0,
    bytes: 512,
    bytesTotal: 2048,
    collections: [
      { name: 'docs', status: 'Completed', bytes: 512, points: 7 },
      { name: 'new', originalName: 'old', status: 'Restoring' },
    ],
    unlisted: { completed: 0, failed: 0, pending: 0 },
    ...parts,
  }
}

export function report(parts: Partial<Progress> = {}): Progress {
  const run = parts.run ?? 1
  return {
    uid: 'uid-r',
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

export const MINE = 'VecRestore/ns/r/uid-r'

/** Both Leases, in the hands of somebody for some seconds. */
export function leasesOf(holder: string, seconds = 20, jobs: Job[] = []) {
  const seen = (kind: 'write' | 'backup'): { kind: typeof kind; lease: Lease; jobs: Job[] } => ({
    kind,
    lease: leaseOf(kind, holder, seconds),
    jobs,
  })
  return { write: seen('write'), backup: seen('backup') }
}

/** Nothing is missing but the Job: the rights are there, and the Leases have been held long enough. */
export function ready(parts: Partial<Observed> = {}): Observed {
  const jobs = parts.jobs ?? []
  return {
    restore: restore(),
    cluster: runningCluster(),
    backup: completedBackup(),
    secrets: { bucket: bucketKeys },
    liveJobs: [],
    leases: leasesOf(MINE),
    others: [],
    jobs,
    ...parts,
    children: [...(parts.children ?? restoreRights(restore())), ...jobs],
  }
}
