/** What is observed of a restore; a test states only what it is about. */
import type { Progress } from '../../../crds/command.ts'
import type { Job, Lease } from '../../../crds/kubernetes.ts'
import type { RestoreResult } from '../../../crds/restore-command.ts'
import type { VecRestore } from '../../../crds/restore.ts'
import { restoreRights, wantedRun } from '../../../hooks/restore/children.ts'
import type { Observed } from '../../../hooks/restore/observed.ts'
import { ago, resource, type JobParts, type Parts } from '../../builders.ts'
import { leaseOf, reportOf, transferJobOf } from '../transfer.ts'
import { backup, bucketKeys, runningCluster } from '../backup/objects.ts'

export type RestoreParts = Parts<VecRestore['spec'], NonNullable<VecRestore['status']>>

export function restore({ spec, ...parts }: RestoreParts = {}): VecRestore {
  return resource(
    'VecRestore',
    {
      backupRef: { name: 'b' },
      targetClusterRef: { name: 'a' },
      collectionMapping: {},
      priority: 'snapshot',
      waitForIndexing: true,
      ...spec,
    },
    { name: 'r', ...parts },
  )
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

const TRANSFER = { kind: 'restore', uid: 'uid-r', plan: PLAN }

export function restoreJob(parts: JobParts = {}): Job {
  return transferJobOf(TRANSFER, parts)
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
  return reportOf(TRANSFER, parts)
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
