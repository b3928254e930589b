/**
 * Implements the ports of VecBackup with the real clients of jobs/clients, including the bucket client that a
 * purge uses.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { backupFolder } from '../../crds/contract/backup-keys.ts'
import { KubernetesError, StorageError } from '../../crds/contract/errors.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, trimTrailing } from '../../crds/contract/names.ts'
import { AnyObject, secretValue, type ConfigMap, type Secret } from '../../crds/kubernetes.ts'
import { caError, caRefOf, caValue, type S3Target } from '../../crds/storage.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import type { BackupsToRestore, SchedulePolicy } from '../../hooks/backup/deletion-policy.ts'
import { isNamespaceAllowed } from '../../hooks/cross-namespace.ts'
import { isFinished, readBucketCa } from '../../hooks/data-job/observe.ts'
import { bucketSecretTypeBlocker } from '../../hooks/data-job/preconditions.ts'
import type {
  BackupPorts,
  BackupReader,
  ObjectIdentity,
  PurgeResult,
  PurgeTarget,
} from '../../hooks/backup/observe.ts'
import { FairLimiter } from '../../hooks/fair-limiter.ts'
import type { AddressGuard } from '../../jobs/clients/http/address-guard.ts'
import { resourcePath, type Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { Bucket } from '../../jobs/clients/s3/bucket.ts'
import { withCa, parseCredentials } from '../../jobs/clients/s3/credentials.ts'
import type { Clock } from '../../jobs/clock.ts'
import type { OnCall } from '../metrics/instrumented-clients.ts'
import {
  inNamespaces,
  namespaces,
  backups,
  backupSchedules,
  restores,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import { purge } from '../../jobs/backup/purge.ts'
import { dataJobPorts, hasStatus, listOrEmpty, listReadable } from './common.ts'
import { activeHelmJobs } from './restore.ts'
import type { VecBackup } from '../../crds/backup.ts'

export interface BackupDependencies extends Omit<BucketDependencies, 'configMap'> {
  kubernetes: Kubernetes
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
}

/** Only the required fields, so that a schedule admitted by an older CRD can be read too. */
const ScheduleWithPolicy = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ deletionPolicy: Type.Optional(Type.String()) }),
})

async function readSchedulePolicy(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<SchedulePolicy | undefined> {
  const found = await kubernetes.get(backupSchedules(namespace), name, ScheduleWithPolicy)
  if (found === undefined) return undefined
  const { metadata, spec } = found
  return {
    uid: metadata.uid ?? '',
    ...(metadata.annotations !== undefined && { annotations: metadata.annotations }),
    ...(spec.deletionPolicy !== undefined && { deletionPolicy: spec.deletionPolicy }),
  }
}

/** Time of the API server, from the Date header of a read. */
async function readApiTime(kubernetes: Kubernetes, namespace: string): Promise<Date | undefined> {
  const { date = '' } = await kubernetes.call('GET', resourcePath(namespaces(), namespace))
  const time = new Date(date)
  return Number.isNaN(time.getTime()) ? undefined : time
}

async function patchProgress(
  { kubernetes, log }: BackupDependencies,
  { namespace, name, uid }: ObjectIdentity,
  progress: Progress,
): Promise<void> {
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(progress) }
  try {
    await kubernetes.patch(backups(namespace), name, { metadata: { uid, annotations } })
  } catch (error) {
    // The shorter report only saves space: nothing depends on it, and the next sync retries.
    if (!(error instanceof KubernetesError)) throw error
    if (hasStatus(error, 404, 409, 422)) return
    log.warn({ err: error, parent: `VecBackup ${namespace}/${name}` }, 'shortening report failed')
  }
}

export function backupPorts(dependencies: BackupDependencies): BackupPorts {
  const { kubernetes, namespaces, log } = dependencies
  const limiter = new FairLimiter(MAX_PURGES)
  const ports = dataJobPorts(dependencies)
  const bucket = { ...dependencies, configMap: ports.configMap }
  return {
    ...ports,
    deleteBackup: ({ namespace, name, uid }: ObjectIdentity) =>
      kubernetes.delete(backups(namespace), name, { uid }),
    replaceReport: (backup, report) => patchProgress(dependencies, backup, report),
    restoresReading: (backup: StoredBackup) => restoresReading(kubernetes, namespaces, backup),
    backupsToRestore: (candidates) => backupsToRestore(kubernetes, namespaces, candidates),
    apiTime: (namespace) => readApiTime(kubernetes, namespace),
    helmJobsAt: (cluster) => activeHelmJobs(dependencies, cluster),
    schedulePolicy: (namespace, name) => readSchedulePolicy(kubernetes, namespace, name),
    purge: (target, signal) =>
      limiter.run(target.namespace, signal, () => purgeOnce(bucket, target, signal)),
    warn: ({ namespace, name }, message) =>
      log.warn({ parent: `VecBackup ${namespace}/${name}` }, message),
  }
}

