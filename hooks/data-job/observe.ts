/** Observations that VecBackup, VecRestore and VecMigration share, and the ports that they need. */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { apiKeySecretName } from '../../crds/contract/names.ts'
import type { AnyObject, ConfigMap, Job, KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import { caRefOf, type BucketAccess } from '../../crds/storage.ts'
import { hasReported } from '../job-watch.ts'
import type { Context } from '../protocol.ts'
import {
  isUnfinished,
  refreshProgress,
  type NamespacedObject,
  type ObservedJobs,
  type ProgressOwner,
} from '../request.ts'
import type { SideEffectPorts } from './decision.ts'
import { isFinished, needsLiveProgress, outcomeOf } from './status.ts'
import { readSecretCopies, type SecretCopies, type SecretCopyPorts } from './secret-copies.ts'

export interface ObservedDataJob extends ObservedJobs {
  /** While a Job runs that needs them. */
  secretCopies?: SecretCopies
  /** Read live, and only if a Job may be due. */
  liveJobs?: Job[]
  /** The ServiceAccount that the bucket is accessed with, read live while a Job is due or runs. */
  account?: AnyObject
}

/**
 * Credentials and certificate authority of the bucket, the engine's API key and its CA certificate, if
 * they exist.
 */
export interface DataJobSecrets {
  bucket?: Secret
  bucketCa?: Secret | ConfigMap
  engine?: Secret
  tls?: Secret
}

/** What else an unfinished resource needs to be read. */
export type JobState<Resource> =
  /** Its outcome is known: nothing. */
  | { is: 'finished'; resource: Resource }
  /** Its Job has reported, and is not affected by what changes after that: the secret copies. */
  | { is: 'working'; job: Job }
  /** Its Job has not reported, or there is none: everything, live. */
  | { is: 'starting'; job?: Job }

/**
 * The state of the Job of an unfinished resource. Reads the live resource only if its report or its
 * status may be newer than the cache; the report becomes that of `observed`.
 */
export async function readJobState<
  Resource extends NamespacedObject & Parameters<typeof isFinished>[0],
>(
  observed: ObservedJobs,
  resource: Resource,
  read: (namespace: string, name: string) => Promise<(Resource & ProgressOwner) | undefined>,
  context: Context,
): Promise<JobState<Resource>> {
  if (needsLiveProgress(observed, context)) await refreshProgress(observed, resource, read)
  if (outcomeOf(observed, context) !== undefined) return { is: 'finished', resource }
  const job = observed.jobs.find(isUnfinished)
  if (job !== undefined) return { is: hasReported(observed, job) ? 'working' : 'starting', job }
  // The cache may not have its outcome yet, and the cause of its failure may be gone by now.
  const { namespace, name, uid } = resource.metadata
  const live = await read(namespace, name)
  const isLiveFinished = live?.metadata.uid === uid && isFinished(live)
  return isLiveFinished ? { is: 'finished', resource: live } : { is: 'starting' }
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

/** What a bucket in a namespace names, and the Secrets of the cluster, if they are known. */
export async function readSecrets(
  bucket: { namespace: string; access: BucketAccess | undefined },
  cluster: VecCluster | undefined,
  ports: Pick<DataJobPorts, 'secret'> & Pick<BucketAccessPorts, 'configMap'>,
): Promise<DataJobSecrets> {
  const read = async (namespace: string, name: string | undefined) =>
    name === undefined ? undefined : ports.secret(namespace, name)
  const { namespace = '', name = '' } = cluster?.metadata ?? {}
  const connection = cluster && clusterConnection(cluster)
  const [credentials, bucketCa, engine, tls] = await Promise.all([
    read(bucket.namespace, bucket.access?.credentialsSecretRef?.name),
    readBucketCa(bucket, ports),
    read(namespace, connection?.key && apiKeySecretName(name)),
    read(namespace, connection?.caSecret),
  ])
  return {
    ...(credentials !== undefined && { bucket: credentials }),
    ...(bucketCa !== undefined && { bucketCa }),
    ...(engine !== undefined && { engine }),
    ...(tls !== undefined && { tls }),
  }
}

/** The object with the certificate authority that a bucket names; undefined without one. */
export async function readBucketCa(
  { namespace, access }: { namespace: string; access: BucketAccess | undefined },
  ports: Pick<DataJobPorts, 'secret'> & Pick<BucketAccessPorts, 'configMap'>,
): Promise<Secret | ConfigMap | undefined> {
  const reference = access && caRefOf(access)
  if (reference === undefined) return undefined
  const { kind, name } = reference
  return kind === 'Secret' ? ports.secret(namespace, name) : ports.configMap(namespace, name)
}

/** The ServiceAccount that a bucket is accessed with; nothing without one. */
export async function readAccount(
  { namespace, name }: { namespace: string; name: string | undefined },
  ports: Pick<BucketAccessPorts, 'serviceAccount'>,
): Promise<{ account?: AnyObject }> {
  const account = name === undefined ? undefined : await ports.serviceAccount(namespace, name)
  return account === undefined ? {} : { account }
}

export interface BucketAccessPorts {
  /** A ServiceAccount, read live; undefined if it does not exist. */
  serviceAccount(namespace: string, name: string): Promise<AnyObject | undefined>
  /** A ConfigMap, read live; undefined if it does not exist. */
  configMap(namespace: string, name: string): Promise<ConfigMap | undefined>
}

export interface DataJobPorts extends SideEffectPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined if it, or its kind, does not exist. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** Writes an Event; an existing Event or a failed write is ignored. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
