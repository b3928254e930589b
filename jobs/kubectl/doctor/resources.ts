/**
 * Checks that the engine of each VecCluster responds through the API server, and checks Leases and buckets.
 * Reports the conditions that mean danger, which are those of the metric and its alerts.
 */
import { Type } from '@sinclair/typebox'
import { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { VecBackup } from '../../../crds/backup.ts'
import { VecCluster } from '../../../crds/cluster.ts'
import { clusterConnection } from '../../../crds/contract/connection.ts'
import { KubernetesError, StorageError } from '../../../crds/contract/errors.ts'
import {
  API_VERSION,
  HTTP_PORT,
  LABELS,
  MANAGED_BY,
  releaseName,
} from '../../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../../crds/crd.ts'
import {
  AnyObject,
  finishedCondition,
  Job,
  Lease,
  readLeaseHolder,
} from '../../../crds/kubernetes.ts'
import {
  caRefOf,
  credentialKeys,
  isCredentialType,
  serviceAccountError,
  Storage,
  type S3Target,
} from '../../../crds/storage.ts'
import { openBucketClient, readBucketCa, readSecret } from '../command.ts'
import {
  apiResource,
  clusters,
  leases,
  serviceAccounts,
} from '../../clients/kubernetes/api-resources.ts'
import { oneLine } from '../output.ts'
import { unreadable, type CheckContext, type CheckResult } from './check.ts'
import { watchedNamespaces } from './installation.ts'
import { criticalConditions } from '../../../crds/critical-conditions.ts'

const ENGINE_TIMEOUT_MS = 10_000

export async function checkClusters(context: CheckContext): Promise<CheckResult[]> {
  const about = 'clusters'
  try {
    const found = await context.kubernetes.list(clusters(context.namespace), VecCluster.schema)
    if (found.length === 0) return [{ about, level: 'fine', says: 'none' }]
    return await Promise.all(found.map((cluster) => checkCluster(cluster, context)))
  } catch (error) {
    return unreadable(about, error)
  }
}

async function checkCluster(cluster: VecCluster, context: CheckContext): Promise<CheckResult> {
  const { name, namespace } = cluster.metadata
  const about = `cluster ${namespace}/${name}`
  const { phase, conditions = [] } = cluster.status ?? {}
  if (phase === undefined) {
    // No engine to query; the condition says what is missing.
    const reason =
      conditions.find(({ type }) => type === 'Applied')?.message ?? 'not reconciled yet'
    return { about, level: 'warning', says: `not installed: ${oneLine(reason)}` }
  }
  if (phase === 'Hibernated') return { about, level: 'fine', says: `${phase} (spec.hibernate)` }
  const notReady = await notReadyReason(cluster, context)
  if (notReady === undefined) return { about, level: 'fine', says: `${phase}, its engine is ready` }
  // A cluster that is being created has no engine yet.
  return { about, level: phase === 'Running' ? 'wrong' : 'warning', says: `${phase}; ${notReady}` }
}

/** Undefined when the engine is ready. `/readyz` requires no API key. */
async function notReadyReason(
  cluster: VecCluster,
  { kubernetes, signal }: CheckContext,
): Promise<string | undefined> {
  const { metadata } = cluster
  const target = `${clusterConnection(cluster).tls ? 'https' : 'http'}:${releaseName(metadata.name)}:${HTTP_PORT}`
  const path = `/api/v1/namespaces/${metadata.namespace}/services/${target}/proxy/readyz`
  try {
    const { status } = await kubernetes.call('GET', path, { timeoutMs: ENGINE_TIMEOUT_MS, signal })
    return status === 200 ? undefined : `its engine /readyz answered ${status}`
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof KubernetesError) return error.message
    throw error
  }
}

export async function checkLeases(context: CheckContext): Promise<CheckResult[]> {
  const about = 'Leases'
  try {
    const options = { labelSelector: `${LABELS.managedBy}=${MANAGED_BY}` }
    const found = await context.kubernetes.list(leases(context.namespace), Lease, options)
    const watched = await watchedNamespaces(context).catch(undefinedIfForbidden)
    const warnings = await Promise.all(
      found.map(async (lease) => leaseWarning(lease, watched, context)),
    )
    const messages = warnings.filter((warning) => warning !== undefined)
    if (messages.length > 0) return messages.map((says) => ({ about, level: 'warning', says }))
    const count = found.length === 1 ? '1 Lease' : `${found.length} Leases`
    return [{ about, level: 'fine', says: `${count}, all with an existing holder` }]
  } catch (error) {
    return unreadable(about, error)
  }
}

