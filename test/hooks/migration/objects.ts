/** What is observed of a migration; a test states only what it is about. */
import type { Progress } from '../../../crds/contract/job.ts'
import type { Job } from '../../../crds/kubernetes.ts'
import type { MigrationResult } from '../../../crds/contract/migration-job.ts'
import type { VecMigration } from '../../../crds/migration.ts'
import { migrationRbac, desiredPlan } from '../../../hooks/migration/job.ts'
import type { Observed } from '../../../hooks/migration/observe.ts'
import {
  ago,
  cluster,
  resource,
  type ClusterOverrides,
  type JobOverrides,
  type ResourceOverrides,
} from '../../builders.ts'
import { progressReport, dataJobOf } from '../data-job/fixtures.ts'

export type MigrationOverrides = ResourceOverrides<
  VecMigration['spec'],
  NonNullable<VecMigration['status']>
>

/** From cluster `b` to cluster `a` of the same namespace. */
export function migration({ spec, ...overrides }: MigrationOverrides = {}): VecMigration {
  return resource(
    'VecMigration',
    {
      source: { clusterRef: { name: 'b' } },
      targetClusterRef: { name: 'a' },
      collectionMapping: {},
      batchSize: 256,
      createMissing: true,
      ...spec,
    },
    { name: 'm', ...overrides },
  )
}

export const ENDPOINT: VecMigration['spec']['source'] = {
  endpoint: {
    url: 'https://db.example:6333/',
    apiKeySecretRef: { name: 'old', key: 'token' },
    caSecretRef: { name: 'old-ca', key: 'bundle.pem' },
  },
}

export function running(name: string, overrides: ClusterOverrides = {}) {
  return cluster({ name, status: { phase: 'Running' }, ...overrides })
}

export const WITH_API_KEY = { spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }

export const CLUSTERS = { source: running('b'), target: running('a') }

/** Hash of the desired plan for `ready()`. */
export const PLAN_HASH = desiredPlan(migration(), CLUSTERS)?.hash ?? ''

const DATA_JOB = { kind: 'migration', name: 'm', uid: 'uid-m', plan: PLAN_HASH }

export function migrationJob(overrides: JobOverrides = {}): Job {
  return dataJobOf(DATA_JOB, overrides)
}

export function result(overrides: Partial<MigrationResult> = {}): MigrationResult {
  return {
    startedAt: ago(300),
    total: 2,
    completed: 1,
    failed: 0,
    pointsTotal: 1000,
    pointsCopied: 750,
    collections: [
      {
        name: 'docs',
        targetName: 'docs',
        status: 'Completed',
        pointsTotal: 500,
        pointsCopied: 500,
      },
    ],
    unlisted: { completed: 0, failed: 0, pending: 1 },
    ...overrides,
  }
}

export function report(overrides: Partial<Progress> = {}): Progress {
  return progressReport(DATA_JOB, overrides)
}

/** Nothing is missing but the Job: the rights are there and no restore writes. */
export function ready(overrides: Partial<Observed> = {}): Observed {
  const jobs = overrides.jobs ?? []
  return {
    migration: migration(),
    clusters: CLUSTERS,
    secrets: {},
    liveJobs: [],
    writers: [{ kind: 'write' }, { kind: 'write' }],
    jobs,
    ...overrides,
    children: [
      ...(overrides.children ?? migrationRbac(migration())),
      ...jobs,
    ] as Observed['children'],
  }
}
