/**
 * Observations that VecBackup, VecRestore and VecMigration share, and the ports that they need: the
 * outcome that a Job reported, the Secrets that it needs, and which of them it gets as copies.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { API_KEY_SECRET_KEY, apiKeySecretName } from '../../crds/contract/names.ts'
import {
  type AnyObject,
  type ConfigMap,
  finishedCondition,
  type Job,
  type KubernetesEvent,
  type Secret,
} from '../../crds/kubernetes.ts'
import { type BucketAccess, caRefOf } from '../../crds/storage.ts'
import { secondsSinceRecorded } from '../conditions.ts'
import { clusterAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'
import {
  type CopySource,
  readSecretCopies,
  type SecretCopies,
  type SecretCopyPorts,
} from './secret-copies.ts'
import { hasReported } from '../job-watch.ts'
import type { LeasePorts } from '../lease.ts'
import type { Context, Desired } from '../protocol.ts'
import {
  isUnfinished,
  latestJob,
  type NamespacedObject,
  type ObservedJobs,
  type ProgressOwner,
  refreshProgress,
} from '../request.ts'

export interface ObservedDataJob extends ObservedJobs {
  /** While a Job runs that needs them. */
  secretCopies?: SecretCopies
  /** Read live, and only if a Job may be due. */
  liveJobs?: Job[]
  /** The ServiceAccount that the bucket is accessed with, read live while a Job is due or runs. */
  account?: AnyObject
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

export interface Outcome {
  phase: 'Completed' | 'Failed'
  /** When it finished. */
  at: string
  /** Why it failed. */
  error?: string
  /** For the condition, if it is not the amount of work done. */
  message?: string
}

interface OutcomeInputs {
  jobs: Job[]
  progress?: Progress
}

/** The status has the outcome: nothing is computed after that. */
export function isFinished({ status }: { status?: { phase?: string } }): boolean {
  return status?.phase === 'Completed' || status?.phase === 'Failed'
}

/** The outcome; `unknown` while a report may still arrive; undefined if it has not finished. */
export function outcomeOf(
  { jobs, progress }: OutcomeInputs,
  { now }: Context,
): Outcome | 'unknown' | undefined {
  if (progress?.state === 'Done') return { phase: 'Completed', at: progress.at }
  if (progress !== undefined && progress.state !== 'Started') {
    return { phase: 'Failed', at: progress.at, error: reportedError(progress) }
  }
  const latest = latestJob(jobs)
  const end = latest && finishedCondition(latest)
  if (latest === undefined || end === undefined) return undefined
  const at = end.lastTransitionTime ?? latest.metadata.creationTimestamp ?? now.toISOString()
  if (secondsSinceRecorded(at, now) < FINAL_REPORT_TIMEOUT_SECONDS) return 'unknown'
  const crashCount = latest.status?.failed ?? 1
  return { phase: 'Failed', at, error: `Job crashed ${crashCount} times` }
}

/**
 * Whether a Job finished a while ago and its last report has no outcome: the cache may lag behind,
 * so only the live resource distinguishes a crash from a late report.
 */
export function needsLiveProgress(observed: OutcomeInputs, context: Context): boolean {
  const outcome = outcomeOf(observed, context)
  const hasFinalReport = observed.progress !== undefined && observed.progress.state !== 'Started'
  return outcome !== undefined && outcome !== 'unknown' && !hasFinalReport
}

function reportedError({ backup, restore, migration, message, run }: Progress): string {
  return (backup ?? restore ?? migration)?.error ?? message ?? `run ${run} failed`
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

/** The key of a cluster's Secret that a Job needs, by credential name. */
export const CREDENTIAL_KEYS = { engine: API_KEY_SECRET_KEY, tls: 'ca.crt' } as const
export type ClusterCredential = keyof typeof CREDENTIAL_KEYS

export const CLUSTER_CREDENTIALS = Object.keys(CREDENTIAL_KEYS) as ClusterCredential[]

/** The cluster's credentials that exist. */
export function availableCredentials(
  cluster: VecCluster,
  { engine, tls }: Partial<Record<ClusterCredential, Secret>>,
): ClusterCredential[] {
  const { key } = clusterConnection(cluster)
  return [
    ...(key !== undefined && engine !== undefined ? (['engine'] as const) : []),
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
  const { key } = clusterConnection(cluster)
  return [
    ...(key !== undefined && engine !== undefined ? [clusterCopySource('engine', engine)] : []),
    ...(tls?.data?.[CREDENTIAL_KEYS.tls] !== undefined ? [clusterCopySource('tls', tls)] : []),
  ]
}

function clusterCopySource(credential: ClusterCredential, secret: Secret) {
  return { credential, keys: [CREDENTIAL_KEYS[credential]], secret }
}

export interface BucketAccessPorts {
  /** A ServiceAccount, read live; undefined if it does not exist. */
  serviceAccount(namespace: string, name: string): Promise<AnyObject | undefined>
  /** A ConfigMap, read live; undefined if it does not exist. */
  configMap(namespace: string, name: string): Promise<ConfigMap | undefined>
}

export interface SideEffectPorts extends LeasePorts, SecretCopyPorts {
  /** Deletes a Job with foreground propagation; ignored if it is already gone. */
  deleteJob(job: NonNullable<Desired<unknown>['deleteJobs']>[number]): Promise<void>
}

export interface DataJobPorts extends SideEffectPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined if it, or its kind, does not exist. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** Writes an Event; an existing Event or a failed write is ignored. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