async function leaseWarning(
  lease: Lease,
  watched: string[] | undefined,
  context: CheckContext,
): Promise<string | undefined> {
  const { metadata, spec } = lease
  const label = `${metadata.namespace ?? ''}/${metadata.name}`
  // A released Lease continues to exist because it contains the queue.
  if (spec?.holderIdentity === undefined) return undefined
  const owner = readLeaseHolder(lease)
  const resource = RESOURCES.find(({ kind }) => kind === owner?.kind)
  if (resource === undefined || owner === undefined) {
    return `${label} is held by ${spec.holderIdentity}, which does not belong to this operator`
  }
  const { namespace, name, uid } = owner
  const holder = `${resource.kind} ${namespace}/${name}`
  const { kubernetes } = context
  const ownerResource = { apiVersion: API_VERSION, plural: resource.plural, namespace }
  const ownerObject = await kubernetes.get(ownerResource, name, AnyObject)
  if (ownerObject === undefined || ownerObject.metadata.uid !== uid) {
    const activeJobs = await listActiveJobs(context, namespace, uid)
    return activeJobs.length === 0
      ? `${label}: its holder ${holder} is gone; the next waiting resource takes it over`
      : `${label}: its holder ${holder} is gone, and its Job ${activeJobs.join(', ')} still runs in ${namespace}`
  }
  if (watched === undefined || watched.length === 0 || watched.includes(namespace)) return undefined
  return `${label}: its holder ${holder} is in a namespace that the operator does not watch`
}

async function listActiveJobs({ kubernetes }: CheckContext, namespace: string, uid: string) {
  const jobs = await kubernetes.list({ apiVersion: 'batch/v1', plural: 'jobs', namespace }, Job, {
    labelSelector: `${LABELS.parent}=${uid}`,
  })
  return jobs
    .filter((job) => finishedCondition(job) === undefined)
    .map(({ metadata }) => metadata.name)
}

/** Without permission to read it, or without Metacontroller, the served namespaces are unknown. */
function undefinedIfForbidden(error: unknown): undefined {
  if (error instanceof KubernetesError) return undefined
  throw error
}

const BackupStorage = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ storage: Storage }),
})

interface BucketTarget {
  namespace: string
  target: S3Target
}

/** Hundreds of backups share a few buckets; buckets beyond this number are not checked. */
const MAX_BUCKETS = 20
const BUCKET_TIMEOUT_MS = 10_000

export async function checkBuckets(context: CheckContext): Promise<CheckResult[]> {
  const about = 'buckets'
  try {
    const targets = await listBuckets(context)
    const checked = targets.slice(0, MAX_BUCKETS)
    const results = await Promise.all(checked.map((entry) => checkBucket(entry, context)))
    const skipped = targets.length - checked.length
    if (skipped === 0) return results
    return [...results, { about, level: 'warning', says: `${skipped} more were not checked` }]
  } catch (error) {
    return unreadable(about, error)
  }
}

/** Each bucket once per namespace and credentials. */
async function listBuckets(context: CheckContext): Promise<BucketTarget[]> {
  const lists = [VecBackupSchedule, VecBackup].map(({ plural }) =>
    context.kubernetes.list(apiResource(API_VERSION, plural)(context.namespace), BackupStorage),
  )
  const targets = new Map<string, BucketTarget>()
  for (const { metadata, spec } of (await Promise.all(lists)).flat()) {
    const { namespace = '' } = metadata
    const target = spec.storage.s3
    const { bucket, endpoint, credentialsSecretRef, serviceAccountName } = target
    const access = [credentialsSecretRef?.name, serviceAccountName, caRefOf(target)]
    const key = JSON.stringify([namespace, bucket, endpoint, ...access])
    if (!targets.has(key)) targets.set(key, { namespace, target })
  }
  return [...targets.values()]
}

