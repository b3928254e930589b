/** The children of a VecMigration: the rights of its Job, and the Job with its plan. */
import { connectionOf } from '../../crds/connection.ts'
import type { MigrationPlan, MigrationSource } from '../../crds/migration-command.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { shortHash } from '../../crds/names.ts'
import { trimmedEnd } from '../../crds/text.ts'
import { newJob } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import { rightsOf, type Rights } from '../rights.ts'
import { copied, givenCredentials, type Clusters } from './credentials.ts'
import type { Observed } from './observed.ts'
import { sourceClusterOf } from './places.ts'

export function migrationRights(migration: VecMigration): Rights {
  return rightsOf(migration, { kind: 'migration', plural: 'vecmigrations', helm: false })
}

/** The run that is wanted now, where both sides are there; its number is given when a Job is made of it. */
export function wantedRun(
  migration: VecMigration,
  clusters: Clusters,
): Omit<MigrationPlan, 'run'> | undefined {
  const source = sourceOf(migration, clusters)
  if (clusters.target === undefined || source === undefined) return undefined
  const { namespace, name, uid } = migration.metadata
  const content = { source, target: connectionOf(clusters.target) }
  const hash = shortHash(JSON.stringify(content))
  return { resource: 'vecmigrations', namespace, name, uid, hash, ...content }
}

export function migrationJob(
  { migration, clusters, secrets }: Observed,
  plan: MigrationPlan,
  settings: Settings,
): Child {
  const [account] = migrationRights(migration)
  const given = givenCredentials(migration, clusters, secrets)
  const foreign = copied(migration)
  const own = given.filter(({ credential }) => !foreign.includes(credential))
  return newJob(
    {
      kind: 'migration',
      verb: 'run',
      plan,
      largeField: 'spec.source',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.data,
      credentials: Object.fromEntries(own.map(({ credential, name }) => [credential, name])),
      copies: given.filter((one) => !own.includes(one)).map(({ credential }) => credential),
    },
    settings,
  )
}

function sourceOf(migration: VecMigration, { source }: Clusters): MigrationSource | undefined {
  if (sourceClusterOf(migration) !== undefined) {
    return source === undefined ? undefined : { cluster: connectionOf(source) }
  }
  const { url, apiKeySecretRef, caSecretRef } = migration.spec.source.endpoint ?? {}
  if (url === undefined) return undefined
  return {
    url: trimmedEnd(url, '/'),
    ...(apiKeySecretRef !== undefined && { apiKey: apiKeySecretRef.key }),
    ...(caSecretRef !== undefined && { ca: caSecretRef.key }),
  }
}
