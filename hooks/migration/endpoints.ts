/**
 * The source and target of a migration by name, and the Secrets that its Job gets: the name of each
 * credential, where its Secret is, and which are copies (hooks/data-job/secret-copies.ts). The API
 * key and CA of the target are `engine` and `tls`, as for every Job; those of the source are
 * `source-engine` and `source-tls`.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { clusterAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'
import {
  hasValue,
  secretBlocker,
  secretTypeBlocker,
  type Blocker,
} from '../data-job/preconditions.ts'
import type { CopySource } from '../data-job/secret-copies.ts'
import {
  CLUSTER_CREDENTIALS,
  CREDENTIAL_KEYS,
  type ClusterCredential,
} from '../data-job/observe.ts'

/** The clusters of a migration that exist. */
export interface Clusters {
  source?: VecCluster
  target?: VecCluster
}

/** The existing Secrets, by credential. */
export type SecretsByCredential = Partial<Record<string, Secret>>

export interface Credential {
  credential: MigrationCredential
  namespace: string
  /** Name of the Secret. */
  name: string
  key: string
  /** The Job cannot work without it. */
  isRequired: boolean
}

type MigrationCredential = ClusterCredential | `${typeof SOURCE_PREFIX}${ClusterCredential}`

/** All credentials that the Job needs, whether they exist or not. */
export function allCredentials(migration: VecMigration, clusters: Clusters): Credential[] {
  return [
    ...clusterCredentials(clusters.target, ''),
    ...clusterCredentials(clusters.source, SOURCE_PREFIX),
    ...endpointCredentials(migration),
  ]
}

/** The credentials that the Job gets. */
export function availableCredentials(
  migration: VecMigration,
  clusters: Clusters,
  secrets: SecretsByCredential,
): Credential[] {
  return allCredentials(migration, clusters).filter(({ credential, key }) =>
    hasValue(secrets[credential]?.data?.[key]),
  )
}

export function credentialBlocker(
  migration: VecMigration,
  clusters: Clusters,
  secrets: SecretsByCredential,
): Blocker | undefined {
  for (const { credential, key, isRequired, ...secretName } of allCredentials(
    migration,
    clusters,
  )) {
    const secret = secrets[credential]
    const blocker = isRequired
      ? (secretTypeBlocker(secretName, [key], secret) ?? secretBlocker(secretName, [key], secret))
      : undefined
    if (blocker !== undefined) return blocker
  }
  return undefined
}

/** Credentials that can only be copies, even if the clusters are gone by now. */
export function copiedCredentials(migration: VecMigration): string[] {
  const { namespace } = migration.metadata
  const source = sourceClusterRef(migration)
  return [
    ...(targetRef(migration).namespace === namespace ? [] : CLUSTER_CREDENTIALS),
    ...(source === undefined || source.namespace === namespace
      ? []
      : CLUSTER_CREDENTIALS.map((credential) => SOURCE_PREFIX + credential)),
  ]
}

/** Sources of the copies. A recreated cluster of the same name may allow less. */
export function copySources(
  migration: VecMigration,
  { source, target }: Clusters,
  secrets: SecretsByCredential,
  settings: CrossNamespace,
): CopySource[] {
  const { namespace } = migration.metadata
  const isAllowed = (cluster: VecCluster | undefined) =>
    cluster !== undefined && clusterAccessBlocker(cluster, namespace, settings) === undefined
  const clusters = {
    ...(isAllowed(source) && { source: source as VecCluster }),
    ...(isAllowed(target) && { target: target as VecCluster }),
  }
  const copyNames = copiedCredentials(migration)
  return availableCredentials(migration, clusters, secrets).flatMap(({ credential, key }) => {
    const secret = secrets[credential]
    if (secret === undefined || !copyNames.includes(credential)) return []
    return [{ credential, keys: [key], secret }]
  })
}

const SOURCE_PREFIX = 'source-'

function clusterCredentials(
  cluster: VecCluster | undefined,
  prefix: typeof SOURCE_PREFIX | '',
): Credential[] {
  if (cluster === undefined) return []
  const { namespace, key, caSecret } = clusterConnection(cluster)
  return [
    ...(key === undefined
      ? []
      : [
          {
            credential: `${prefix}engine` as const,
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
            credential: `${prefix}tls` as const,
            namespace,
            name: caSecret,
            key: CREDENTIAL_KEYS.tls,
            // Without one, the system's trusted CAs are used.
            isRequired: false,
          },
        ]),
  ]
}

function endpointCredentials({ metadata: { namespace }, spec }: VecMigration): Credential[] {
  const { apiKeySecretRef, caSecretRef } = spec.source.endpoint ?? {}
  const refs = [
    ['engine', apiKeySecretRef],
    ['tls', caSecretRef],
  ] as const
  return refs.flatMap(([credential, ref]) =>
    ref === undefined
      ? []
      : [
          {
            credential: `${SOURCE_PREFIX}${credential}` as const,
            namespace,
            ...ref,
            isRequired: true,
          },
        ],
  )
}

export function targetRef({ metadata, spec }: VecMigration): NamespacedName {
  const { name, namespace = metadata.namespace } = spec.targetClusterRef
  return { namespace, name }
}

/** Undefined if the source is an engine given by its address. */
export function sourceClusterRef({ metadata, spec }: VecMigration): NamespacedName | undefined {
  if (spec.source.clusterRef === undefined) return undefined
  const { name, namespace = metadata.namespace } = spec.source.clusterRef
  return { namespace, name }
}

/** For messages: `<namespace>/<name>`, or the address. */
export function formatSource(migration: VecMigration): string {
  const cluster = sourceClusterRef(migration)
  if (cluster !== undefined) return `${cluster.namespace}/${cluster.name}`
  return migration.spec.source.endpoint?.url ?? ''
}
