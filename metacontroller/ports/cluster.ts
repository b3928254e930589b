/**
 * Implements the ports of VecCluster and VecAccessKey with the real clients of jobs/clients, and
 * the readers of Secrets that several kinds share. Reads that many resources repeat are cached
 * briefly. Also lists and patches VecClusters for start marks and reads CRDs.
 */
import { Value } from '@sinclair/typebox/value'
import type { Connection } from '../../crds/contract/connection.ts'
import { EngineError, keyRejection, KubernetesError } from '../../crds/contract/errors.ts'
import { parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, readAnnotation, releaseName } from '../../crds/contract/names.ts'
import { AnyObject, ConfigMap, Pod, Secret } from '../../crds/kubernetes.ts'
import type { AccessKeyPorts } from '../../hooks/access-key/observe.ts'
import type { ClusterPorts, PodConsensus } from '../../hooks/cluster/ports.ts'
import type { ShardPorts } from '../../hooks/cluster/shards/summary.ts'
import type { ClusterStatus } from '../../jobs/clients/engine/responses.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { Log } from '../runtime.ts'
import type { MarkableCluster } from '../startup-upgrades.ts'
import {
  backupSchedules,
  configMaps,
  crds,
  inNamespaces,
  pods,
  secrets,
  clusters,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import { boundedPod } from './bounded-objects.ts'
import {
  LenientBackupSchedule,
  createOrReplace,
  commonPorts,
  hasStatus,
  leasePorts,
  listPicked,
} from './common.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { helmSlotPort } from './helm-slots.ts'
import { keyPorts } from './keys.ts'
import { missingObjectsPort } from './release-objects.ts'
import { ttlCache } from './ttl-cache.ts'

export interface ClusterDependencies {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  consensus: ClusterPorts['consensus']
  shards: ShardPorts
  conflictingWork: ClusterPorts['conflictingWork']
  nodeKeys: ClusterPorts['nodeKeys']
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  /** Keys that sign the Jobs of this installation (hooks/request.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  log: Log
}

const SECRET_TTL_SECONDS = 60
const LIVE_SECRET_TTL_SECONDS = 1
/** Maximum size of cached Secrets in bytes; all tenants share the cache. */
const SECRET_CACHE_BYTES = 8 * 1024 * 1024

export function clusterPorts(dependencies: ClusterDependencies): ClusterPorts {
  const { kubernetes } = dependencies
  const leases = leasePorts(kubernetes)
  return {
    ...commonPorts(dependencies),
    ...keyPorts(dependencies),
    nodeKeys: dependencies.nodeKeys,
    consensus: dependencies.consensus,
    ...dependencies.shards,
    conflictingWork: dependencies.conflictingWork,
    schedule: (namespace, name) =>
      kubernetes.get(backupSchedules(namespace), name, LenientBackupSchedule),
    pods: (namespace, release) => listPods(dependencies, namespace, release),
    ...leases,
    configMap: (namespace, name) => kubernetes.get(configMaps(namespace), name, ConfigMap),
    writeConfigMap: (configMap) =>
      createOrReplace(kubernetes, configMaps(configMap.metadata.namespace), configMap),
    unfinishedHelmJobs: helmSlotPort(dependencies),
    missingObjects: missingObjectsPort(kubernetes, dependencies.now),
  }
}

export function accessKeyPorts(
  dependencies: Omit<
    ClusterDependencies,
    'consensus' | 'shards' | 'conflictingWork' | 'nodeKeys' | 'jobKeys'
  >,
): AccessKeyPorts {
  return {
    secret: dependencies.secret,
    liveSecret: secretReader(dependencies.kubernetes),
    writeEvent: commonPorts(dependencies).writeEvent,
  }
}

/**
 * The pods only explain why a cluster is not ready. If they cannot be listed, continue without
 * them.
 */
async function listPods(
  { kubernetes, log }: ClusterDependencies,
  namespace: string,
  release: string,
) {
  const labelSelector = `app.kubernetes.io/instance=${release}`
  try {
    return await listPicked(kubernetes, pods(namespace), {
      labelSelector,
      schema: Pod,
      pick: boundedPod,
    })
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    log.warn({ err: error, namespace, release }, 'listing pods failed')
    return []
  }
}

/** Reads Secrets through one cache that all readers share. */
export function cachedSecretReader(
  kubernetes: Kubernetes,
  now: () => Date,
): ClusterPorts['secret'] {
  return ttlCache(secretContentReader(kubernetes), SECRET_TTL_SECONDS, now, SECRET_CACHE_CAPACITY)
}

/** Nearly live reads of Secrets; concurrent callers share one request. */
export function liveSecretReader(kubernetes: Kubernetes, now: () => Date): ClusterPorts['secret'] {
  return ttlCache(
    secretContentReader(kubernetes),
    LIVE_SECRET_TTL_SECONDS,
    now,
    SECRET_CACHE_CAPACITY,
  )
}

const SECRET_CACHE_CAPACITY = {
  max: SECRET_CACHE_BYTES,
  sizeOf: ({ data = {} }: Secret) =>
    Object.entries(data).reduce((sum, [key, value]) => sum + key.length + value.length, 0),
}

function secretReader(kubernetes: Kubernetes): ClusterPorts['secret'] {
  return (namespace, name) => kubernetes.get(secrets(namespace), name, Secret)
}

/** Reads only type and data of a Secret; other fields are not needed and may be long. */
function secretContentReader(kubernetes: Kubernetes): ClusterPorts['secret'] {
  const read = secretReader(kubernetes)
  return async (namespace, name) => {
    const found = await read(namespace, name)
    if (found === undefined) return undefined
    const { apiVersion, kind, type, data } = found
    return {
      ...{ apiVersion, kind, metadata: { namespace, name } },
      ...(type !== undefined && { type }),
      ...(data !== undefined && { data }),
    }
  }
}

/** VecClusters in the served namespaces. */
export async function listClusters(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<MarkableCluster[]> {
  const lists = inNamespaces(clusters, namespaces).map((resource) =>
    kubernetes.collect(resource, { skipsUnreadable: true }, (object: unknown) =>
      Value.Check(AnyObject, object) ? toMarkableCluster(object) : undefined,
    ),
  )
  return (await Promise.all(lists)).flat()
}

/** Picks the fields that decide whether a cluster gets a start mark. */
function toMarkableCluster({ metadata }: AnyObject): MarkableCluster {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, annotations } = metadata
  const mark = readAnnotation(annotations, ANNOTATIONS.restartedAt)
  const report = parseProgress(annotations?.[ANNOTATIONS.progress], uid ?? '')
  const appliedAt = report?.applied?.at
  return {
    ...(appliedAt !== undefined && { appliedAt }),
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(mark !== undefined && { annotations: { [ANNOTATIONS.restartedAt]: mark } }),
    },
  }
}

/**
 * Merge-patches a VecCluster. False if a retry cannot succeed: the cluster is gone, another
 * resource has its name (the API server rejects the uid as invalid), or the cluster itself is
 * invalid.
 */
export async function patchCluster(
  kubernetes: Kubernetes,
  { metadata }: MarkableCluster,
  patch: object,
): Promise<boolean> {
  try {
    await kubernetes.patch(clusters(metadata.namespace), metadata.name, patch)
    return true
  } catch (error) {
    if (hasStatus(error, 404, 409, 422)) return false
    throw error
  }
}

/** Reads a CustomResourceDefinition by name. */
export function readCrd(kubernetes: Kubernetes, name: string): Promise<AnyObject | undefined> {
  return kubernetes.get(crds(), name, AnyObject)
}

export function consensusPort(dependencies: EngineDependencies): ClusterPorts['consensus'] {
  return (connection, signal) => {
    const ordinals = Array.from({ length: connection.replicas }, (_, ordinal) => ordinal)
    return Promise.all(
      ordinals.map((ordinal) => readPodConsensus(dependencies, connection, ordinal, signal)),
    )
  }
}

async function readPodConsensus(
  dependencies: EngineDependencies,
  connection: Connection,
  ordinal: number,
  signal: AbortSignal,
): Promise<PodConsensus> {
  try {
    const clusterStatus = await engineClient(dependencies, connection, ordinal).cluster(signal)
    return { ordinal, ...toPodConsensus(clusterStatus, connection) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const rejection = keyRejection(error)
    return {
      ...{ ordinal, state: 'unknown', error: error.message },
      ...(rejection !== undefined && { rejection }),
    }
  }
}

/** State of consensus as one node reports it. A node that runs alone has no consensus to lose. */
export function toPodConsensus(
  clusterStatus: ClusterStatus,
  connection: Pick<Connection, 'name'>,
): Omit<PodConsensus, 'ordinal'> {
  if (clusterStatus.status === 'disabled') return { state: 'working' }
  const {
    consensus_thread_status: status,
    err,
    last_update: lastUpdate,
  } = clusterStatus.consensus_thread_status
  const peers = Object.entries(clusterStatus.peers).map(([id, { uri }]) => {
    const ordinal = ordinalFromUri(uri, connection)
    return { id: Number(id), ...(ordinal !== undefined && { ordinal }) }
  })
  if (status === 'working') {
    const hasLeader = (clusterStatus.raft_info.leader ?? 0) !== 0
    return {
      ...{ state: 'working', peerId: clusterStatus.peer_id, peers, hasLeader },
      ...(lastUpdate !== undefined && { lastUpdate }),
    }
  }
  if (!status.startsWith('stopped'))
    return { state: 'unknown', error: `its consensus thread is ${status}` }
  const { peer_id: peerId } = clusterStatus
  return { state: 'stopped', peerId, peers, ...(err !== undefined && { error: err }) }
}

/**
 * Ordinal of the pod in a peer URI, in any of its forms, for example
 * `http://vec-a-0.vec-a-headless:6335/`.
 */
function ordinalFromUri(uri: string, { name }: Pick<Connection, 'name'>): number | undefined {
  if (!URL.canParse(uri)) return undefined
  const [host = ''] = new URL(uri).hostname.split('.')
  const release = `${releaseName(name)}-`
  const ordinal = host.slice(release.length)
  return host.startsWith(release) && /^[0-9]{1,9}$/.test(ordinal) ? Number(ordinal) : undefined
}
