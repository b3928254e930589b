/**
 * Ports that several kinds implement in the same way: live reads, Events, Leases, copies of Secrets
 * and image pull Secrets. Also their conditional writes, by resourceVersion, uid or a new name: of
 * several concurrent ones only the first succeeds.
 */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { VecRestore } from '../../crds/restore.ts'
import { KubernetesError, UnreadableNamespace } from '../../crds/contract/errors.ts'
import { API_VERSION, LABELS, MANAGED_BY } from '../../crds/contract/names.ts'
import {
  AnyObject,
  ConfigMap,
  isOwnedBy,
  Job,
  Lease,
  Secret,
  StatefulSet,
} from '../../crds/kubernetes.ts'
import type { ClusterPorts } from '../../hooks/cluster/ports.ts'
import { isFinished, type DataJobPorts } from '../../hooks/data-job/observe.ts'
import type { SecretCopyPorts } from '../../hooks/data-job/secret-copies.ts'
import type { ImagePullSecretPorts } from '../../hooks/image-pull-secrets.ts'
import type { LeasePorts } from '../../hooks/lease.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { lenientSchema, type AnyParent, type KindHooks } from '../../hooks/protocol.ts'
import type { LiveStatus } from '../../hooks/server.ts'
import {
  type ApiResource,
  type Kubernetes,
  type ListSelector,
  resourcePath,
} from '../../jobs/clients/kubernetes/client.ts'
import { validate } from '../../jobs/clients/kubernetes/responses.ts'
import type { Log } from '../runtime.ts'
import { boundedJob } from './bounded-objects.ts'
import {
  configMaps,
  jobs,
  leases,
  namespaces,
  secrets,
  serviceAccounts,
  statefulSets,
  type ApiResourceFn,
  backups,
  clusters,
  restores,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import { eventWriter } from './events.ts'

export interface CommonDependencies {
  kubernetes: Kubernetes
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  log: Log
}

/**
 * Accept resources that another version of the CRD admitted: they can still be deleted, and they do
 * not block other resources.
 */
export const LenientCluster = lenientSchema(VecCluster.schema) as typeof VecCluster.schema
export const LenientBackupSchedule = lenientSchema(
  VecBackupSchedule.schema,
) as typeof VecBackupSchedule.schema
export const LenientBackup = lenientSchema(VecBackup.schema) as typeof VecBackup.schema

/** All reads are live and return undefined if the object or its kind does not exist. */
export function commonPorts({
  kubernetes,
  namespaces: readableNamespaces,
  log,
}: CommonDependencies) {
  // An object in a namespace that the service may not read counts as missing: the resource that
  // refers to it waits and reports what is missing.
  const read =
    <Schema extends TSchema>(resource: ApiResourceFn, schema: Schema) =>
    async (namespace: string, name: string): Promise<Static<Schema> | undefined> =>
      readableNamespaces.length === 0 || readableNamespaces.includes(namespace)
        ? kubernetes.get(resource(namespace), name, schema)
        : undefined
  return {
    cluster: read(clusters, LenientCluster),
    statefulSet: read(statefulSets, StatefulSet),
    backup: read(backups, LenientBackup),
    isNamespaceTerminating: async (name: string) => {
      const found = await kubernetes.get(namespaces(), name, AnyObject)
      return found === undefined || found.metadata.deletionTimestamp !== undefined
    },
    // Foreground: the Job remains until its pods have ended, so that nothing starts while they
    // still run.
    deleteJob: ({ namespace, name, uid }: { namespace: string; name: string; uid: string }) =>
      kubernetes.delete(jobs(namespace), name, { uid, propagation: 'Foreground' }),
    writeEvent: eventWriter({ kubernetes, log }),
  }
}

/**
 * Reads the live status of a resource that is being deleted; undefined if it is gone, or cannot be read:
 * in a namespace that is being deleted the permission may be gone before the resource.
 */
export function liveStatusReader(
  kubernetes: Kubernetes,
): (kindHooks: LiveStatusKind, parent: AnyParent) => Promise<LiveStatus | undefined> {
  return async ({ plural, status }, { metadata: { namespace, name, uid } }) => {
    const schema = Type.Object({
      metadata: Type.Object({ uid: Type.String() }),
      status: Type.Optional(lenientSchema(status)),
    })
    try {
      const live = await kubernetes.get(
        { apiVersion: API_VERSION, plural, namespace },
        name,
        schema,
      )
      if (live?.metadata.uid !== uid) return undefined
      return live.status === undefined ? {} : { status: live.status as object }
    } catch (error) {
      if (error instanceof KubernetesError) return undefined
      throw error
    }
  }
}

type LiveStatusKind = Pick<KindHooks, 'plural' | 'status'>

export interface Picked<Schema extends TSchema, Result> extends ListSelector {
  schema: Schema
  /** What stays in memory of an object; `undefined` leaves it out. */
  pick: (object: Static<Schema>) => Result | undefined
}

/**
 * Lists objects of users. `pick` must limit what it returns (bounded-objects.ts): the list may have any
 * number of objects of any size.
 */
export function listPicked<Schema extends TSchema, Result>(
  kubernetes: Kubernetes,
  resource: ApiResource,
  { schema, pick, ...selector }: Picked<Schema, Result>,
): Promise<Result[]> {
  const call = `GET ${resourcePath(resource)}`
  return kubernetes.collect(resource, selector, (object) => {
    validate(schema, object, call)
    return pick(object)
  })
}

/** Lists several API resources; empty if the kind is not installed or was removed. */
export async function listOrEmpty<Schema extends TSchema, Result>(
  kubernetes: Kubernetes,
  resources: ApiResource[],
  picked: Picked<Schema, Result>,
): Promise<Result[]> {
  try {
    const lists = resources.map((resource) => listPicked(kubernetes, resource, picked))
    return (await Promise.all(lists)).flat()
  } catch (error) {
    if (hasStatus(error, 404)) return []
    throw error
  }
}

/** Lists of several namespaces, and the namespaces that cannot be read: what they have is unknown. */
export async function listReadable<Item>(
  resources: ApiResource[],
  list: (resource: ApiResource) => Promise<Item[]>,
): Promise<{ found: Item[]; unreadable: string[] }> {
  const unreadable: string[] = []
  const lists = resources.map(async (resource) => {
    try {
      return await list(resource)
    } catch (error) {
      if (!(error instanceof UnreadableNamespace)) throw error
      unreadable.push(error.namespace)
      return []
    }
  })
  return { found: (await Promise.all(lists)).flat(), unreadable }
}

/** Whether the API server answered a call with one of these status codes. */
export function hasStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof KubernetesError && statuses.includes(error.status ?? 0)
}

