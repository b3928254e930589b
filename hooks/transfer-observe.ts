/** Reads what is observed of a VecBackup, a VecRestore and a VecMigration in the same way. */
import type { VecCluster } from '../crds/cluster.ts'
import { connectionOf } from '../crds/connection.ts'
import type { Job, Secret } from '../crds/kubernetes.ts'
import { keySecretName } from '../crds/names.ts'
import { isFinal } from './ending.ts'
import { readCopies, type Copies, type CopyPorts } from './copies.ts'
import type { Named, ShownJobs } from './observations.ts'
import type { TransferPorts } from './transfer-ports.ts'

export interface ObservedTransfer extends ShownJobs {
  /** While a Job runs that needs them. */
  copies?: Copies
  /** Live, and only where a Job may be due. */
  liveJobs?: Job[]
}

/** Bucket credentials, the engine's key and its certificate authority, as far as they exist. */
export interface BucketSecrets {
  bucket?: Secret
  engine?: Secret
  tls?: Secret
}

/**
 * The resource as it is now, if it has ended: its end may have been written after what the cache shows,
 * and what made it fail may be gone by now.
 */
export async function readEnd<Resource extends Named & Parameters<typeof isFinal>[0]>(
  { metadata: { namespace, name, uid } }: Resource,
  read: (namespace: string, name: string) => Promise<Resource | undefined>,
): Promise<Resource | undefined> {
  const live = await read(namespace, name)
  return live?.metadata.uid === uid && isFinal(live) ? live : undefined
}

/** For a Job that runs: the copies it has, and the Secrets they are made from. */
export async function readOriginals<Secrets extends object>(
  job: Job,
  { copied, secrets }: { copied: readonly string[]; secrets: () => Promise<Secrets> },
  ports: Pick<CopyPorts, 'copy'>,
): Promise<{ secrets: Partial<Secrets>; copies?: Copies }> {
  if (copied.length === 0) return { secrets: {} }
  const copies = await readCopies(copied, job, ports)
  return { secrets: await secrets(), copies }
}

/** Those of a bucket, named by `namespace/name`, and those of the cluster, as far as it is known. */
export async function readSecrets(
  bucket: { namespace: string; name: string | undefined },
  cluster: VecCluster | undefined,
  ports: Pick<TransferPorts, 'secret'>,
): Promise<BucketSecrets> {
  const read = async (namespace: string, name: string | undefined) =>
    name === undefined ? undefined : ports.secret(namespace, name)
  const { namespace = '', name = '' } = cluster?.metadata ?? {}
  const connection = cluster && connectionOf(cluster)
  const [credentials, engine, tls] = await Promise.all([
    read(bucket.namespace, bucket.name),
    read(namespace, connection?.key && keySecretName(name)),
    read(namespace, connection?.caSecret),
  ])
  return {
    ...(credentials !== undefined && { bucket: credentials }),
    ...(engine !== undefined && { engine }),
    ...(tls !== undefined && { tls }),
  }
}
