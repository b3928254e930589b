/**
 * Copies of Secrets of another namespace for one Job: created once the Job exists and owned by it,
 * kept equal to their source while it runs, deleted when it has finished. Each has only the keys
 * that the Job needs.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import {
  API_KEY_SECRET_KEY,
  LABELS,
  MANAGED_BY,
  secretCopyName,
} from '../../crds/contract/names.ts'
import type { Job, Secret } from '../../crds/kubernetes.ts'
import { clusterAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'

export interface SecretCopyPorts {
  /** A copy that the service wrote, read live. */
  secretCopy(namespace: string, name: string): Promise<Secret | undefined>
  /** Creates the copy or replaces its data; a Secret of another owner is left unchanged. */
  writeSecretCopy(secretCopy: Secret): Promise<void>
  /** Deletes a copy of this owner; ignored if it is gone or has another owner. */
  deleteSecretCopy(secretCopy: SecretCopyIdentity): Promise<void>
}

export interface SecretCopyIdentity {
  namespace: string
  name: string
  ownerUid: string
}

/** The keys of a Secret to copy for a Job. */
export interface CopySource {
  credential: string
  keys: readonly string[]
  secret: Pick<Secret, 'data'>
  /** Type of the copy; Opaque by default. */
  type?: string
}

/** The key of a cluster's Secret that a Job needs, by credential name. */
export const CREDENTIAL_KEYS = { engine: API_KEY_SECRET_KEY, tls: 'ca.crt' } as const
export type ClusterCredential = keyof typeof CREDENTIAL_KEYS

export const CLUSTER_CREDENTIALS = Object.keys(CREDENTIAL_KEYS) as ClusterCredential[]

/** The cluster's credentials that exist. */
export function availableCredentials(
  { spec }: VecCluster,
  { engine, tls }: Partial<Record<ClusterCredential, Secret>>,
): ClusterCredential[] {
  return [
    ...(requiresApiKey(spec) && engine !== undefined ? (['engine'] as const) : []),
    ...(tls?.data?.[CREDENTIAL_KEYS.tls] !== undefined ? (['tls'] as const) : []),
  ]
}

/**
 * Sources of the copies of a cluster's credentials; none for a namespace that it does not allow.
 */
export function clusterCopySources(
  cluster: VecCluster,
  { engine, tls }: Partial<Record<ClusterCredential, Secret>>,
  { from, settings }: { from: string; settings: CrossNamespace },
): (CopySource & { credential: ClusterCredential })[] {
  // Checked on every sync: the annotation may have changed, or another cluster may have this name
  // by now.
  if (clusterAccessBlocker(cluster, from, settings) !== undefined) return []
  return [
    ...(requiresApiKey(cluster.spec) && engine !== undefined
      ? [clusterCopySource('engine', engine)]
      : []),
    ...(tls?.data?.[CREDENTIAL_KEYS.tls] !== undefined ? [clusterCopySource('tls', tls)] : []),
  ]
}

function clusterCopySource(credential: ClusterCredential, secret: Secret) {
  return { credential, keys: [CREDENTIAL_KEYS[credential]], secret }
}

/** The existing copies, by credential. */
export type SecretCopies = Partial<Record<string, Secret>>

export async function readSecretCopies(
  credentials: readonly string[],
  { metadata: { name, namespace = '' } }: Job,
  ports: Pick<SecretCopyPorts, 'secretCopy'>,
): Promise<SecretCopies> {
  const copies: SecretCopies = {}
  for (const credential of credentials) {
    const copy = await ports.secretCopy(namespace, secretCopyName(name, credential))
    if (copy !== undefined) copies[credential] = copy
  }
  return copies
}

/** The copies that a running Job does not have yet or that differ from their source. */
export function secretCopiesToWrite(
  sources: readonly CopySource[],
  existing: SecretCopies,
  job: Job,
): Secret[] {
  return sources.flatMap((source) => {
    const desired = newSecretCopy(source, job)
    return isUpToDate(existing[source.credential], desired) ? [] : [desired]
  })
}

/** Every copy that a Job may have had. */
export function secretCopyRefs(
  credentials: readonly string[],
  { metadata }: Job,
): SecretCopyIdentity[] {
  const { name, namespace = '', uid: ownerUid = '' } = metadata
  return credentials.map((credential) => ({
    namespace,
    name: secretCopyName(name, credential),
    ownerUid,
  }))
}

function newSecretCopy(
  { credential, keys, secret, type = 'Opaque' }: CopySource,
  { apiVersion, kind, metadata: { name, namespace = '', uid = '' } }: Job,
): Secret {
  const data = keys.flatMap((key) => {
    const value = secret.data?.[key]
    return value === undefined ? [] : [[key, value]]
  })
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: secretCopyName(name, credential),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    type,
    data: Object.fromEntries(data) as Record<string, string>,
  }
}

function isUpToDate(copy: Secret | undefined, desired: Secret): boolean {
  return copy !== undefined && JSON.stringify(copy.data ?? {}) === JSON.stringify(desired.data)
}
