/**
 * Observes a cluster's nodes and shards: asks every pod and combines the answers into one view.
 * The engine answers from the state that a node has applied, so nodes differ for moments after
 * each change (docs/engine-notes.md, "Transfers of shards"). The view says so, and nothing is
 * planned from it then.
 */
import { keyRefused } from '../../../crds/contract/api-keys.ts'
import { EngineError, keyRejection } from '../../../crds/contract/errors.ts'
import type { Engine } from '../../clients/engine/client.ts'
import {
  EngineShards,
  type CollectionFacts,
  type NodeStatus,
  type ShardPlacement,
} from '../../clients/engine/shards.ts'
import { mapConcurrently } from '../../retry.ts'
import { combineCollection, type RecoveryCheck } from './combine.ts'
import type { Counting } from './differences.ts'
import { Defects } from './defects.ts'
import { findMembers, ordinalFromUri, type PodStatus } from './membership.ts'
import type { ClusterView, CollectionView, Obstruction, PeerView, TransferView } from './view.ts'

export interface ObserveOptions {
  /** Number of pods of the StatefulSet. */
  nodes: number
  /** Name of the cluster, for messages. */
  name: string
  /** Topology zone of each pod, by ordinal. */
  zones?: Readonly<Record<string, string>>
  /** Capacity of each data volume in bytes. */
  volumeBytes?: number | undefined
  /** What earlier observations of this cluster found; updated by each. */
  memory?: ObservationMemory
  /** When this observation is made, in milliseconds of a clock that only moves forward. */
  nowMs: number
  /** For how long a replica has to look unreadable, or be disputed, until it is; default: half a minute. */
  lastingMs?: number
  /** The sizes of the data are read in each observation: for observations a minute apart. */
  watchesVolumes?: boolean
  /** Whether the numbers of points of replicas are compared. */
  comparesCounts?: boolean
}

/** What an observation leaves for the next one. */
export interface ObservationMemory {
  /** Replicas that look unreadable, and since when they have in every observation. */
  suspects: Map<string, number>
  /** Replicas of which the nodes report different states, and since when they have after the same changes. */
  disputes: Map<string, number>
  /** Shards whose replicas had equal numbers of points (combine.ts). */
  equal: Set<string>
  /** By ordinal. */
  facts: Map<number, Map<string, CollectionFacts>>
  /** Observations since `facts` were read. */
  factsAge: number
  /** Updated by those who plan from the observations. */
  defects: Defects
}

/** More collections are not observed: each costs a call to every node. */
const MAX_COLLECTIONS = 5000
/** Calls to one node at the same time. */
const CONCURRENCY = 4
/** After this many calls in succession, a node does not answer. */
const MAX_UNANSWERED = 3
/** A replica whose node is busy, or whose disk pauses, must not be dropped for that. */
const LASTING_MS = 30_000
/** Telemetry is read again after this many observations, if volumes are not watched. */
const MAX_FACTS_AGE = 15

export function newObservationMemory(defects = new Defects()): ObservationMemory {
  return {
    suspects: new Map(),
    disputes: new Map(),
    equal: new Set(),
    facts: new Map(),
    factsAge: 0,
    defects,
  }
}

