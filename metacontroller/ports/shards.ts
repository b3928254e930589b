/**
 * Implements the shard ports of VecCluster: what the nodes report, what Kubernetes knows about their
 * volumes and nodes, and the planner's answer to each target.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { VecBackup } from '../../crds/backup.ts'
import { VecCollection } from '../../crds/collection.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { claimName, LABELS, releaseName, REVISION_LABEL } from '../../crds/contract/names.ts'
import { AnyObject, Pod, mayBeUpdating } from '../../crds/kubernetes.ts'
import { parseQuantity } from '../../crds/units.ts'
import type {
  NodeFacts,
  PlanOutcome,
  ShardFacts,
  ShardPorts,
  ShardsQuery,
  ShardsSummary,
  ShardsTarget,
} from '../../hooks/cluster/shards/summary.ts'
import { zonesOf } from '../../hooks/cluster/shards/job.ts'
import {
  clusterNameOf,
  collectionNameOf,
  findOwner,
  toClaim,
} from '../../hooks/collection/ownership.ts'
import { lenientSchema } from '../../hooks/protocol.ts'
import {
  newObservationMemory,
  observeShards,
  type ObservationMemory,
} from '../../jobs/cluster/shards/observe.ts'
import { planShards } from '../../jobs/cluster/shards/plan.ts'
import { withUpdate } from '../../jobs/cluster/shards/rollout.ts'
import { closedGate } from '../../jobs/cluster/shards/update.ts'
import {
  activeHolders,
  describeShard,
  requiredReplicas,
  shardsOf,
} from '../../jobs/cluster/shards/queries.ts'
import { reshardingOwner } from '../../jobs/cluster/shards/resharding-steps.ts'
import type { ClusterView, DesiredShards } from '../../jobs/cluster/shards/view.ts'
import type { CollectionFacts } from '../../jobs/clients/engine/shards.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { mapConcurrently } from '../../jobs/retry.ts'
import {
  kubernetesNodes,
  persistentVolumeClaims,
  pods,
  backups,
  collections,
  inNamespaces,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import { hasStatus, listOrEmpty } from './common.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { ttlCache } from './ttl-cache.ts'

export interface ShardDependencies extends EngineDependencies {
  /** Namespaces that the service may read; an empty list means all. */
  namespaces?: string[]
  now: () => Date
}

const ZONE_LABEL = 'topology.kubernetes.io/zone'
const NODE_TTL_SECONDS = 300
/** Clusters whose last observation is remembered; beyond it the oldest is forgotten. */
const MAX_REMEMBERED = 1000
const MAX_BACKUPS = 3
/** Calls to the API server at the same time. */
const CONCURRENCY = 10
/** Compiled because a list may contain thousands of collections and is read repeatedly. */
const isCollection = TypeCompiler.Compile(VecCollection.schema)

export function shardPorts(dependencies: ShardDependencies): ShardPorts {
  const { kubernetes, now } = dependencies
  const memories = new Map<string, ObservationMemory>()
  const readNode = ttlCache(
    (name: string) => readKubernetesNode(kubernetes, name),
    NODE_TTL_SECONDS,
    now,
  )
  return {
    async shards(query, signal) {
      const nodes = await readNodes(query, kubernetes, readNode)
      const memory = memoryOf(memories, query.connection)
      const observed = await observe(dependencies, { query, nodes, memory }, signal)
      const view = await withPods(observed, query, kubernetes)
      const shardNumbers = await readShardNumbers(dependencies, query)
      const facts = { nodes: withData(nodes, view, memory), ...shardNumbers }
      const summary = summaryOf(query, facts, view, now())
      const needsBackup = summary.onlyOn.length > 0 || summary.plans.repair.is === 'refused'
      return needsBackup
        ? { ...summary, backups: await completedBackups(kubernetes, query.connection) }
        : summary
    },
    retainedVolumes: (namespace, names) => retainedVolumes(kubernetes, namespace, names),
  }
}

interface Observation {
  query: ShardsQuery
  nodes: NodeFacts[]
  memory: ObservationMemory
}