async function checkBucket(
  { namespace, target }: BucketTarget,
  context: CheckContext,
): Promise<CheckResult> {
  const about = `bucket ${target.bucket}`
  const location = { field: 'spec.storage.s3', namespace }
  const { ca, error } = await readBucketCa(context.kubernetes, location, target)
  if (error !== undefined) return { about, level: 'wrong', says: error }
  const reference = target.credentialsSecretRef
  if (reference === undefined) return checkAccount({ namespace, target }, context)
  const { name } = reference
  const secret = await readSecret(context.kubernetes, namespace, name)
  if (secret === undefined) {
    return { about, level: 'wrong', says: `Secret ${namespace}/${name} not found` }
  }
  const { type = 'Opaque' } = secret
  if (!isCredentialType(type, credentialKeys(reference))) {
    const says = `Secret ${namespace}/${name} is of type ${type}, which cannot hold credentials`
    return { about, level: 'wrong', says }
  }
  if (!context.readsBuckets) {
    const address = target.endpoint ?? `S3 in ${target.region}`
    const says = `not checked: --buckets reads it at ${address} with Secret ${namespace}/${name}`
    return { about, level: 'fine', says }
  }
  const bucket = await openBucketClient({ secret, ca }, target, { ...context, env: {} })
  try {
    const deadline = AbortSignal.any([context.signal, AbortSignal.timeout(BUCKET_TIMEOUT_MS)])
    await bucket.list(target.prefix, { max: 1, signal: deadline })
    return { about, level: 'fine', says: `read with Secret ${namespace}/${name}` }
  } catch (error) {
    context.signal.throwIfAborted()
    // A store inside the cluster does not resolve here, which proves no problem.
    const isAnswered = error instanceof StorageError && error.status !== undefined
    const says = error instanceof Error ? error.message : String(error)
    return {
      about,
      level: isAnswered ? 'wrong' : 'warning',
      says: isAnswered ? says : `${says} (from this machine)`,
    }
  } finally {
    bucket.close()
  }
}

/** Only a pod of the ServiceAccount can read such a bucket. */
async function checkAccount(
  { namespace, target }: BucketTarget,
  { kubernetes }: CheckContext,
): Promise<CheckResult> {
  const about = `bucket ${target.bucket}`
  const name = target.serviceAccountName ?? ''
  const label = `ServiceAccount ${namespace}/${name}`
  const account = await kubernetes.get(serviceAccounts(namespace), name, AnyObject)
  const error = serviceAccountError({ namespace, name }, account)
  if (error !== undefined) return { about, level: 'wrong', says: error.message }
  return { about, level: 'fine', says: `not checked: only Jobs of ${label} can read it` }
}

const ABOUT = 'conditions'

const WithConditions = Type.Composite([
  AnyObject,
  Type.Object({
    status: Type.Optional(
      Type.Object({
        conditions: Type.Optional(
          Type.Array(
            Type.Object({
              type: Type.String(),
              status: Type.Union([
                Type.Literal('True'),
                Type.Literal('False'),
                Type.Literal('Unknown'),
              ]),
              reason: Type.String(),
              message: Type.String(),
            }),
          ),
        ),
      }),
    ),
  }),
])

export async function checkConditions(context: CheckContext): Promise<CheckResult[]> {
  const found: CheckResult[] = []
  for (const resource of RESOURCES) found.push(...(await dangersOf(resource, context)))
  return found.length > 0 ? found : [{ about: ABOUT, level: 'fine', says: 'none means danger' }]
}

async function dangersOf(
  { kind, plural }: Resource,
  context: CheckContext,
): Promise<CheckResult[]> {
  try {
    const objects = await context.kubernetes.list(
      apiResource(API_VERSION, plural)(context.namespace),
      WithConditions,
    )
    return objects.flatMap(({ metadata, status }) =>
      criticalConditions(status?.conditions ?? [])
        // A failed data job is finished: its own alert is for its first day.
        .filter(({ type }) => type !== 'Stalled' || !ONE_SHOT.has(kind))
        .map(({ type, status: value, message }) => ({
          about: ABOUT,
          level: 'warning' as const,
          says: `${kind} ${metadata.namespace ?? ''}/${metadata.name}: ${type} is ${value}: ${oneLine(message)}`,
        })),
    )
  } catch (error) {
    return unreadable(ABOUT, error)
  }
}

const ONE_SHOT = new Set<string>(['VecBackup', 'VecRestore', 'VecMigration'])