export async function observeShards(
  options: ObserveOptions,
  engineForPod: (ordinal: number) => Engine,
  signal: AbortSignal,
): Promise<ClusterView> {
  const memory = options.memory ?? newObservationMemory()
  const engines = ordinals(options.nodes).map((ordinal) => new EngineShards(engineForPod(ordinal)))
  const { pods, rejections } = await readStatuses(engines, signal)
  const standalone = pods.find(({ status }) => status.status === 'disabled')
  if (standalone !== undefined) {
    const message = `node ${standalone.ordinal} has distributed mode disabled`
    return emptyView(options, { reason: 'EngineNotReady', message })
  }
  if (rejections.length === options.nodes) {
    const message = keyRefused(options.name, rejections, `all ${options.nodes} nodes`)
    return emptyView(options, { reason: 'EngineNotReady', message })
  }
  const found = findMembers(pods as PodStatus[], options.nodes)
  if ('reason' in found) return emptyView(options, found)
  const members = found.map((pod) => ({ ...pod, engine: required(engines, pod.ordinal) }))
  const nodes = await Promise.all(members.map((member) => readNode(member, signal)))
  const { pods: after } = await readStatuses(engines, signal)
  await refreshFacts(options, memory, { nodes, signal })
  const view = await combine(options, nodes, { after: after as PodStatus[], memory, signal })
  if (options.comparesCounts !== true || view.unsettled !== undefined) return view
  // Counting takes long: a replica may have become Dead meanwhile.
  const { pods: last } = await readStatuses(engines, signal)
  const unsettled = findUnsettled(nodes, last as PodStatus[])
  return unsettled === undefined ? view : { ...view, unsettled }
}

/** A member and what it reports. */
export interface NodeReport {
  ordinal: number
  engine: EngineShards
  status: NodeStatus
  /** Undefined while it does not answer all calls. */
  collections: Map<string, ShardPlacement> | undefined
  /** Why it does not. */
  failure?: string
}

/** Pods that do not answer are left out; `rejections` are the status codes of those that refuse the API key. */
async function readStatuses(engines: EngineShards[], signal: AbortSignal) {
  const rejections: number[] = []
  const answers = await Promise.all(
    engines.map(async (engine, ordinal) => {
      try {
        return [{ ordinal, status: await engine.cluster(signal) }]
      } catch (error) {
        if (!(error instanceof EngineError)) throw error
        const code = keyRejection(error)
        if (code !== undefined) rejections.push(code)
        return []
      }
    }),
  )
  return { pods: answers.flat(), rejections }
}