function memoryOf(
  memories: Map<string, ObservationMemory>,
  { namespace, name }: Connection,
): ObservationMemory {
  const key = `${namespace}/${name}`
  const memory = memories.get(key) ?? newObservationMemory()
  memories.delete(key)
  memories.set(key, memory)
  const [oldest] = memories.keys()
  if (memories.size > MAX_REMEMBERED && oldest !== undefined) memories.delete(oldest)
  return memory
}

/** The nodes with the size of their data. A node that does not answer now reports nothing. */
export function withData(
  nodes: NodeFacts[],
  { peers }: Pick<ClusterView, 'peers'>,
  { facts }: Pick<ObservationMemory, 'facts'>,
): NodeFacts[] {
  return nodes.map((node) => {
    const isMember = peers.some((peer) => peer.isMember && peer.ordinal === node.ordinal)
    const collections = isMember ? facts.get(node.ordinal) : undefined
    const dataBytes = collections && sumOfBytes([...collections.values()])
    return { ...node, ...(dataBytes !== undefined && { dataBytes }) }
  })
}

/** The write-ahead log of a replica: two segments of 32 MiB, less for a replica with little data. */
const WAL_BYTES = 64 * 2 ** 20

/** Undefined if the size of a replica is not known. */
function sumOfBytes(collections: CollectionFacts[]): number | undefined {
  if (collections.some(({ isIncomplete }) => isIncomplete === true)) return undefined
  return collections
    .flatMap(({ bytes }) => [...bytes.values()])
    .reduce((sum, bytes) => sum + bytes + Math.min(bytes, WAL_BYTES), 0)
}

async function observe(
  dependencies: ShardDependencies,
  { query, nodes, memory }: Observation,
  signal: AbortSignal,
): Promise<ClusterView> {
  const { connection, volumeBytes, statefulSet } = query
  const options = {
    nodes: connection.replicas,
    zones: zonesOf(nodes),
    volumeBytes,
    memory,
    comparesCounts: statefulSet !== undefined && mayBeUpdating(statefulSet),
  }
  const engineForPod = (ordinal: number) => engineClient(dependencies, connection, ordinal)
  return observeShards(options, engineForPod, signal)
}

/** With the update of the pods, read once the nodes have answered. */
async function withPods(
  view: ClusterView,
  { statefulSet, connection }: ShardsQuery,
  kubernetes: Kubernetes,
): Promise<ClusterView> {
  if (statefulSet === undefined) return view
  const livePods = await readPods(kubernetes, connection)
  const release = releaseName(connection.name)
  return withUpdate(view, statefulSet, (ordinal) => livePods.get(`${release}-${ordinal}`))
}

/** The pods of the release by name. */
async function readPods(
  kubernetes: Kubernetes,
  { namespace, name }: Connection,
): Promise<Map<string, Pod>> {
  const labelSelector = `app.kubernetes.io/instance=${releaseName(name)}`
  const found = await kubernetes.list(pods(namespace), Pod, { labelSelector })
  return new Map(found.map((pod) => [pod.metadata.name, pod]))
}

/** What decisions need of a view, with a plan for each target. */
export function summaryOf(
  query: Pick<ShardsQuery, 'moves' | 'targets' | 'uid' | 'resharding'>,
  { nodes, shardNumbers }: Pick<ShardFacts, 'nodes' | 'shardNumbers'>,
  view: ClusterView,
  now: Date,
): ShardsSummary {
  const peers = view.peers.map(({ id, ordinal, isMember }) => ({
    ...{ id, isMember },
    ...(ordinal !== undefined && { ordinal }),
  }))
  const numbers = shardNumbers !== undefined && { shardNumbers }
  const targets = query.targets({ nodes, peers, ...numbers })
  const plan = (target: ShardsTarget) => outcomeOf(view, target, query)
  const gate = targets.update && closedGate(view, desiredOf(targets.update, query))
  return {
    at: now.toISOString(),
    ...{ nodes, peers, targets, ...numbers },
    collections: view.collections.length,
    ...countReplicas(view),
    ...(view.broken !== undefined && { obstruction: view.broken }),
    plans: {
      repair: plan(targets.repair),
      ...(targets.drain && { drain: plan(targets.drain) }),
      ...(targets.update && { update: plan(targets.update) }),
      ...(targets.reshard && { reshard: plan(targets.reshard) }),
      ...(targets.balance && { balance: plan(targets.balance) }),
    },
    ...(gate !== undefined && { closedGate: gate }),
    onlyOn: shardsWithoutSource(view),
    backups: [],
  }
}

