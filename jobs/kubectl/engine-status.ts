/** The live state of a cluster's engine: its nodes, and the placement of the shard replicas. */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { EngineError, KubernetesError } from '../../crds/contract/errors.ts'
import { releaseName } from '../../crds/contract/names.ts'
import { Pod, isReady } from '../../crds/kubernetes.ts'
import type { Engine } from '../clients/engine/client.ts'
import type { CollectionClusterInfo } from '../clients/engine/responses.ts'
import { pods } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import { engineClients, type Invocation } from './command.ts'
import { describeDifferences, mergeShards, type ShardReplicas } from './replica-states.ts'

export interface NodeStatus {
  pod: string
  ready: boolean
  version?: string
  /** Topology zone of its Kubernetes node, as last recorded. */
  zone?: string
  /** Replicas of shards on it; absent if shards are omitted. */
  replicas?: number
  peer?: number
  isLeader?: boolean
  consensus?: string
  /** Why the node did not respond. */
  error?: string
}

export interface EngineStatus {
  nodes: NodeStatus[]
  shards: ShardReplicas[]
  /** Omissions, with their reasons, and replicas on whose state the nodes do not agree. */
  notes: string[]
}

/** Short, because a user waits: a pod that does not respond is shown as unreachable. */
const CALL_TIMEOUT_MS = 5_000
const MAX_LISTED_COLLECTIONS = 20

export interface EngineQuery {
  cluster: VecCluster
  /** Only this collection's shards. */
  collection?: string | undefined
}

export async function readEngineStatus(
  kubernetes: Kubernetes,
  { cluster, collection }: EngineQuery,
  call: Pick<Invocation, 'log' | 'signal'>,
): Promise<EngineStatus> {
  const engineFor = engineClients(kubernetes, clusterConnection(cluster), call)
  const pods = await listPods(kubernetes, cluster)
  const views = await Promise.all(
    pods.map(async (pod) => {
      const engine = engineFor(pod.ordinal)
      const status = await readNodeStatus(pod, engine, call.signal)
      const node = { ...status, ...zoneOf(cluster, pod.ordinal) }
      if (node.error !== undefined) return { node, shards: { error: node.error } }
      return { node, shards: await readShards(engine, collection, call.signal) }
    }),
  )
  const nodes = views.map(({ node }) => node)
  const { omitted, ...listed } = mergeViews(views)
  // A part of the shards, or those of one collection, would look like all that a node has.
  const isComplete = collection === undefined && omitted === 0
  return { nodes: isComplete ? withReplicas(nodes, listed.shards) : nodes, ...listed }
}

function zoneOf({ status }: VecCluster, ordinal: number | undefined): { zone?: string } {
  const zone = status?.nodes?.find((node) => node.ordinal === ordinal)?.zone
  return zone === undefined ? {} : { zone }
}

function withReplicas(nodes: NodeStatus[], shards: ShardReplicas[]): NodeStatus[] {
  return nodes.map((node) => {
    const { peer } = node
    if (peer === undefined) return node
    const replicas = shards.filter(({ copies }) => copies[peer] !== undefined).length
    return { ...node, replicas }
  })
}

interface PodStatus {
  name: string
  ordinal: number
  ready: boolean
}

async function listPods(kubernetes: Kubernetes, { metadata }: VecCluster): Promise<PodStatus[]> {
  const { namespace, name } = metadata
  const release = releaseName(name)
  const found = await kubernetes.list(pods(namespace), Pod, {
    labelSelector: `app.kubernetes.io/instance=${release}`,
  })
  return found
    .flatMap((pod) => {
      const { name } = pod.metadata
      const ordinal = new RegExp(`^${release}-(\\d+)$`).exec(name)?.[1]
      return ordinal === undefined ? [] : [{ name, ordinal: Number(ordinal), ready: isReady(pod) }]
    })
    .toSorted((entry, other) => entry.ordinal - other.ordinal)
}