interface ActiveJobs extends Pick<ListSelector, 'skipsUnreadable'> {
  labels: Record<string, string>
  /** Which of the unfinished Jobs with these labels; by default all of them. */
  matches?: (job: Job) => boolean
}

/** Unfinished Jobs with the labels of this operator, which users can set too. */
export async function listActiveJobs(
  kubernetes: Kubernetes,
  resources: ApiResource[],
  { labels, matches = () => true, ...options }: ActiveJobs,
): Promise<Job[]> {
  const requiredLabels = Object.entries({ [LABELS.managedBy]: MANAGED_BY, ...labels })
  const picked = {
    labelSelector: requiredLabels.map(([label, value]) => `${label}=${value}`).join(','),
    fieldSelector: 'status.successful=0',
    ...options,
    schema: Job,
    pick: (job: Job) => (isUnfinished(job) && matches(job) ? boundedJob(job) : undefined),
  }
  const lists = resources.map((resource) => listPicked(kubernetes, resource, picked))
  return (await Promise.all(lists)).flat()
}

export interface DataJobDependencies extends CommonDependencies {
  /** From the cache of Secrets. */
  secret: DataJobPorts['secret']
}

export function dataJobPorts({ secret, ...dependencies }: DataJobDependencies) {
  const { kubernetes } = dependencies
  return {
    ...commonPorts(dependencies),
    serviceAccount: (namespace: string, name: string) =>
      kubernetes.get(serviceAccounts(namespace), name, AnyObject),
    configMap: (namespace: string, name: string) =>
      kubernetes.get(configMaps(namespace), name, ConfigMap),
    ...leasePorts(kubernetes),
    ...secretCopyPorts(kubernetes),
    secret,
  }
}

/** The kinds that hold Leases. */
const HOLDER_RESOURCES: Record<string, ApiResourceFn> = {
  [VecBackup.kind]: backups,
  [VecRestore.kind]: restores,
  [VecCluster.kind]: clusters,
}