function outcomeOf(
  view: ClusterView,
  target: ShardsTarget,
  query: Pick<ShardsQuery, 'moves' | 'uid' | 'resharding'>,
): PlanOutcome {
  const plan = planShards(view, desiredOf(target, query))
  return plan.is === 'step' ? { is: 'step', purpose: plan.purpose } : plan
}

/** One that is in progress is always completed, or aborted. */
function desiredOf(
  { resharding, ...target }: ShardsTarget,
  { moves, uid, resharding: current }: Pick<ShardsQuery, 'moves' | 'uid' | 'resharding'>,
): DesiredShards {
  const { numbers = [], mayStart = false } = resharding ?? {}
  const owner = reshardingOwner(uid)
  return {
    ...target,
    moves,
    resharding: { owner, numbers, mayStart, ...(current !== undefined && { current }) },
  }
}

/** By the VecCollections that manage them. Under custom sharding each shard key has shards of its own. */
async function readShardNumbers(
  { kubernetes, namespaces = [] }: ShardDependencies,
  { connection, mayReshard }: ShardsQuery,
): Promise<Pick<ShardFacts, 'shardNumbers'>> {
  if (mayReshard === undefined) return {}
  const lists = inNamespaces(collections, namespaces).map((resource) =>
    kubernetes.collect(resource, {}, (object: unknown) =>
      isCollection.Check(object) ? object : undefined,
    ),
  )
  const all = (await Promise.all(lists)).flat().filter((collection) => {
    const cluster = clusterNameOf(collection)
    const isOfCluster =
      cluster.namespace === connection.namespace && cluster.name === connection.name
    return isOfCluster && mayReshard(collection.metadata.namespace)
  })
  const claims = all.map(toClaim)
  const shardNumbers = all.flatMap((collection) => {
    const { shardNumber, shardingMethod } = collection.spec
    const { namespace, name } = collection.metadata
    if (shardNumber === undefined || shardingMethod === 'custom') return []
    // Two resources that name one collection: the older one manages it.
    if (findOwner(collection, claims) !== undefined) return []
    const source = { namespace, name }
    return [{ collection: collectionNameOf(collection), shards: shardNumber, source }]
  })
  return {
    shardNumbers: shardNumbers.toSorted((a, b) => (a.collection < b.collection ? -1 : 1)),
  }
}

function countReplicas(view: ClusterView): Pick<ShardsSummary, 'replicas' | 'activeReplicas'> {
  let replicas = 0
  let activeReplicas = 0
  for (const shard of shardsOf(view)) {
    const required = requiredReplicas(view, shard, view.nodes)
    replicas += required
    activeReplicas += Math.min(required, activeHolders(view, shard).length)
  }
  return { replicas, activeReplicas }
}

/** By silent peer: the shards of which no node that answers has an Active replica. */
function shardsWithoutSource(view: ClusterView): ShardsSummary['onlyOn'] {
  const found = new Map<number, string[]>()
  for (const shard of shardsOf(view)) {
    if (activeHolders(view, shard).length > 0) continue
    for (const { peer } of shard.replicas) {
      if (view.peers.some(({ id, isMember }) => id === peer && isMember)) continue
      found.set(peer, [...(found.get(peer) ?? []), describeShard(shard)])
    }
  }
  return [...found].map(([peer, shards]) => ({ peer, shards }))
}

type NodeReader = (name: string) => Promise<KubernetesNode | undefined>

/** What is known about a Kubernetes node: nothing if the service may not read nodes. */
interface KubernetesNode {
  isGone: boolean
  zone?: string
}

