/**
 * Copies of another namespace's Secrets for one Job: made once the Job exists and owned by it, kept
 * equal to their source while it runs, deleted when it has ended. Each holds only what is needed.
 */
import type { VecCluster } from '../crds/cluster.ts'
import { hasKey } from '../crds/connection.ts'
import type { Job, Secret } from '../crds/kubernetes.ts'
import { KEY_SECRET_KEY, LABELS, MANAGED_BY, copyName } from '../crds/names.ts'
import { clusterRefusal } from './allow.ts'
import type { CrossNamespace } from './allow-from.ts'

export interface CopyPorts {
  /** A copy the service made, read live. */
  copy(namespace: string, name: string): Promise<Secret | undefined>
  /** Makes the copy, or replaces its data; one of another owner stays as it is. */
  writeCopy(copy: Secret): Promise<void>
  /** Deletes a copy of this owner; one that is gone, or of another owner, is fine. */
  deleteCopy(copy: CopyIdentity): Promise<void>
}

export interface CopyIdentity {
  namespace: string
  name: string
  ownerUid: string
}

/** What of a Secret a Job needs, under the name of the credential. */
export interface Original {
  credential: string
  keys: readonly string[]
  secret: Secret
  /** Of the copy; Opaque where nobody looks at it. */
  type?: string
}

/** What a Job needs of a cluster's Secrets, by the name of the credential. */
export const CLUSTER_KEYS = { engine: KEY_SECRET_KEY, tls: 'ca.crt' } as const
export type ClusterCredential = keyof typeof CLUSTER_KEYS

export const CLUSTER_CREDENTIALS = Object.keys(CLUSTER_KEYS) as ClusterCredential[]

/** Those of a cluster's credentials that there are. */
export function credentialsOf(
  { spec }: VecCluster,
  { engine, tls }: Partial<Record<ClusterCredential, Secret>>,
): ClusterCredential[] {
  return [
    ...(hasKey(spec) && engine !== undefined ? (['engine'] as const) : []),
    ...(tls?.data?.[CLUSTER_KEYS.tls] !== undefined ? (['tls'] as const) : []),
  ]
}

/** What copies of a cluster's credentials are made from; none for a namespace it does not allow. */
export function clusterOriginals(
  cluster: VecCluster,
  { engine, tls }: Partial<Record<ClusterCredential, Secret>>,
  { from, settings }: { from: string; settings: CrossNamespace },
): (Original & { credential: ClusterCredential })[] {
  // Checked in every pass: the annotation may have changed, or another cluster may have this name now.
  if (clusterRefusal(cluster, from, settings) !== undefined) return []
  return [
    ...(hasKey(cluster.spec) && engine !== undefined ? [clusterOriginal('engine', engine)] : []),
    ...(tls?.data?.[CLUSTER_KEYS.tls] !== undefined ? [clusterOriginal('tls', tls)] : []),
  ]
}

function clusterOriginal(credential: ClusterCredential, secret: Secret) {
  return { credential, keys: [CLUSTER_KEYS[credential]], secret }
}

/** The copies there are, by credential. */
export type Copies = Partial<Record<string, Secret>>

export async function readCopies(
  credentials: readonly string[],
  { metadata: { name, namespace = '' } }: Job,
  ports: Pick<CopyPorts, 'copy'>,
): Promise<Copies> {
  const copies: Copies = {}
  for (const credential of credentials) {
    const copy = await ports.copy(namespace, copyName(name, credential))
    if (copy !== undefined) copies[credential] = copy
  }
  return copies
}

/** Those a running Job lacks, or that are not equal to their source any more. */
export function copiesToWrite(originals: readonly Original[], copies: Copies, job: Job): Secret[] {
  return originals.flatMap((original) => {
    const wanted = copyOf(original, job)
    return holds(copies[original.credential], wanted) ? [] : [wanted]
  })
}

/** Every copy that a Job may have had. */
export function copiesFor(credentials: readonly string[], { metadata }: Job): CopyIdentity[] {
  const { name, namespace = '', uid: ownerUid = '' } = metadata
  return credentials.map((credential) => ({
    namespace,
    name: copyName(name, credential),
    ownerUid,
  }))
}

function copyOf(
  { credential, keys, secret, type = 'Opaque' }: Original,
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
      name: copyName(name, credential),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    type,
    data: Object.fromEntries(data) as Record<string, string>,
  }
}

function holds(copy: Secret | undefined, wanted: Secret): boolean {
  return copy !== undefined && JSON.stringify(copy.data ?? {}) === JSON.stringify(wanted.data)
}
