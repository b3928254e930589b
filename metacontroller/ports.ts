/**
 * What the rooms read and write outside of Metacontroller's requests, by the real clients of
 * jobs/clients. Reads that many resources repeat are answered from a short memory.
 */
import { hostname } from 'node:os'
import { VecCluster } from '../crds/cluster.ts'
import { KubernetesError } from '../crds/errors.ts'
import {
  AnyObject,
  endOf,
  Job,
  Secret,
  StatefulSet,
  type KubernetesEvent,
} from '../crds/kubernetes.ts'
import { API_VERSION, LABELS, MANAGED_BY } from '../crds/names.ts'
import type { AccessKeyPorts } from '../hooks/access-key/ports.ts'
import type { ClusterPorts } from '../hooks/cluster/ports.ts'
import { holderNow } from '../hooks/lease.ts'
import type { Collection, Kubernetes } from '../jobs/clients/kubernetes.ts'
import { leasePorts } from './leases.ts'
import { remember } from './remember.ts'
import type { Log } from './start-mark.ts'

export interface PortTools {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  consensus: ClusterPorts['consensus']
  /** Those the service may read; empty means all. */
  namespaces: string[]
  now: () => Date
  log: Log
}

const SECRET_SECONDS = 60
const FRESH_SECRET_SECONDS = 1
const HELM_JOBS_SECONDS = 5

export function clusterPorts(tools: PortTools): ClusterPorts {
  const { kubernetes, namespaces, now } = tools
  const helmJobs = remember(() => countUnfinished(kubernetes, namespaces), HELM_JOBS_SECONDS, now)
  return {
    secret: tools.secret,
    consensus: tools.consensus,
    jobsOf: (namespace, parentUid) =>
      kubernetes.list(jobsIn(namespace), Job, { labelSelector: `${LABELS.parent}=${parentUid}` }),
    writeHolder: (cluster) => holderNow(cluster, 'write', leasePorts(kubernetes), now()),
    unfinishedHelmJobs: async () => (await helmJobs()) ?? 0,
    cluster: (namespace, name) => kubernetes.get(clustersIn(namespace), name, VecCluster.schema),
    statefulSet: (namespace, name) => kubernetes.get(statefulSetsIn(namespace), name, StatefulSet),
    namespaceEnds: async (name) => {
      const found = await kubernetes.get(NAMESPACES, name, AnyObject)
      return found === undefined || found.metadata.deletionTimestamp !== undefined
    },
    // Foreground: the Job stays until its pods have ended, so that nothing starts beside them.
    deleteJob: ({ namespace, name, uid }) =>
      kubernetes.delete(jobsIn(namespace), name, { uid, propagation: 'Foreground' }),
    writeEvent: (event) => writeEvent(tools, event),
  }
}

export function accessKeyPorts(tools: PortTools): AccessKeyPorts {
  return {
    secret: tools.secret,
    liveSecret: readSecret(tools.kubernetes),
    writeEvent: (event) => writeEvent(tools, event),
  }
}

/** One memory of Secrets for everything that reads them. */
export function secretPort(kubernetes: Kubernetes, now: () => Date): ClusterPorts['secret'] {
  return remember(readSecret(kubernetes), SECRET_SECONDS, now)
}

/** For who must know how things are now; many who ask at once share an answer. */
export function freshSecretPort(kubernetes: Kubernetes, now: () => Date): ClusterPorts['secret'] {
  return remember(readSecret(kubernetes), FRESH_SECRET_SECONDS, now)
}

function readSecret(kubernetes: Kubernetes): ClusterPorts['secret'] {
  return (namespace, name) => kubernetes.get(secretsIn(namespace), name, Secret)
}

/** VecClusters of the namespaces served. */
export async function servedClusters(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<AnyObject[]> {
  if (namespaces.length === 0) return kubernetes.list(clustersIn(), AnyObject)
  const lists = namespaces.map((namespace) => kubernetes.list(clustersIn(namespace), AnyObject))
  return (await Promise.all(lists)).flat()
}

/**
 * Merge-patches a VecCluster; false when that cannot be done to it, whenever it is tried: it is gone,
 * its name is another resource's by now (the API finds another uid invalid), or it is not valid itself.
 */
export async function patchCluster(
  kubernetes: Kubernetes,
  { metadata }: AnyObject,
  patch: object,
): Promise<boolean> {
  try {
    await kubernetes.patch(clustersIn(metadata.namespace), metadata.name, patch)
    return true
  } catch (error) {
    if (hasStatus(error, 404, 409, 422)) return false
    throw error
  }
}

/** A definition by its name; it has no namespace. */
export function readCrd(kubernetes: Kubernetes, name: string): Promise<AnyObject | undefined> {
  const definitions = { apiVersion: 'apiextensions.k8s.io/v1', plural: 'customresourcedefinitions' }
  return kubernetes.get(definitions, name, AnyObject)
}

/** Helm Jobs that run or are about to: what has succeeded is left out by the API server. */
async function countUnfinished(kubernetes: Kubernetes, namespaces: string[]): Promise<number> {
  const selection = {
    labelSelector: `${LABELS.managedBy}=${MANAGED_BY},${LABELS.component}=helm`,
    fieldSelector: 'status.successful=0',
  }
  const places = namespaces.length === 0 ? [undefined] : namespaces
  const lists = places.map((namespace) => kubernetes.list(jobsIn(namespace), Job, selection))
  return (await Promise.all(lists)).flat().filter((job) => endOf(job) === undefined).length
}

/** An Event tells people what happened; nothing may depend on whether it was written. */
export async function writeEvent(
  { kubernetes, log }: Pick<PortTools, 'kubernetes' | 'log'>,
  event: KubernetesEvent,
): Promise<void> {
  const { metadata, at, ...rest } = event
  const component = MANAGED_BY
  try {
    await kubernetes.create(
      { apiVersion: 'v1', plural: 'events', namespace: metadata.namespace },
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata,
        ...rest,
        firstTimestamp: at,
        lastTimestamp: at,
        count: 1,
        source: { component },
        reportingComponent: component,
        reportingInstance: hostname(),
      },
    )
  } catch (error) {
    // Its name is derived from what it tells: a repeat finds it there.
    if (hasStatus(error, 409)) return
    log.warn({ err: error, namespace: metadata.namespace, reason: event.reason }, 'event lost')
  }
}

function hasStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof KubernetesError && statuses.includes(error.status ?? 0)
}

const NAMESPACES: Collection = { apiVersion: 'v1', plural: 'namespaces' }

function jobsIn(namespace?: string): Collection {
  return collection('batch/v1', 'jobs', namespace)
}

function secretsIn(namespace: string): Collection {
  return collection('v1', 'secrets', namespace)
}

function statefulSetsIn(namespace: string): Collection {
  return collection('apps/v1', 'statefulsets', namespace)
}

function clustersIn(namespace?: string): Collection {
  return collection(API_VERSION, VecCluster.plural, namespace)
}

function collection(apiVersion: string, plural: string, namespace?: string): Collection {
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) }
}
