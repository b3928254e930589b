/**
 * What the rooms read and write outside of Metacontroller's requests, by the real clients of
 * jobs/clients. Reads that many resources repeat are answered from a short memory.
 */
import { Value } from '@sinclair/typebox/value'
import type { Connection } from '../../crds/contract/connection.ts'
import { EngineError, KubernetesError } from '../../crds/contract/errors.ts'
import { parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, LABELS, releaseName } from '../../crds/contract/names.ts'
import { AnyObject, Pod, Secret, type Job } from '../../crds/kubernetes.ts'
import type { AccessKeyPorts } from '../../hooks/access-key/observe.ts'
import type { ClusterPorts, PodConsensus } from '../../hooks/cluster/observed.ts'
import { secondsSince } from '../../hooks/conditions.ts'
import { isSigned } from '../../hooks/job-signature.ts'
import type { ClusterStatus } from '../../jobs/clients/engine/responses.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { Log, MarkableCluster } from '../startup-upgrades.ts'
import { clusters, crds, inNamespaces, jobs, pods, secrets } from './api-resources.ts'
import { commonPorts, hasStatus, leasePorts, listActiveJobs } from './common.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { ttlCache } from './ttl-cache.ts'

export interface ClusterDependencies {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  consensus: ClusterPorts['consensus']
  /** Those the service may read; empty means all. */
  namespaces: string[]
  /** Keys that sign our Jobs (hooks/job-signature.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  log: Log
}

const SECRET_TTL_SECONDS = 60
const LIVE_SECRET_TTL_SECONDS = 1
const HELM_JOBS_TTL_SECONDS = 5
/** A pod that does not run by then is not about to. */
const START_TIMEOUT_SECONDS = 120
/** Of remembered Secrets, in bytes: those of all tenants are in one memory. */
const SECRET_CACHE_BYTES = 8 * 1024 * 1024

export function clusterPorts(dependencies: ClusterDependencies): ClusterPorts {
  const { kubernetes, namespaces, now } = dependencies
  const leases = leasePorts(kubernetes)
  const countHelmSlots = async () => {
    const helmJobs = await listActiveJobs(kubernetes, inNamespaces(jobs, namespaces), {
      [LABELS.component]: 'helm',
    })
    return usedSlots(
      helmJobs.filter((job) => isSigned(job, dependencies.jobKeys())),
      now(),
    )
  }
  const cachedHelmSlots = ttlCache(countHelmSlots, HELM_JOBS_TTL_SECONDS, now)
  return {
    ...commonPorts(dependencies),
    secret: dependencies.secret,
    consensus: dependencies.consensus,
    pods: (namespace, release) => listPods(dependencies, namespace, release),
    ...leases,
    unfinishedHelmJobs: async () => (await cachedHelmSlots()) ?? 0,
  }
}

/**
 * Others may label Jobs as ours, create one again that had our signature, or suspend ours: a VecCluster takes one
 * slot of the installation at most, and none with a Job that has no pods and gets none, or whose pods cannot start.
 */
function usedSlots(signedJobs: Job[], now: Date): number {
  const activeJobs = signedJobs.filter(
    (job) =>
      !cannotStart(job, now) && (job.spec?.suspend !== true || (job.status?.active ?? 0) > 0),
  )
  return new Set(activeJobs.map(({ metadata }) => metadata.labels?.[LABELS.parent])).size
}

/** An image, a quota or full nodes keep its pods from starting: others need not wait until that is fixed. */
function cannotStart({ metadata, status }: Job, now: Date): boolean {
  const seconds = secondsSince(metadata.creationTimestamp ?? '', now)
  return (status?.ready ?? 0) === 0 && seconds >= START_TIMEOUT_SECONDS
}

export function accessKeyPorts(
  dependencies: Omit<ClusterDependencies, 'consensus' | 'jobKeys'>,
): AccessKeyPorts {
  return {
    secret: dependencies.secret,
    liveSecret: secretReader(dependencies.kubernetes),
    writeEvent: commonPorts(dependencies).writeEvent,
  }
}

/** Why a pod is not ready is a help, not a need: where pods cannot be listed there are none. */
async function listPods(
  { kubernetes, log }: ClusterDependencies,
  namespace: string,
  release: string,
) {
  const labelSelector = `app.kubernetes.io/instance=${release}`
  try {
    return await kubernetes.list(pods(namespace), Pod, { labelSelector })
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    log.warn({ err: error, namespace, release }, 'pods cannot be listed')
    return []
  }
}

/** One memory of Secrets for everything that reads them. */
export function cachedSecretReader(
  kubernetes: Kubernetes,
  now: () => Date,
): ClusterPorts['secret'] {
  return ttlCache(secretContentReader(kubernetes), SECRET_TTL_SECONDS, now, SECRET_CACHE_CAPACITY)
}

/** For who must know how things are now; many who ask at once share an answer. */
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
  sizeOf: (secret: Secret) => JSON.stringify(secret).length,
}