/**
 * Tenants choose the stores, and each answer of one is in memory for a while. One namespace has one
 * purge at a time, so that a store that does not answer delays only its own.
 */
const MAX_PURGES = 4
/** Limit of one call of a purge; a folder of millions of objects is listed in it. */
const PURGE_DEADLINE_MS = 600_000

async function purgeOnce(
  dependencies: BucketDependencies,
  { namespace, name, uid, storage, survey }: PurgeTarget,
  signal: AbortSignal,
): Promise<PurgeResult> {
  const deadline = AbortSignal.timeout(PURGE_DEADLINE_MS)
  const bucket = await openBucket(dependencies, namespace, storage)
  try {
    const target = { prefix: storage.prefix, name, uid }
    return await purge(bucket, target, {
      signal: AbortSignal.any([signal, deadline]),
      survey,
      now: dependencies.clock.now(),
    })
  } catch (error) {
    if (!deadline.aborted || signal.aborted) throw error
    throw new StorageError(`not done within ${PURGE_DEADLINE_MS / 1000} s`, { cause: error })
  } finally {
    bucket.close()
  }
}

export interface BucketDependencies {
  /** From the cache of Secrets. */
  secret: (namespace: string, name: string) => Promise<Secret | undefined>
  configMap: (namespace: string, name: string) => Promise<ConfigMap | undefined>
  clock: Clock
  log: Logger
  onCall?: OnCall
  /**
   * Limits the addresses: tenants choose the endpoint, and the network policies of their namespaces
   * do not apply to the service.
   */
  guard?: AddressGuard | undefined
}

/** Metacontroller calls the hook again soon, so do not wait for an object store that is down. */
const MAX_ATTEMPTS = 2

/** Opens a client for the bucket; the caller closes it. */
export async function openBucket(
  dependencies: BucketDependencies,
  namespace: string,
  target: S3Target,
): Promise<Bucket> {
  const { secret, clock, log, onCall, guard } = dependencies
  // The SDK takes 0.2 s and 30 MB to load, so load it only when a bucket is used.
  const { Bucket: S3Bucket } = await import('../../jobs/clients/s3/bucket.ts')
  const reference = target.credentialsSecretRef
  // A bucket that is accessed with an identity is purged by a Job (hooks/backup/purge-job.ts).
  if (reference === undefined) {
    throw new StorageError('the service has no credentials of the bucket', {
      reason: 'MissingCredentials',
    })
  }
  const credentials = async () => {
    const found = await secret(namespace, reference.name)
    // The Job checked this before it wrote, but the report that says so is an annotation.
    const blocker = bucketSecretTypeBlocker(reference, namespace, found)
    if (blocker !== undefined) throw new StorageError(blocker.message, { reason: blocker.reason })
    return parseCredentials(reference, (key) => secretValue(found, key))
  }
  const ca = await readCa(dependencies, namespace, target)
  return new S3Bucket({
    ...{
      target,
      credentials: withCa(credentials, () => ca),
      time: clock,
      log,
      guard,
      attempts: MAX_ATTEMPTS,
    },
    ...(onCall !== undefined && { onCall }),
  })
}

/** Read once for a batch. */
async function readCa(
  ports: Pick<BucketDependencies, 'secret' | 'configMap'>,
  namespace: string,
  target: S3Target,
): Promise<string | undefined> {
  const reference = caRefOf(target)
  if (reference === undefined) return undefined
  const object = await readBucketCa({ namespace, access: target }, ports)
  const error = caError('spec.storage.s3', reference, namespace, object)
  if (error !== undefined) throw new StorageError(error.message, { reason: error.reason })
  return caValue(reference, object)
}

const OptionalString = Type.Optional(Type.String())

/**
 * Only the fields that identify the backup: a restore admitted by an older CRD may be running too.
 */
