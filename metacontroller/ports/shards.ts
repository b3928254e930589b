/**
 * Implements the shard ports of VecCluster: what the nodes report, and the shard numbers that
 * VecCollections ask for.
 */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { VecBackup } from '../../crds/backup.ts'
import { VecCollection } from '../../crds/collection.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { releaseName } from '../../crds/contract/names.ts'
import { mayBeUpdating } from '../../crds/kubernetes.ts'
import {
  isOfCluster,
  shardNumbersOf,
  toShardClaim,
  type ShardNumber,
} from '../../crds/collection-ownership.ts'
import type { NodeFacts, ShardPorts, ShardsQuery } from '../../hooks/cluster/shards/summary.ts'
import { zonesOf } from '../../hooks/cluster/shards/job.ts'
import { lenientSchema } from '../../hooks/protocol.ts'
import { MAX_GAP_MS } from '../../jobs/cluster/shards/defects.ts'
import {
  newObservationMemory,
  observeShards,
  type ObservationMemory,
} from '../../jobs/cluster/shards/observe.ts'
import { withUpdate } from '../../jobs/cluster/shards/stateful-set.ts'
import type { ClusterView } from '../../jobs/cluster/shards/view.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { backups, collections, inNamespaces } from '../../jobs/clients/kubernetes/api-resources.ts'
import { readClaim } from './collection.ts'
import { listReadable } from './common.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { ttlCache } from './ttl-cache.ts'
import {
  readKubernetesNode,
  NODE_TTL_SECONDS,
  readNodes,
  withData,
  retainedVolumes,
  readPods,
} from './nodes.ts'
import { summaryOf } from './shards-summary.ts'

export interface ShardDependencies extends EngineDependencies {
  /** Namespaces that the service may read; an empty list means all. */
  namespaces?: string[]
  now: () => Date
}

/** Clusters whose last observation is remembered; beyond it the oldest is forgotten. */
const MAX_REMEMBERED = 1000

const MAX_BACKUPS = 3

/** Compiled because a list may contain thousands of collections and is read repeatedly. */
const isCollection = TypeCompiler.Compile(VecCollection.schema)

export function shardPorts(dependencies: ShardDependencies): ShardPorts {
  const { kubernetes, now } = dependencies
  const memories = new Map<string, ObservationMemory>()
  const periods = new WeakMap<ObservationMemory, Period>()
  const absences = new WeakMap<ObservationMemory, Map<number, Period>>()
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
      const desired = await readShardNumbers(dependencies, query)
      const at = now()
      memory.defects.observe(view, at.getTime())
      const known = absences.get(memory) ?? new Map<number, Period>()
      absences.set(memory, known)
      const facts = {
        nodes: withData(withGoneSeconds(nodes, known, at), view, memory),
        defects: memory.defects,
        ...(desired !== undefined && { shardNumbers: dueNumbers(desired, view) }),
      }
      const since = unsettledSince(view, periods, { memory, at })
      const summary = {
        ...summaryOf(query, facts, view, at),
        ...(since !== undefined && { unsettledSince: since.toISOString() }),
      }
      const needsBackup = summary.onlyOn.length > 0 || summary.plans.repair.is === 'refused'
      return needsBackup
        ? { ...summary, backups: await completedBackups(kubernetes, query.connection) }
        : summary
    },
    retainedVolumes: (namespace, names) => retainedVolumes(kubernetes, namespace, names),
  }
}

/** Observations in which the nodes of a cluster did not agree, or a Kubernetes node was missing. */
export interface Period {
  first: Date
  last: Date
}

/** Since when the nodes have not agreed; undefined if they agree now. */
export function unsettledSince(
  { unsettled }: Pick<ClusterView, 'unsettled'>,
  periods: WeakMap<ObservationMemory, Period>,
  { memory, at }: { memory: ObservationMemory; at: Date },
): Date | undefined {
  const previous = periods.get(memory)
  periods.delete(memory)
  if (unsettled === undefined) return undefined
  const period = continued(previous, at)
  periods.set(memory, period)
  return period.first
}

/** For how long Kubernetes nodes have been missing while the pods that ran there cannot be scheduled. */
export function withGoneSeconds(
  nodes: readonly NodeFacts[],
  periods: Map<number, Period>,
  at: Date,
): NodeFacts[] {
  return nodes.map((node) => {
    const { ordinal, isNodeGone, isUnschedulable } = node
    const previous = periods.get(ordinal)
    periods.delete(ordinal)
    if (isNodeGone !== true || isUnschedulable !== true) return node
    const period = continued(previous, at)
    periods.set(ordinal, period)
    const goneSeconds = Math.floor((at.getTime() - period.first.getTime()) / 1000)
    return { ...node, goneSeconds }
  })
}

