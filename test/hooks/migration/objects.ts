/** What is observed of a migration; a test states only what it is about. */
import type { Progress } from '../../../crds/command.ts'
import type { Job } from '../../../crds/kubernetes.ts'
import type { MigrationResult } from '../../../crds/migration-command.ts'
import type { VecMigration } from '../../../crds/migration.ts'
import { API_VERSION } from '../../../crds/names.ts'
import { migrationRights, wantedRun } from '../../../hooks/migration/children.ts'
import type { Observed } from '../../../hooks/migration/observed.ts'
import { ago, cluster, type ClusterParts } from '../../builders.ts'
import { jobOf, type TransferJobParts } from '../transfer.ts'

export interface MigrationParts {
  spec?: Partial<VecMigration['spec']>
  status?: VecMigration['status']
  annotations?: Record<string, string>
}

/** From cluster `b` to cluster `a` of the same namespace. */
export function migration({ spec, status, annotations }: MigrationParts = {}): VecMigration {
  return {
    apiVersion: API_VERSION,
    kind: 'VecMigration',
    metadata: {
      name: 'm',
      namespace: 'ns',
      uid: 'uid-m',
      generation: 1,
      creationTimestamp: ago(3600),
      ...(annotations !== undefined && { annotations }),
    },
    spec: {
      source: { clusterRef: { name: 'b' } },
      targetClusterRef: { name: 'a' },
      collectionMapping: {},
      batchSize: 256,
      createMissing: true,
      ...spec,
    },
    ...(status !== undefined && { status }),
  }
}

export const ENDPOINT: VecMigration['spec']['source'] = {
  endpoint: {
    url: 'https://db.example:6333/',
    apiKeySecretRef: { name: 'old', key: 'token' },
    caSecretRef: { name: 'old-ca', key: 'bundle.pem' },
  },
}

export function running(name: string, parts: ClusterParts = {}) {
  return cluster({ name, status: { phase: 'Running' }, ...parts })
}

export const KEYED = { spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }

export const BOTH = { source: running('b'), target: running('a') }

/** Hash of the plan that is wanted for `ready()`. */
export const PLAN = wantedRun(migration(), BOTH)?.hash ?? ''

export function copyJob(parts: TransferJobParts = {}): Job {
  return jobOf({ kind: 'migration', uid: 'uid-m', plan: PLAN }, parts)
}

export function result(parts: Partial<MigrationResult> = {}): MigrationResult {
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
    ...parts,
  }
}

export function report(parts: Partial<Progress> = {}): Progress {
  const run = parts.run ?? 1
  return {
    uid: 'uid-m',
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

/** Nothing is missing but the Job: the rights are there and no restore writes. */
export function ready(parts: Partial<Observed> = {}): Observed {
  const jobs = parts.jobs ?? []
  return {
    migration: migration(),
    clusters: BOTH,
    secrets: {},
    liveJobs: [],
    writers: [{ kind: 'write' }, { kind: 'write' }],
    isReady: true,
    jobs,
    ...parts,
    children: [
      ...(parts.children ?? migrationRights(migration())),
      ...jobs,
    ] as Observed['children'],
  }
}
