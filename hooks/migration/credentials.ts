/**
 * The Secrets the Job of a migration is given: what each is called there, where it stands, and which
 * of them as a copy (hooks/copies.ts). Engine and authority of the target are `engine` and `tls`, as
 * for every Job; those of the source `source-engine` and `source-tls`.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { connectionOf } from '../../crds/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { clusterRefusal } from '../allow.ts'
import type { CrossNamespace } from '../allow-from.ts'
import { CLUSTER_CREDENTIALS, CLUSTER_KEYS, type Original } from '../copies.ts'
import { isSet, secretLack, unsuitableSecret, type Lack } from '../lack.ts'
import { sourceClusterOf, targetOf } from './places.ts'

/** The clusters of a migration, as far as they exist. */
export interface Clusters {
  source?: VecCluster
  target?: VecCluster
}

/** The Secrets there are, by credential. */
export type Secrets = Partial<Record<string, Secret>>

export interface Credential {
  credential: string
  namespace: string
  /** Name of the Secret. */
  name: string
  key: string
  /** Without it the Job can do nothing. */
  isRequired: boolean
}

/** All that are wanted, whether they exist or not. */
export function wantedCredentials(migration: VecMigration, clusters: Clusters): Credential[] {
  return [
    ...ofCluster(clusters.target, ''),
    ...ofCluster(clusters.source, SOURCE),
    ...ofEndpoint(migration),
  ]
}

/** Those the Job gets. */
export function givenCredentials(
  migration: VecMigration,
  clusters: Clusters,
  secrets: Secrets,
): Credential[] {
  return wantedCredentials(migration, clusters).filter(({ credential, key }) =>
    isSet(secrets[credential]?.data?.[key]),
  )
}

export function credentialLack(
  migration: VecMigration,
  clusters: Clusters,
  secrets: Secrets,
): Lack | undefined {
  for (const { credential, key, isRequired, ...place } of wantedCredentials(migration, clusters)) {
    const secret = secrets[credential]
    const lack = isRequired
      ? (unsuitableSecret(place, [key], secret) ?? secretLack(place, [key], secret))
      : undefined
    if (lack !== undefined) return lack
  }
  return undefined
}

/** Those that can only be copies, also when the clusters are gone by now. */
export function copied(migration: VecMigration): string[] {
  const { namespace } = migration.metadata
  const source = sourceClusterOf(migration)
  return [
    ...(targetOf(migration).namespace === namespace ? [] : CLUSTER_CREDENTIALS),
    ...(source === undefined || source.namespace === namespace
      ? []
      : CLUSTER_CREDENTIALS.map((credential) => SOURCE + credential)),
  ]
}

/** What the copies are made from. A cluster made anew under its name may allow less. */
export function originalsOf(
  migration: VecMigration,
  { source, target }: Clusters,
  secrets: Secrets,
  settings: CrossNamespace,
): Original[] {
  const { namespace } = migration.metadata
  const allowed = (cluster: VecCluster | undefined) =>
    cluster !== undefined && clusterRefusal(cluster, namespace, settings) === undefined
  const clusters = {
    ...(allowed(source) && { source: source as VecCluster }),
    ...(allowed(target) && { target: target as VecCluster }),
  }
  const foreign = copied(migration)
  return givenCredentials(migration, clusters, secrets).flatMap(({ credential, key }) => {
    const secret = secrets[credential]
    if (secret === undefined || !foreign.includes(credential)) return []
    return [{ credential, keys: [key], secret }]
  })
}

const SOURCE = 'source-'

function ofCluster(cluster: VecCluster | undefined, prefix: string): Credential[] {
  if (cluster === undefined) return []
  const { namespace, key, caSecret } = connectionOf(cluster)
  return [
    ...(key === undefined
      ? []
      : [
          {
            credential: `${prefix}engine`,
            namespace,
            name: key.secret,
            key: key.key,
            isRequired: true,
          },
        ]),
    ...(caSecret === undefined
      ? []
      : [
          {
            credential: `${prefix}tls`,
            namespace,
            name: caSecret,
            key: CLUSTER_KEYS.tls,
            // Without one, those the system trusts will do.
            isRequired: false,
          },
        ]),
  ]
}

function ofEndpoint({ metadata: { namespace }, spec }: VecMigration): Credential[] {
  const { apiKeySecretRef, caSecretRef } = spec.source.endpoint ?? {}
  const named = [
    ['engine', apiKeySecretRef],
    ['tls', caSecretRef],
  ] as const
  return named.flatMap(([credential, ref]) =>
    ref === undefined
      ? []
      : [{ credential: SOURCE + credential, namespace, ...ref, isRequired: true }],
  )
}