async function readNodeStatus(
  pod: PodStatus,
  engine: Engine,
  signal: AbortSignal,
): Promise<NodeStatus> {
  const { name, ready } = pod
  try {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)])
    const [version, clusterView] = await Promise.all([
      engine.version(deadline),
      engine.cluster(deadline),
    ])
    if (clusterView.status === 'disabled') return { pod: name, ready, version }
    return {
      pod: name,
      ready,
      version,
      peer: clusterView.peer_id,
      isLeader: clusterView.raft_info.leader === clusterView.peer_id,
      consensus: clusterView.consensus_thread_status.consensus_thread_status,
    }
  } catch (error) {
    signal.throwIfAborted()
    return { pod: name, ready, error: unreachableReason(error) }
  }
}

interface ListedShards {
  /** Names of all collections. */
  collections: string[]
  /** Of the first collections. */
  shards: ShardReplicas[]
}

/** What one node reports. */
interface ReportedNode {
  node: NodeStatus
  shards: ListedShards | { error: string }
}

async function readShards(
  engine: Engine,
  collection: string | undefined,
  signal: AbortSignal,
): Promise<ReportedNode['shards']> {
  try {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(4 * CALL_TIMEOUT_MS)])
    const collections = collection === undefined ? await engine.collections(deadline) : [collection]
    const shards: ShardReplicas[] = []
    for (const name of firstNames(collections)) {
      shards.push(...shardReplicas(name, await engine.collectionCluster(name, deadline)))
    }
    return { collections, shards }
  } catch (error) {
    signal.throwIfAborted()
    return { error: unreachableReason(error) }
  }
}

function firstNames(collections: string[]): string[] {
  return collections.toSorted().slice(0, MAX_LISTED_COLLECTIONS)
}

function mergeViews(
  views: ReportedNode[],
): Pick<EngineStatus, 'shards' | 'notes'> & { omitted: number | undefined } {
  const answers = views.flatMap(({ node, shards }) =>
    'error' in shards ? [] : [{ pod: node.pod, ...shards }],
  )
  const names = [...new Set(answers.flatMap(({ collections }) => collections))]
  const listed = firstNames(names)
  const shards = listed.flatMap((name) => mergeShards(name, answers))
  const omitted = names.length - listed.length
  const notes = [
    ...(omitted > 0 ? [`${omitted} more collections are omitted`] : []),
    ...describeDifferences(shards, podByPeer(views)),
    ...views.flatMap(({ node, shards }) =>
      // The errors of the nodes are enough where none of them answers.
      'error' in shards && (answers.length > 0 || node.error === undefined)
        ? [`${node.pod} does not report replica states: ${shards.error}`]
        : [],
    ),
  ]
  return { shards, notes, omitted: answers.length === 0 ? undefined : omitted }
}

function podByPeer(views: ReportedNode[]): Map<string, string> {
  return new Map(
    views.flatMap(({ node: { pod, peer } }) => (peer === undefined ? [] : [[String(peer), pod]])),
  )
}

/** One node knows its own replicas and those of the other nodes. */
function shardReplicas(collection: string, placement: CollectionClusterInfo): ShardReplicas[] {
  const { local_shards, remote_shards, peer_id } = placement
  const shards = new Map<number, ShardReplicas>()
  const copies = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
  for (const { shard_id: shard, shard_key: key, state, peer_id: peer } of copies) {
    const entry = shards.get(shard) ?? {
      collection,
      shard,
      ...(key !== undefined && { key }),
      copies: {},
    }
    entry.copies[peer] = state
    shards.set(shard, entry)
  }
  return [...shards.values()].toSorted((left, right) => left.shard - right.shard)
}

function unreachableReason(error: unknown): string {
  if (error instanceof EngineError || error instanceof KubernetesError) return error.message
  if (error instanceof DOMException) return `no answer in ${CALL_TIMEOUT_MS / 1000} s`
  throw error
}