async function readNode(
  { ordinal, engine, status }: PodStatus & { engine: EngineShards },
  signal: AbortSignal,
): Promise<NodeReport> {
  const base = { ordinal, engine, status }
  try {
    const names = await engine.collections(signal)
    if (names.length > MAX_COLLECTIONS) {
      const failure = `node ${ordinal} has more than ${MAX_COLLECTIONS} collections, which is more than the operator works with`
      return { ...base, collections: undefined, failure }
    }
    const placements = await mapConcurrently(names, CONCURRENCY, async (name) => {
      return [name, await engine.placement(name, signal)] as const
    })
    const present = placements.flatMap(([name, placement]) =>
      placement === undefined ? [] : [[name, placement] as const],
    )
    return { ...base, collections: new Map(present) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return { ...base, collections: undefined, failure: error.message }
  }
}

/** Telemetry costs more than the other calls: a Job, which observes every few seconds, reads it less often. */
async function refreshFacts(
  { watchesVolumes = false }: ObserveOptions,
  memory: ObservationMemory,
  { nodes, signal }: { nodes: NodeReport[]; signal: AbortSignal },
): Promise<void> {
  memory.factsAge += 1
  const isComplete = nodes.every(({ ordinal, collections }) => {
    const known = memory.facts.get(ordinal)
    return known !== undefined && [...(collections?.keys() ?? [])].every((name) => known.has(name))
  })
  if (isComplete && !watchesVolumes && memory.factsAge < MAX_FACTS_AGE) return
  memory.factsAge = 0
  await Promise.all(
    nodes.map(async ({ ordinal, engine }) => {
      const facts = await engine.facts(signal).catch(unlessEngineError)
      if (facts !== undefined) memory.facts.set(ordinal, facts)
    }),
  )
}

interface CombineOptions {
  /** The statuses after everything else was read. */
  after: PodStatus[]
  memory: ObservationMemory
  signal: AbortSignal
}

async function combine(
  options: ObserveOptions,
  nodes: NodeReport[],
  { after, memory, signal }: CombineOptions,
): Promise<ClusterView> {
  const names = [...new Set(nodes.flatMap(({ collections }) => [...(collections?.keys() ?? [])]))]
  const suspects = new Map<string, number>()
  const { nowMs, lastingMs = LASTING_MS } = options
  const collections: CollectionView[] = []
  const transfers: TransferView[] = []
  const disagreements: string[] = []
  const settling = findUnsettled(nodes, after)
  const isRecovering = recoveryCheck(nodes, signal)
  // Of an earlier update.
  if (options.comparesCounts !== true) memory.equal.clear()
  const reports = nodes.map((node) => ({ ...node, engine: counting(node.engine) }))
  // Exact counts take memory on each node.
  const concurrency = options.comparesCounts === true ? 1 : CONCURRENCY
  const all = await mapConcurrently(names.toSorted(), concurrency, (name) =>
    combineCollection(name, reports, {
      facts: memory.facts,
      suspects: memory.suspects,
      disputes: memory.disputes,
      lastingBefore: nowMs - lastingMs,
      equal: options.comparesCounts === true ? memory.equal : undefined,
      isRecovering,
      signal,
    }),
  )
  for (const combined of all) {
    collections.push(combined.view)
    transfers.push(...combined.transfers)
    disagreements.push(...combined.disagreements)
    for (const suspect of combined.suspects) {
      suspects.set(suspect, memory.suspects.get(suspect) ?? nowMs)
    }
  }
  // A view of nodes that have not applied the same changes proves nothing about a replica.
  memory.suspects = settling === undefined ? suspects : new Map<string, number>()
  if (settling === undefined) {
    const disputed = all.flatMap((combined) => combined.disputed)
    memory.disputes = new Map(disputed.map((key) => [key, memory.disputes.get(key) ?? nowMs]))
  }
  const unsettled = settling ?? disagreements[0]
  return {
    peers: peerViews(options, nodes, collections),
    nodes: options.nodes,
    collections,
    transfers,
    ...(unsettled !== undefined && { unsettled }),
  }
}

/**
 * A node that does not answer is not asked again in this observation: with hundreds of empty collections, each of which
 * is counted, a look would take hours.
 */
function counting(engine: EngineShards): Counting {
  let unanswered = 0
  const ask = async <Result>(call: () => Promise<Result>): Promise<Result> => {
    if (unanswered >= MAX_UNANSWERED) throw new EngineError(`${engine.node} has not answered`)
    try {
      const result = await call()
      unanswered = 0
      return result
    } catch (error) {
      if (error instanceof EngineError && error.status === undefined) unanswered += 1
      throw error
    }
  }
  return {
    estimatePoints: (...call) => ask(() => engine.estimatePoints(...call)),
    countPoints: (...call) => ask(() => engine.countPoints(...call)),
  }
}

/** Each node is asked once. */
function recoveryCheck(nodes: readonly NodeReport[], signal: AbortSignal): RecoveryCheck {
  const answers = new Map<number, Promise<ReadonlySet<string> | undefined>>()
  return async (ordinal, collection) => {
    const engine = nodes.find((node) => node.ordinal === ordinal)?.engine
    const known = answers.get(ordinal) ?? engine?.recovering(signal).catch(unlessEngineError)
    if (known !== undefined) answers.set(ordinal, known)
    return (await known)?.has(collection) ?? true
  }
}

/** Why the members have not applied the same changes. */
function findUnsettled(nodes: NodeReport[], after: PodStatus[]): string | undefined {
  const silent = nodes.find(({ failure }) => failure !== undefined)
  if (silent !== undefined)
    return `node ${silent.ordinal} does not report its shards: ${silent.failure ?? ''}`
  const later = new Map(after.map(({ ordinal, status }) => [ordinal, status]))
  const [first] = nodes
  for (const { ordinal, status } of nodes) {
    const { err, consensus_thread_status: thread } = status.consensus_thread_status
    if (thread !== 'working')
      return `consensus is ${thread} on node ${ordinal}: ${err ?? 'no reason given'}`
    const pending = status.raft_info.pending_operations
    if (pending > 0) return `node ${ordinal} has ${pending} changes to apply`
    const commit = first?.status.raft_info.commit
    if (status.raft_info.commit !== commit) {
      return `nodes ${first?.ordinal} and ${ordinal} have not applied the same changes`
    }
    if (status.raft_info.leader !== first?.status.raft_info.leader) {
      return `nodes ${first?.ordinal} and ${ordinal} follow different leaders`
    }
    if (later.get(ordinal)?.raft_info.commit !== commit)
      return 'the cluster changed while it was read'
    const missing = nodes.find((other) => !(String(other.status.peer_id) in status.peers))
    if (missing !== undefined) return `node ${ordinal} does not list node ${missing.ordinal}`
    const extra = Object.keys(first?.status.peers ?? {}).find((id) => !(id in status.peers))
    if (extra !== undefined) return `node ${ordinal} does not list peer ${extra}`
  }
  return findCollectionMismatch(nodes)
}

function findCollectionMismatch(nodes: NodeReport[]): string | undefined {
  const [first] = nodes
  for (const { ordinal, collections } of nodes) {
    const [a, b] = [
      first?.collections ?? new Map<string, unknown>(),
      collections ?? new Map<string, unknown>(),
    ]
    const missing = [...a.keys()].find((name) => !b.has(name))
    if (missing !== undefined) return `node ${ordinal} does not list collection ${missing}`
    const extra = [...b.keys()].find((name) => !a.has(name))
    if (extra !== undefined) return `node ${first?.ordinal} does not list collection ${extra}`
  }
  return undefined
}

function peerViews(
  { nodes: pods, zones = {}, volumeBytes }: ObserveOptions,
  nodes: NodeReport[],
  collections: CollectionView[],
): PeerView[] {
  const memberOrdinals = new Map(nodes.map(({ ordinal, status }) => [status.peer_id, ordinal]))
  const uris = new Map(
    nodes.flatMap(({ status }) =>
      Object.entries(status.peers).map(([id, { uri }]) => [Number(id), uri] as const),
    ),
  )
  const used = usedBytes(collections)
  return [...uris]
    .map(([id, uri]): PeerView => {
      const ordinal = memberOrdinals.get(id) ?? ordinalFromUri(uri)
      const zone = ordinal === undefined ? undefined : zones[String(ordinal)]
      const isPod = ordinal !== undefined && ordinal < pods
      return {
        id,
        ...(ordinal !== undefined && { ordinal }),
        isMember: memberOrdinals.has(id),
        ...(zone !== undefined && { zone }),
        ...(volumeBytes !== undefined &&
          isPod && { freeBytes: Math.max(0, volumeBytes - (used.get(id) ?? 0)) }),
      }
    })
    .toSorted((a, b) => a.id - b.id)
}

/** The engine reports the capacity of its disks but not what is free on the data volume. */
function usedBytes(collections: CollectionView[]): Map<number, number> {
  const used = new Map<number, number>()
  for (const { bytes, replicas } of collections.flatMap(({ shards }) => shards)) {
    for (const { peer } of replicas) used.set(peer, (used.get(peer) ?? 0) + bytes)
  }
  return used
}

function emptyView({ nodes }: ObserveOptions, broken: Obstruction): ClusterView {
  return { peers: [], nodes, collections: [], transfers: [], broken }
}

function ordinals(nodes: number): number[] {
  return Array.from({ length: nodes }, (_, ordinal) => ordinal)
}

function required(engines: EngineShards[], ordinal: number): EngineShards {
  const engine = engines[ordinal]
  if (engine === undefined) throw new Error(`there is no pod ${ordinal}`)
  return engine
}

function unlessEngineError(error: unknown): undefined {
  if (!(error instanceof EngineError)) throw error
}
