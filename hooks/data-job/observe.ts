/** Reads what is observed of a VecBackup, a VecRestore and a VecMigration in the same way. */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { apiKeySecretName } from '../../crds/contract/names.ts'
import type { Job, KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { NamespacedObject, ObservedJobs } from '../request.ts'
import type { SideEffectPorts } from './apply.ts'
import { isFinished } from './outcome.ts'
import { readSecretCopies, type SecretCopies, type SecretCopyPorts } from './secret-copies.ts'

export interface ObservedDataJob extends ObservedJobs {
  /** While a Job runs that needs them. */
  secretCopies?: SecretCopies
  /** Live, and only where a Job may be due. */
  liveJobs?: Job[]
}

/** Bucket credentials, the engine's key and its certificate authority, as far as they exist. */
export interface DataJobSecrets {
  bucket?: Secret
  engine?: Secret
  tls?: Secret
}

/**
 * The resource as it is now, if it has ended: its end may have been written after what the cache shows,
 * and what made it fail may be gone by now.
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

/** For a Job that runs: the copies it has, and the Secrets they are made from. */
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

/** Those of a bucket, named by `namespace/name`, and those of the cluster, as far as it is known. */
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
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