function continued(previous: Period | undefined, at: Date): Period {
  const isContinued = previous !== undefined && at.getTime() - previous.last.getTime() < MAX_GAP_MS
  return { first: isContinued ? previous.first : at, last: at }
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

async function observe(
  dependencies: ShardDependencies,
  { query, nodes, memory }: Observation,
  signal: AbortSignal,
): Promise<ClusterView> {
  const { connection, volumeBytes, statefulSet } = query
  const options = {
    nodes: connection.replicas,
    name: connection.name,
    zones: zonesOf(nodes),
    volumeBytes,
    watchesVolumes: true,
    memory,
    // A jump of this clock only starts a Job, which looks for itself.
    nowMs: dependencies.now().getTime(),
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

/**
 * By the VecCollections that manage them. Several clusters may be asked at once, so that nothing else of the
 * VecCollections of all namespaces stays in memory. Undefined without permission to reshard, and while a
 * namespace cannot be read: an older VecCollection there may own a collection.
 */
export async function readShardNumbers(
  {
    kubernetes,
    namespaces = [],
  }: Pick<ShardDependencies, 'namespaces'> & { kubernetes: Pick<Kubernetes, 'collect'> },
  {
    connection,
    mayReshard,
  }: Pick<ShardsQuery, 'mayReshard'> & { connection: Pick<Connection, 'namespace' | 'name'> },
): Promise<ShardNumber[] | undefined> {
  if (mayReshard === undefined) return undefined
  const { found, unreadable } = await listReadable(
    inNamespaces(collections, namespaces),
    (resource) =>
      kubernetes.collect(resource, {}, (object: unknown) => {
        const claim = readClaim(object)
        if (claim === undefined || !isOfCluster(claim, connection)) return undefined
        if (!mayReshard(claim.metadata.namespace)) return undefined
        return { claim, ...(isCollection.Check(object) && { collection: toShardClaim(object) }) }
      }),
  )
  if (unreadable.some(mayReshard)) return undefined
  return shardNumbersOf(
    found.flatMap(({ collection }) => collection ?? []),
    found.map(({ claim }) => claim),
  )
}

/** What limits the plan: the next Job has the rest. */
const MAX_NUMBERS = 100

/**
 * Those that differ from what the nodes report, first that of a resharding in progress, which may be set
 * back. All of them together may be too many for the plan of a Job, which also repairs replicas.
 */
export function dueNumbers(
  numbers: readonly ShardNumber[],
  { collections: live }: Pick<ClusterView, 'collections'>,
): ShardNumber[] {
  const liveNames = new Map(live.map((collection) => [collection.name, collection]))
  const isInProgress = ({ collection }: ShardNumber) =>
    liveNames.get(collection)?.resharding !== undefined
  const differs = ({ collection, shards }: ShardNumber) => {
    const found = liveNames.get(collection)
    return found !== undefined && found.shards.length !== shards
  }
  const others = numbers.filter((number) => !isInProgress(number) && differs(number))
  return [...numbers.filter(isInProgress), ...others].slice(0, MAX_NUMBERS)
}

const isBackup = TypeCompiler.Compile(lenientSchema(VecBackup.schema) as typeof VecBackup.schema)

/** The newest Completed backups of a cluster in its namespace; none if they cannot be listed. */
export async function completedBackups(
  kubernetes: Pick<Kubernetes, 'collect'>,
  { namespace, name }: Pick<Connection, 'namespace' | 'name'>,
): Promise<string[]> {
  try {
    // Only this stays in memory: the reports of thousands of backups are large.
    const completed = await kubernetes.collect(backups(namespace), {}, (object: unknown) => {
      if (!isBackup.Check(object)) return undefined
      const { metadata, spec, status } = object
      const { clusterRef } = spec
      const target = clusterRef.namespace ?? namespace
      const isOfThis = clusterRef.name === name && target === namespace
      if (!isOfThis || status?.phase !== 'Completed') return undefined
      const { completionTime = '' } = status
      return { backup: `${metadata.namespace}/${metadata.name}`, completionTime }
    })
    return completed
      .toSorted((a, b) => (a.completionTime < b.completionTime ? 1 : -1))
      .slice(0, MAX_BACKUPS)
      .map(({ backup }) => backup)
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    return []
  }
}
