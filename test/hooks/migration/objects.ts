/** What is observed of a migration; a test states only what it is about. */
import type { Progress } from '../../../crds/command.ts'
import type { Job } from '../../../crds/kubernetes.ts'
import type { MigrationResult } from '../../../crds/migration-command.ts'
import type { VecMigration } from '../../../crds/migration.ts'
import { migrationRights, wantedRun } from '../../../hooks/migration/children.ts'
import type { Observed } from '../../../hooks/migration/observed.ts'
import {
  ago,
  cluster,
  resource,
  type ClusterParts,
  type JobParts,
  type Parts,
} from '../../builders.ts'
import { reportOf, transferJobOf } from '../transfer.ts'

export type MigrationParts = Parts<VecMigration['spec'], NonNullable<VecMigration['status']>>

/** From cluster `b` to cluster `a` of the same namespace. */
export function migration({ spec, ...parts }: MigrationParts = {}): VecMigration {
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
    { name: 'm', ...parts },
  )
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

const TRANSFER = { kind: 'migration', uid: 'uid-m', plan: PLAN }

export function copyJob(parts: JobParts = {}): Job {
  return transferJobOf(TRANSFER, parts)
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
  return reportOf(TRANSFER, parts)
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
