/** Observations that VecBackup, VecRestore and VecMigration share, and the ports that they need. */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { apiKeySecretName } from '../../crds/contract/names.ts'
import type { Job, KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { NamespacedObject, ObservedJobs } from '../request.ts'
import type { SideEffectPorts } from './decision.ts'
import { isFinished } from './outcome.ts'
import { readSecretCopies, type SecretCopies, type SecretCopyPorts } from './secret-copies.ts'

export interface ObservedDataJob extends ObservedJobs {
  /** While a Job runs that needs them. */
  secretCopies?: SecretCopies
  /** Read live, and only if a Job may be due. */
  liveJobs?: Job[]
}

/** Bucket credentials, the engine's API key and its CA certificate, if they exist. */
export interface DataJobSecrets {
  bucket?: Secret
  engine?: Secret
  tls?: Secret
}

/**
 * Returns the live resource if it has finished: the cache may not have its outcome yet, and the
 * cause of its failure may be gone by now.
 */
export async function readIfFinished<
  Resource extends NamespacedObject & Parameters<typeof isFinished>[0],
>(
  { metadata: { namespace, name, uid } }: Resource,
  read: (namespace: string, name: string) => Promise<Resource | undefined>,
): Promise<Resource | undefined> {
  const live = await read(namespace, name)
  return live?.metadata.uid === uid && isFinished(live) ? live : undefined
}

/** For a running Job: its secret copies, and the Secrets that they are made from. */
export async function readCopySources<Secrets extends object>(
  job: Job,
  {
    copiedCredentials,
    secrets,
  }: { copiedCredentials: readonly string[]; secrets: () => Promise<Secrets> },
  ports: Pick<SecretCopyPorts, 'secretCopy'>,
): Promise<{ secrets: Partial<Secrets>; secretCopies?: SecretCopies }> {
  if (copiedCredentials.length === 0) return { secrets: {} }
  const secretCopies = await readSecretCopies(copiedCredentials, job, ports)
  return { secrets: await secrets(), secretCopies }
}

/**
 * The Secret of a bucket, by namespace and name, and the Secrets of the cluster, if it is known.
 */
export async function readSecrets(
  bucket: { namespace: string; name: string | undefined },
  cluster: VecCluster | undefined,
  ports: Pick<DataJobPorts, 'secret'>,
): Promise<DataJobSecrets> {
  const read = async (namespace: string, name: string | undefined) =>
    name === undefined ? undefined : ports.secret(namespace, name)
  const { namespace = '', name = '' } = cluster?.metadata ?? {}
  const connection = cluster && clusterConnection(cluster)
  const [credentials, engine, tls] = await Promise.all([
    read(bucket.namespace, bucket.name),
    read(namespace, connection?.key && apiKeySecretName(name)),
    read(namespace, connection?.caSecret),
  ])
  return {
    ...(credentials !== undefined && { bucket: credentials }),
    ...(engine !== undefined && { engine }),
    ...(tls !== undefined && { tls }),
  }
}

export interface DataJobPorts extends SideEffectPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined if it, or its kind, does not exist. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** Writes an Event; an existing Event or a failed write is ignored. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