const RestoreSource = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(Type.Object({ phase: OptionalString })),
  spec: Type.Object({
    backupRef: Type.Optional(Type.Object({ name: Type.String(), namespace: OptionalString })),
    source: Type.Optional(
      Type.Object({
        s3: Type.Object({ bucket: Type.String(), path: Type.String(), endpoint: OptionalString }),
      }),
    ),
  }),
})
type RestoreSource = Static<typeof RestoreSource>

export interface StoredBackup extends NamespacedName {
  storage: S3Target
}

/**
 * VecRestores in the served namespaces that read this backup, from live reads. A namespace that
 * cannot be read may have one.
 */
export async function restoresReading(
  kubernetes: Kubernetes,
  namespaces: string[],
  backup: StoredBackup,
): Promise<BackupReader[]> {
  const { found: readers, unreadable } = await listReadable(
    inNamespaces(restores, namespaces),
    (resource) =>
      listOrEmpty(kubernetes, [resource], {
        schema: RestoreSource,
        pick(restore): BackupReader | undefined {
          const by = referenceKind(restore, backup)
          if (by === undefined) return undefined
          return {
            ...objectIdentity(restore),
            by,
            ...(isFinished(restore) && { isFinished: true }),
          }
        },
      }),
  )
  const unknown = unreadable.map((namespace): BackupReader => ({
    namespace,
    name: '',
    uid: '',
    by: 'unknown',
  }))
  return [...readers, ...unknown]
}

/**
 * The VecRestores that are to restore these backups and have not ended, by the name of the backup, from live reads.
 * Restores of namespaces that may not use a backup do not count, and those of a namespace that cannot be read are
 * unknown.
 */
export async function backupsToRestore(
  kubernetes: Kubernetes,
  namespaces: string[],
  candidates: readonly VecBackup[],
): Promise<BackupsToRestore> {
  const namedBy = (restore: RestoreSource) =>
    candidates
      .filter((backup) => referenceKind(restore, storedBackup(backup)) !== undefined)
      .filter((backup) => isNamespaceAllowed(backup, restore.metadata.namespace ?? ''))
      .map(({ metadata }) => metadata.name)
  const { found } = await listReadable(inNamespaces(restores, namespaces), (resource) =>
    listOrEmpty(kubernetes, [resource], {
      schema: RestoreSource,
      pick(restore) {
        const { namespace = '', name, deletionTimestamp } = restore.metadata
        if (isFinished(restore) || deletionTimestamp !== undefined) return undefined
        const named = namedBy(restore)
        return named.length === 0 ? undefined : { restore: { namespace, name }, named }
      },
    }),
  )
  const restoresOf = ({ metadata }: VecBackup) =>
    found.filter(({ named }) => named.includes(metadata.name)).map(({ restore }) => restore)
  return new Map(
    candidates
      .map((backup) => [backup.metadata.name, restoresOf(backup)] as const)
      .filter(([, named]) => named.length > 0),
  )
}

function storedBackup({ metadata: { namespace, name }, spec }: VecBackup): StoredBackup {
  return { namespace, name, storage: spec.storage.s3 }
}

function referenceKind(
  { metadata, spec }: RestoreSource,
  backup: StoredBackup,
): 'name' | 'location' | undefined {
  const { backupRef, source } = spec
  if (source !== undefined) return isSameLocation(source.s3, backup) ? 'location' : undefined
  const namespace = backupRef?.namespace ?? metadata.namespace
  const isNamed = backupRef?.name === backup.name && namespace === backup.namespace
  return isNamed ? 'name' : undefined
}

/**
 * Compares bucket, folder and endpoint. One object store may have several endpoints: a restore that
 * uses another one is found by its record in the bucket.
 */
function isSameLocation(
  { bucket, path, endpoint }: NonNullable<RestoreSource['spec']['source']>['s3'],
  { name, storage }: StoredBackup,
): boolean {
  return (
    bucket === storage.bucket &&
    backupFolder({ prefix: path, name: '' }) === backupFolder({ prefix: storage.prefix, name }) &&
    normalizeEndpoint(endpoint) === normalizeEndpoint(storage.endpoint)
  )
}

/** Ignores case and trailing slashes. */
function normalizeEndpoint(endpoint: string | undefined): string {
  return trimTrailing((endpoint ?? '').toLowerCase(), '/')
}

function objectIdentity({
  metadata: { namespace = '', name, uid = '' },
}: RestoreSource): ObjectIdentity {
  return { namespace, name, uid }
}
