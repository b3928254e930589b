/**
 * Ports of VecRestore, the input of its decisions, and how it is read: from the request, and the
 * rest through ports. Also selects the credentials that its Job needs as copies
 * (hooks/data-job/secret-copies.ts): those of a target in another namespace, and those of the
 * bucket if the backup is in another namespace.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { BUCKET_CA } from '../../crds/certificates.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { releaseName } from '../../crds/contract/names.ts'
import type { Job, StatefulSet } from '../../crds/kubernetes.ts'
import {
  bucketField,
  bucketNamespace,
  restoreBackupRef,
  restoreSource,
  restoreTarget,
  type VecRestore,
} from '../../crds/restore.ts'
import { caError, caRefOf, caValue, credentialKeys, type S3Source } from '../../crds/storage.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import {
  backupAccessBlocker,
  blockingRules,
  type BlockingRules,
  type CrossNamespace,
} from '../cross-namespace.ts'
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
} from '../data-job/observe.ts'
import type { CopySource } from '../data-job/secret-copies.ts'
import { readLease, type ObservedLease } from '../lease.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { observedJobs, relatedBackups, relatedClusters } from '../request.ts'

type RequestedState = Pick<
  Observed,
  'restore' | 'children' | 'jobs' | 'progress' | 'cluster' | 'statefulSet' | 'backup'
>

export async function observe(
  request: HookRequest<VecRestore>,
  ports: RestorePorts,
  context: Context,
): Promise<Observed> {
  const requested = fromRequest(request)
  if (isFinished(requested.restore)) return { ...requested, secrets: {} }
  const { restore } = requested
  const state = await readJobState(requested, restore, (...args) => ports.restore(...args), context)
  switch (state.is) {
    case 'finished':
      return { ...requested, restore: state.resource, secrets: {} }
    case 'working':
      return {
        ...requested,
        ...(await copySourcesFor(requested, state.job, ports)),
        ...(await readAccount(accountOf(requested), ports)),
      }
    case 'starting':
      return readLive(requested, { running: state.job, context }, ports)
  }
}

export function fromRequest(request: HookRequest<VecRestore>): RequestedState {
  const [cluster] = relatedClusters(request.related)
  const [backup] = relatedBackups(request.related)
  return {
    restore: request.parent,
    ...observedJobs(request),
    ...(cluster !== undefined && { cluster }),
    ...(backup !== undefined && { backup }),
  }
}

/**
 * Read live: another object of the same name may exist by now, and the Leases must be those of the
 * live cluster.
 */
async function readLive(
  { restore, children, jobs, progress }: RequestedState,
  { running, context }: { running: Job | undefined; context: Context },
  ports: RestorePorts,
): Promise<Observed> {
  const { namespace, uid } = restore.metadata
  const target = restoreTarget(restore)
  const backupRef = restoreBackupRef(restore)
  const [cluster, statefulSet, backup] = await Promise.all([
    ports.cluster(target.namespace, target.name),
    ports.statefulSet(target.namespace, releaseName(target.name)),
    backupRef && ports.backup(backupRef.namespace, backupRef.name),
  ])
  const live: RequestedState = {
    restore,
    children,
    jobs,
    ...(progress !== undefined && { progress }),
    ...(cluster !== undefined && { cluster }),
    ...(statefulSet !== undefined && { statefulSet }),
    ...(backup !== undefined && { backup }),
  }
  Object.assign(live, await readAccount(accountOf(live), ports))
  const secretFields =
    running === undefined
      ? { secrets: await readRestoreSecrets(live, ports) }
      : await copySourcesFor(live, running, ports)
  if (cluster === undefined) return { ...live, ...secretFields }
  const rules = blockingRules(cluster, context)
  const [write, backupLease, conflictingWork, liveJobs] = await Promise.all([
    readLease(target, 'write', ports, rules),
    readLease(target, 'backup', ports, rules),
    ports.conflictingWork(target, rules),
    ports.jobsOf(namespace, uid),
  ])
  return {
    ...live,
    ...secretFields,
    leases: { write, backup: backupLease },
    conflictingWork,
    liveJobs,
  }
}