/** The volume of each pod, and the Kubernetes node on which it runs or ran last. */
async function readNodes(
  { connection, claimTemplate, recorded }: ShardsQuery,
  kubernetes: Kubernetes,
  readNode: NodeReader,
): Promise<NodeFacts[]> {
  const { namespace, name, replicas } = connection
  const release = releaseName(name)
  const livePods = await readPods(kubernetes, connection)
  const ordinals = Array.from({ length: replicas }, (_, ordinal) => ordinal)
  return mapConcurrently(ordinals, CONCURRENCY, async (ordinal) => {
    const pod = livePods.get(`${release}-${ordinal}`)
    const revision = pod?.metadata.labels?.[REVISION_LABEL]
    const claim = claimName(claimTemplate, release, ordinal)
    const last = recorded.find((entry) => entry.ordinal === ordinal)?.node
    const node = pod?.spec?.nodeName ?? last
    const [volume, found] = await Promise.all([
      readVolume(kubernetes, namespace, claim),
      node === undefined ? undefined : readNode(node),
    ])
    const zone = found?.zone
    return {
      ...{ ordinal, ...volume },
      ...(node !== undefined && { node }),
      ...(zone !== undefined && { zone }),
      ...(revision !== undefined && { revision }),
      ...(found?.isGone === true && { isNodeGone: true as const }),
      ...(isUnschedulable(pod) && { isUnschedulable: true as const }),
    }
  })
}

function isUnschedulable(pod: Pod | undefined): boolean {
  const scheduled = pod?.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  return scheduled?.status === 'False' && scheduled.reason === 'Unschedulable'
}

async function readVolume(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<Pick<NodeFacts, 'volume' | 'isVolumeMissing' | 'volumeBytes'>> {
  const claim = await kubernetes.get(persistentVolumeClaims(namespace), name, Claim)
  if (claim === undefined) return { isVolumeMissing: true }
  const { uid } = claim.metadata
  const bytes = Math.floor(parseQuantity(claim.status?.capacity?.storage ?? ''))
  return {
    ...(uid !== undefined && { volume: uid }),
    ...(Number.isSafeInteger(bytes) && { volumeBytes: bytes }),
  }
}

const Claim = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(
    Type.Object({
      capacity: Type.Optional(Type.Object({ storage: Type.Optional(Type.String()) })),
    }),
  ),
})

/** Undefined without the right to read nodes, which a namespaced installation does not have. */
async function readKubernetesNode(
  kubernetes: Kubernetes,
  name: string,
): Promise<KubernetesNode | undefined> {
  try {
    const node = await kubernetes.get(kubernetesNodes(), name, AnyObject)
    const zone = node?.metadata.labels?.[ZONE_LABEL]
    return { isGone: node === undefined, ...(zone !== undefined && { zone }) }
  } catch (error) {
    if (hasStatus(error, 403)) return undefined
    throw error
  }
}

async function retainedVolumes(
  kubernetes: Kubernetes,
  namespace: string,
  names: string[],
): Promise<string[]> {
  const found = await mapConcurrently(names, CONCURRENCY, (name) =>
    kubernetes.get(persistentVolumeClaims(namespace), name, AnyObject),
  )
  return found.flatMap((claim) =>
    claim?.metadata.labels?.[LABELS.removedPeer] === undefined ? [] : [claim.metadata.name],
  )
}

const LenientBackup = lenientSchema(VecBackup.schema) as typeof VecBackup.schema

/** The newest Completed backups of a cluster in its namespace; none if they cannot be listed. */
async function completedBackups(
  kubernetes: Kubernetes,
  { namespace, name }: Connection,
): Promise<string[]> {
  try {
    const all = await listOrEmpty(kubernetes, [backups(namespace)], LenientBackup)
    return all
      .filter(({ spec, status }) => {
        const { clusterRef } = spec
        const target = clusterRef.namespace ?? namespace
        return clusterRef.name === name && target === namespace && status?.phase === 'Completed'
      })
      .toSorted((a, b) => (completionOf(a) < completionOf(b) ? 1 : -1))
      .slice(0, MAX_BACKUPS)
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    return []
  }
}

function completionOf({ status }: VecBackup): string {
  return status?.completionTime ?? ''
}
