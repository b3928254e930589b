/** What is observed of a restore; a test states only what it is about. */
import type { Progress } from '../../../crds/contract/job.ts'
import type { Job, Lease } from '../../../crds/kubernetes.ts'
import type { RestoreResult } from '../../../crds/contract/restore-job.ts'
import type { VecRestore } from '../../../crds/restore.ts'
import { restoreRbac, desiredPlan } from '../../../hooks/restore/job.ts'
import type { Observed } from '../../../hooks/restore/observe.ts'
import { ago, resource, type JobOverrides, type ResourceOverrides } from '../../builders.ts'
import { leaseOf, progressReport, dataJobOf } from '../data-job/fixtures.ts'
import { backup, bucketKeys, runningCluster } from '../backup/objects.ts'

export type RestoreOverrides = ResourceOverrides<
  VecRestore['spec'],
  NonNullable<VecRestore['status']>
>

export function restore({ spec, ...overrides }: RestoreOverrides = {}): VecRestore {
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
    { name: 'r', ...overrides },
  )
}

/** A restore that names its bucket itself. */
export function directRestore(): VecRestore {
  const { prefix: _, ...store } = backup().spec.storage.s3
  const s3 = { ...store, path: '/daily/b/' }
  const object = restore({ spec: { source: { s3 } } })
  delete object.spec.backupRef
  return object
}

export function completedBackup(overrides: Parameters<typeof backup>[0] = {}) {
  return backup({ status: { phase: 'Completed' }, ...overrides })
}

/** Hash of the desired plan for `ready()`. */
export const PLAN_HASH =
  desiredPlan(restore(), runningCluster(), { backup: completedBackup() })?.hash ?? ''

const DATA_JOB = { kind: 'restore', name: 'r', uid: 'uid-r', plan: PLAN_HASH }

export function restoreJob(overrides: JobOverrides = {}): Job {
  return dataJobOf(DATA_JOB, overrides)
}

export function result(overrides: Partial<RestoreResult> = {}): RestoreResult {
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
    ...overrides,
  }
}

export function report(overrides: Partial<Progress> = {}): Progress {
  return progressReport(DATA_JOB, overrides)
}

export const OWN_HOLDER = 'VecRestore/ns/r/uid-r'

/** Both Leases, held for some seconds. */
export function heldLeases(holder: string, seconds = 20, jobs: Job[] = []) {
  const observedLease = (
    kind: 'write' | 'backup',
  ): { kind: typeof kind; lease: Lease; jobs: Job[] } => ({
    kind,
    lease: leaseOf(kind, holder, seconds),
    jobs,
  })
  return { write: observedLease('write'), backup: observedLease('backup') }
}

/** Nothing is missing but the Job: the rights are there, and the Leases have been held long enough. */
export function ready(overrides: Partial<Observed> = {}): Observed {
  const jobs = overrides.jobs ?? []
  return {
    restore: restore(),
    cluster: runningCluster(),
    backup: completedBackup(),
    secrets: { bucket: bucketKeys },
    liveJobs: [],
    leases: heldLeases(OWN_HOLDER),
    conflictingWork: [],
    jobs,
    ...overrides,
    children: [...(overrides.children ?? restoreRbac(restore())), ...jobs],
  }
}