async function copySourcesFor(requested: RequestedState, job: Job, ports: RestorePorts) {
  return readCopySources(
    job,
    {
      copiedCredentials: copiedCredentials(requested),
      secrets: () => readRestoreSecrets(requested, ports),
    },
    ports,
  )
}

async function readRestoreSecrets(
  { restore, cluster, backup }: RequestedState,
  ports: RestorePorts,
): Promise<DataJobSecrets> {
  const access = restoreSource(restore, backup)
  return readSecrets({ namespace: bucketNamespace(restore), access }, cluster, ports)
}

/** The ServiceAccount that the bucket is accessed with: that of the backup, or the one in the spec. */
function accountOf({ restore, backup }: RequestedState) {
  const name = restoreSource(restore, backup)?.serviceAccountName
  return { namespace: restore.metadata.namespace, name }
}

export interface RestorePorts extends DataJobPorts, BucketAccessPorts {
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The VecBackup, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** The resource itself, read live. */
  restore(namespace: string, name: string): Promise<VecRestore | undefined>
  /**
   * Work on a cluster without a Lease, as messages name it: its unfinished helm Jobs and migrations
   * (from or to it), read live, and tasks of this service that write to its collections. For
   * migrations of namespaces that the cluster does not allow, only the rules decide.
   */
  conflictingWork(cluster: NamespacedName, rules: BlockingRules): Promise<string[]>
}

export interface Observed extends ObservedDataJob {
  restore: VecRestore
  /** Target and backup: read live if a Job may be due. */
  cluster?: VecCluster
  statefulSet?: StatefulSet
  backup?: VecBackup
  secrets: DataJobSecrets
  /** Read only if a Job may be due, or has not reported yet. */
  leases?: { write: ObservedLease; backup: ObservedLease }
  /** Work on the target without a Lease; read with the Leases. */
  conflictingWork?: string[]
}

export function copiedCredentials({ restore }: Pick<Observed, 'restore'>): string[] {
  const { namespace } = restore.metadata
  return [
    ...(bucketNamespace(restore) === namespace ? [] : ['bucket', BUCKET_CA]),
    ...(restoreTarget(restore).namespace === namespace ? [] : CLUSTER_CREDENTIALS),
  ]
}

/** Sources of the copies. */
export function copySources(observed: Observed, settings: CrossNamespace): CopySource[] {
  const { restore, backup, cluster, secrets } = observed
  const source = restoreSource(restore, backup)
  const { bucket } = secrets
  const from = restore.metadata.namespace
  const sources = [
    ...(cluster === undefined ? [] : clusterCopySources(cluster, secrets, { from, settings })),
    // A recreated backup of this name may allow less.
    ...(source === undefined || bucket === undefined || !isAllowed(observed)
      ? []
      : [{ credential: 'bucket', keys: bucketKeys(source), secret: bucket }]),
    ...(source === undefined || !isAllowed(observed) ? [] : caCopySources(source, observed)),
  ]
  const needed = copiedCredentials(observed)
  return sources.filter(({ credential }) => needed.includes(credential))
}

function isAllowed({ restore, backup }: Observed): boolean {
  return (
    backup === undefined || backupAccessBlocker(backup, restore.metadata.namespace) === undefined
  )
}

function bucketKeys({ credentialsSecretRef }: S3Source): string[] {
  if (credentialsSecretRef === undefined) return []
  return [...credentialKeys(credentialsSecretRef), 'ca.crt']
}

/** The named key only, and only if it is a certificate. */
function caCopySources(source: S3Source, { restore, secrets }: Observed): CopySource[] {
  const reference = caRefOf(source)
  const { bucketCa } = secrets
  if (reference === undefined) return []
  const namespace = bucketNamespace(restore)
  if (caError(bucketField(restore), reference, namespace, bucketCa) !== undefined) return []
  const { key } = reference
  const value = Buffer.from(caValue(reference, bucketCa) ?? '').toString('base64')
  return [{ credential: BUCKET_CA, keys: [key], secret: { data: { [key]: value } } }]
}