/** Only the fields that are read, of resources of any CRD version. */
const HolderObject = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(Type.Object({ phase: Type.Optional(Type.String()) })),
})

export function leasePorts(kubernetes: Kubernetes): LeasePorts {
  return {
    lease: (namespace, name) => kubernetes.get(leases(namespace), name, Lease),
    jobsOf: (namespace, parentUid) =>
      listPicked(kubernetes, jobs(namespace), {
        labelSelector: `${LABELS.parent}=${parentUid}`,
        schema: Job,
        pick: boundedJob,
      }),
    async holderState(holder) {
      const resource = HOLDER_RESOURCES[holder.kind]
      if (resource === undefined) return 'unfinished'
      const found = await kubernetes.get(resource(holder.namespace), holder.name, HolderObject)
      if (found?.metadata.uid !== holder.uid) return 'gone'
      return isFinished(found) ? 'finished' : 'unfinished'
    },
    writeLease: (lease) => createOrReplace(kubernetes, leases(lease.metadata.namespace), lease),
    deleteLease: (lease) => deleteExact(kubernetes, leases(lease.metadata.namespace), lease),
  }
}

export function secretCopyPorts(kubernetes: Kubernetes): SecretCopyPorts {
  const read = (namespace: string, name: string) => kubernetes.get(secrets(namespace), name, Secret)
  return {
    secretCopy: read,
    async writeSecretCopy(copy) {
      const { namespace = '', name, ownerReferences: [owner] = [] } = copy.metadata
      const found = await read(namespace, name)
      if (found !== undefined && !isOwnedBy(found, owner?.uid)) return
      const resourceVersion = found?.metadata.resourceVersion
      const metadata = {
        ...copy.metadata,
        ...(resourceVersion !== undefined && { resourceVersion }),
      }
      // If another writer was first, the next sync writes the copy.
      await createOrReplace(kubernetes, secrets(namespace), { ...copy, metadata })
    },
    async deleteSecretCopy({ namespace, name, ownerUid }) {
      const found = await read(namespace, name)
      if (found === undefined || !isOwnedBy(found, ownerUid)) return
      await deleteExact(kubernetes, secrets(namespace), found)
    },
  }
}

export interface ImagePullSecretDependencies {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  ownNamespace: string
  log: Log
}

export function imagePullSecretPorts(
  dependencies: ImagePullSecretDependencies,
): ImagePullSecretPorts {
  const { kubernetes, secret, ownNamespace, log } = dependencies
  return {
    ...secretCopyPorts(kubernetes),
    pullSecret: (name) => secret(ownNamespace, name),
    warn: (err, message) => log.warn({ err }, message),
  }
}

interface VersionedObject {
  metadata: {
    name: string
    uid?: string | undefined
    resourceVersion?: string | undefined
  }
}

/**
 * Creates the object, or replaces the version given by its resourceVersion. False on a conflict.
 */
export function createOrReplace(
  kubernetes: Kubernetes,
  resource: ApiResource,
  object: VersionedObject,
  { timeoutMs }: { timeoutMs?: number } = {},
): Promise<boolean> {
  const { name, resourceVersion } = object.metadata
  const options = { body: object, ...(timeoutMs !== undefined && { timeoutMs }) }
  return resourceVersion === undefined
    ? succeeds(kubernetes, 'POST', resourcePath(resource), options)
    : succeeds(kubernetes, 'PUT', resourcePath(resource, name), options)
}

/** Deletes the object with exactly this uid and resourceVersion. False on a conflict. */
export function deleteExact(
  kubernetes: Kubernetes,
  resource: ApiResource,
  object: VersionedObject,
): Promise<boolean> {
  const { name, uid, resourceVersion } = object.metadata
  const options = {
    kind: 'DeleteOptions',
    apiVersion: 'v1',
    preconditions: { uid, resourceVersion },
  }
  return succeeds(kubernetes, 'DELETE', resourcePath(resource, name), { body: options })
}

/** False if another writer was first: the object has changed, exists already, or is gone. */
async function succeeds(
  kubernetes: Kubernetes,
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  options: { body: object; timeoutMs?: number },
): Promise<boolean> {
  const { status, text } = await kubernetes.call(method, path, options)
  if (status < 400) return true
  if (status === 404 || status === 409) return false
  throw new KubernetesError(`${method} ${path} answered ${status}: ${text.slice(0, 300)}`, {
    status,
  })
}
