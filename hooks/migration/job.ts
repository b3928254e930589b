/** The children of a VecMigration: the RBAC of its Job, and the Job with its plan. */
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { MigrationPlan, MigrationSource } from '../../crds/contract/migration-job.ts'
import { shortHash, trimTrailing } from '../../crds/contract/names.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { newJob, jobRbac, type JobRbac } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import {
  availableCredentials,
  copiedCredentials,
  sourceClusterRef,
  type Clusters,
} from './endpoints.ts'
import type { Observed } from './observe.ts'

export function migrationRbac(migration: VecMigration): JobRbac {
  return jobRbac(migration, { kind: 'migration', plural: 'vecmigrations', helm: false })
}

/** The current plan, if both sides exist; its run number is set when a Job is created from it. */
export function desiredPlan(
  migration: VecMigration,
  clusters: Clusters,
): Omit<MigrationPlan, 'run'> | undefined {
  const source = planSource(migration, clusters)
  if (clusters.target === undefined || source === undefined) return undefined
  const { namespace, name, uid } = migration.metadata
  const content = { source, target: clusterConnection(clusters.target) }
  const hash = shortHash(JSON.stringify(content))
  return { resource: 'vecmigrations', namespace, name, uid, hash, ...content }
}

export function migrationJob(
  { migration, clusters, secrets }: Observed,
  plan: MigrationPlan,
  settings: Settings,
): Child {
  const [account] = migrationRbac(migration)
  const available = availableCredentials(migration, clusters, secrets)
  const copyNames = copiedCredentials(migration)
  const localCredentials = available.filter(({ credential }) => !copyNames.includes(credential))
  return newJob(
    {
      kind: 'migration',
      verb: 'run',
      plan,
      largeField: 'spec.source',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.data,
      credentials: Object.fromEntries(
        localCredentials.map(({ credential, name }) => [credential, name]),
      ),
      secretCopies: available
        .filter((candidate) => !localCredentials.includes(candidate))
        .map(({ credential }) => credential),
    },
    settings,
  )
}

function planSource(migration: VecMigration, { source }: Clusters): MigrationSource | undefined {
  if (sourceClusterRef(migration) !== undefined) {
    return source === undefined ? undefined : { cluster: clusterConnection(source) }
  }
  const { url, apiKeySecretRef, caSecretRef } = migration.spec.source.endpoint ?? {}
  if (url === undefined) return undefined
  return {
    url: trimTrailing(url, '/'),
    ...(apiKeySecretRef !== undefined && { apiKey: apiKeySecretRef.key }),
    ...(caSecretRef !== undefined && { ca: caSecretRef.key }),
  }
}
