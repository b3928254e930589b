/**
 * Ports of VecBackup, the input of its decisions, and how it is read: from the request, and the
 * rest through ports. Also selects the cluster credentials that its Job needs as copies
 * (hooks/data-job/secret-copies.ts).
 */
import type { VecBackup } from '../../crds/backup.ts'
import type { CaRef } from '../../crds/certificates.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { releaseName } from '../../crds/contract/names.ts'
import type { AnyObject, Job, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { secondsSince } from '../conditions.ts'
import { blockingRules, type CrossNamespace } from '../cross-namespace.ts'
import {
  readAccount,
  readCopySources,
  readJobState,
  readSecrets,
  type BucketAccessPorts,
  type DataJobPorts,
  type DataJobSecrets,
  type ObservedDataJob,
  isFinished,
  CLUSTER_CREDENTIALS,
  clusterCopySources,
  type ClusterCredential,
} from '../data-job/observe.ts'
import type { CopySource } from '../data-job/secret-copies.ts'
import { readLease, type ObservedLease } from '../lease.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { observedJobs, relatedClusters } from '../request.ts'
import type { BackupsToRestore, DeletionAction, SchedulePolicy } from './deletion-policy.ts'

type RequestedState = Pick<Observed, 'backup' | 'children' | 'jobs' | 'progress' | 'cluster'>

export async function observe(
  request: HookRequest<VecBackup>,
  ports: BackupPorts,
  context: Context,
): Promise<Observed> {
  const requested = fromRequest(request)
  if (isFinished(requested.backup)) return readExpiry(requested, ports, context)
  const { backup } = requested
  const state = await readJobState(requested, backup, (...args) => ports.backup(...args), context)
  switch (state.is) {
    case 'finished':
      return { ...requested, backup: state.resource, secrets: {} }
    case 'working':
      return {
        ...requested,
        ...(await copySourcesFor(requested, state.job, ports)),
        ...(await readAccount(accountOf(backup), ports)),
      }
    case 'starting':
      return readLive(requested, { running: state.job, context }, ports)
  }
}

/**
 * An expired backup is deleted with its objects: a single wrong clock must not cause that, and it is not deleted before
 * the restores that name it have ended.
 */
async function readExpiry(
  requested: RequestedState,
  ports: BackupPorts,
  { now }: Context,
): Promise<Observed> {
  const { backup } = requested
  const observed: Observed = { ...requested, secrets: {} }
  if (!(secondsSince(backup.status?.expiresAt ?? '', now) >= 0)) return observed
  const [apiTime, toRestore] = await Promise.all([
    ports.apiTime(backup.metadata.namespace),
    ports.backupsToRestore([backup]),
  ])
  if (apiTime !== undefined) observed.apiTime = apiTime
  const restores = toRestore.get(backup.metadata.name)
  if (restores !== undefined) observed.restores = restores
  return observed
}

export function fromRequest(request: HookRequest<VecBackup>): RequestedState {
  const [cluster] = relatedClusters(request.related)
  return {
    backup: request.parent,
    ...observedJobs(request),
    ...(cluster !== undefined && { cluster }),
  }
}

/** Name of the backed-up cluster. */
export function clusterRefOf({ metadata, spec }: VecBackup): NamespacedName {
  return { namespace: metadata.namespace, ...spec.clusterRef }
}

async function readLive(
  requested: RequestedState,
  { running, context }: { running: Job | undefined; context: Context },
  ports: BackupPorts,
): Promise<Observed> {
  const { metadata } = requested.backup
  const { namespace, name } = clusterRefOf(requested.backup)
  // A cluster of the same name may have been recreated: its Leases must be those of the live
  // cluster.
  const [cluster, statefulSet] = await Promise.all([
    ports.cluster(namespace, name),
    ports.statefulSet(namespace, releaseName(name)),
  ])
  const observed: Observed = {
    ...requested,
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: {},
  }
  Object.assign(observed, await readAccount(accountOf(observed.backup), ports))
  if (cluster === undefined) delete observed.cluster
  else observed.cluster = cluster
  if (running !== undefined) Object.assign(observed, await copySourcesFor(observed, running, ports))
  else observed.secrets = await readBackupSecrets(observed, ports)
  if (cluster === undefined) return observed
  const rules = blockingRules(cluster, context)
  const [write, backup, helmJobs, liveJobs] = await Promise.all([
    readLease({ namespace, name }, 'write', ports, rules),
    readLease({ namespace, name }, 'backup', ports, rules),
    ports.helmJobsAt({ namespace, name }),
    ports.jobsOf(metadata.namespace, metadata.uid),
  ])
  return { ...observed, leases: { write, backup }, helmJobs, liveJobs }
}

async function copySourcesFor(requested: RequestedState, job: Job, ports: BackupPorts) {
  const secrets = () => readBackupSecrets(requested, ports)
  return readCopySources(
    job,
    { copiedCredentials: copiedCredentials(requested.backup), secrets },
    ports,
  )
}

async function readBackupSecrets(
  { backup, cluster }: RequestedState,
  ports: BackupPorts,
): Promise<DataJobSecrets> {
  const { namespace } = backup.metadata
  return readSecrets({ namespace, access: backup.spec.storage.s3 }, cluster, ports)
}

/** The ServiceAccount that its bucket is accessed with. */
export function accountOf({ metadata, spec }: VecBackup) {
  return { namespace: metadata.namespace, name: spec.storage.s3.serviceAccountName }
}

export interface ObjectIdentity extends NamespacedName {
  uid: string
}

/** A VecRestore that reads a backup. */
export interface BackupReader extends ObjectIdentity {
  /**
   * How it names the backup: as a VecBackup, or by its location in the bucket, which needs no
   * permission. Unknown, and without a name, for a namespace that cannot be read.
   */
  by: 'name' | 'location' | 'unknown'
  /** Its status has the outcome. */
  isFinished?: true
}

/**
 * The objects that one backup wrote under `<prefix>/<name>/`, as long as its uid owns that prefix.
 */
export interface PurgeTarget extends ObjectIdentity {
  storage: S3Target
  /** From the previous batch. */
  survey?: PurgeSurvey | undefined
}

export interface PurgeResult {
  /** A listing has no more objects of this backup. */
  done: boolean
  survey?: PurgeSurvey
  /** Objects in the folder that this backup did not write. They are not deleted. */
  others?: { count: number; example: string }
  /**
   * A restore that recorded in the bucket that it is reading the backup: nothing is deleted before
   * it ends.
   */
  reader?: NamespacedName & { until: string }
}

/** Results that the next batch reuses. */
export interface PurgeSurvey {
  /** Number of remaining objects. */
  left: number
  /** Nested folders that belong to other backups. */
  inner: string[]
}

export interface BackupPorts extends DataJobPorts, BucketAccessPorts {
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The resource itself, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Deletes the resource of exactly this uid; ignored if it is already gone. */
  deleteBackup(backup: ObjectIdentity): Promise<void>
  /**
   * Writes the report on the resource of exactly this uid; ignored if the resource is gone or the
   * write fails.
   */
  replaceReport(backup: ObjectIdentity, report: Progress): Promise<void>
  /**
   * VecRestores that read this backup, by name or by location in the bucket, read live from all
   * watched namespaces; none without the kind.
   */
  restoresReading(backup: NamespacedName & { storage: S3Target }): Promise<BackupReader[]>
  /** Those of these backups that unfinished VecRestores are to restore. */
  backupsToRestore(backups: readonly VecBackup[]): Promise<BackupsToRestore>
  /**
   * The policy of a VecBackupSchedule for the objects of its backups, read live; undefined if it is
   * gone.
   */
  schedulePolicy(namespace: string, name: string): Promise<SchedulePolicy | undefined>
  /** Unfinished helm Jobs of a cluster, read live, as messages name them. */
  helmJobsAt(cluster: NamespacedName): Promise<string[]>
  /** Whether a namespace is being deleted or is gone. */
  isNamespaceTerminating(name: string): Promise<boolean>
  /**
   * Deletes at most one batch of objects; the next call continues. A missing bucket is done; any
   * other error of the store is a `StorageError`. The signal aborts it between two requests.
   */
  purge(target: PurgeTarget, signal: AbortSignal): Promise<PurgeResult>
  /** The time in a response of the API server; undefined if it has none. */
  apiTime(namespace: string): Promise<Date | undefined>
  /** Logs a warning of the service. */
  warn(backup: NamespacedName, message: string): void
}

export interface Observed extends ObservedDataJob {
  backup: VecBackup
  /** Read live if a Job may be due. */
  cluster?: VecCluster
  statefulSet?: StatefulSet
  secrets: DataJobSecrets
  /** The API server's time; read only if the backup has expired by the local clock. */
  apiTime?: Date
  /** Unfinished VecRestores that name it; read only if the backup has expired by the local clock. */
  restores?: readonly NamespacedName[]
  /** Read only if a Job may be due, or has not reported yet. */
  leases?: { write: ObservedLease; backup: ObservedLease }
  /** Unfinished helm Jobs of the cluster; read with the Leases. */
  helmJobs?: string[]
}

/**
 * Credentials that may be copies: all of them if the cluster is in another namespace than the Job.
 */
export function copiedCredentials({
  metadata,
  spec,
}: Pick<VecBackup, 'metadata' | 'spec'>): ClusterCredential[] {
  const { namespace = metadata.namespace } = spec.clusterRef
  return namespace === metadata.namespace ? [] : CLUSTER_CREDENTIALS
}

/** Sources of the copies. */
export function copySources(
  { backup, cluster, secrets }: Observed,
  settings: CrossNamespace,
): CopySource[] {
  if (cluster === undefined || copiedCredentials(backup).length === 0) return []
  return clusterCopySources(cluster, secrets, { from: backup.metadata.namespace, settings })
}

/** Input of the `finalize` decision. */
export interface Deletion extends Pick<Observed, 'backup' | 'children' | 'jobs' | 'progress'> {
  liveJobs: Job[]
  isNamespaceTerminating: boolean
  /** What happens to the objects; absent while the Job stops. */
  deletionAction?: DeletionAction
  /** The ServiceAccount that the bucket is accessed with; absent if there is none. */
  account?: AnyObject
  /** Bucket credentials; absent if there are none, or nothing is to be deleted yet. */
  credentials?: Secret
  /** The certificate authority of the bucket, where it was deleted with the namespace. */
  missingCa?: CaRef
  /** A restore that is reading these objects. */
  reader?: string
  /** The newest batch; absent if none was due or none has finished yet. */
  purge?: Purge
  requeueAfterSeconds?: number
}

/** Result of the newest batch of a purge. */
export interface Purge extends PurgeResult {
  /** Why the newest batch failed; it is retried. */
  error?: string
  /** The error, if it is unexpected. */
  defect?: unknown
}