function secretReader(kubernetes: Kubernetes): ClusterPorts['secret'] {
  return (namespace, name) => kubernetes.get(secrets(namespace), name, Secret)
}

/** Type and content; what else is written on a Secret is of no use and may be long. */
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

/** VecClusters of the namespaces served. */
export async function listClusters(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<MarkableCluster[]> {
  const lists = inNamespaces(clusters, namespaces).map((resource) =>
    kubernetes.collect(resource, {}, (object: unknown) =>
      Value.Check(AnyObject, object) ? toMarkableCluster(object) : undefined,
    ),
  )
  return (await Promise.all(lists)).flat()
}

/** What a start mark depends on. */
function toMarkableCluster({ metadata }: AnyObject): MarkableCluster {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, annotations } = metadata
  const mark = annotations?.[ANNOTATIONS.startMark]
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
      ...(mark !== undefined && { annotations: { [ANNOTATIONS.startMark]: mark } }),
    },
  }
}

/**
 * Merge-patches a VecCluster; false when that cannot be done to it, whenever it is tried: it is gone,
 * its name is another resource's by now (the API finds another uid invalid), or it is not valid itself.
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

/** A definition by its name; it has no namespace. */
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
    return { ordinal, state: 'unknown' }
  }
}

/** What the view of one node says of its consensus thread. A node that runs alone has none to lose. */
export function toPodConsensus(
  clusterStatus: ClusterStatus,
  connection: Pick<Connection, 'name'>,
): Omit<PodConsensus, 'ordinal'> {
  if (clusterStatus.status === 'disabled') return { state: 'working' }
  const { consensus_thread_status: status, err } = clusterStatus.consensus_thread_status
  if (status === 'working') {
    const peers = Object.entries(clusterStatus.peers).map(([id, { uri }]) => {
      const ordinal = ordinalFromUri(uri, connection)
      return { id: Number(id), ...(ordinal !== undefined && { ordinal }) }
    })
    const hasLeader = (clusterStatus.raft_info.leader ?? 0) !== 0
    return { state: 'working', peerId: clusterStatus.peer_id, peers, hasLeader }
  }
  if (!status.startsWith('stopped')) return { state: 'unknown' }
  return { state: 'stopped', ...(err !== undefined && { error: err }) }
}

/** Ordinal of the pod that a peer's address names, in whatever form: `vec-a-0.vec-a-headless:6335`. */
function ordinalFromUri(uri: string, { name }: Pick<Connection, 'name'>): number | undefined {
  if (!URL.canParse(uri)) return undefined
  const [host = ''] = new URL(uri).hostname.split('.')
  const release = `${releaseName(name)}-`
  const ordinal = host.slice(release.length)
  return host.startsWith(release) && /^[0-9]{1,9}$/.test(ordinal) ? Number(ordinal) : undefined
}
