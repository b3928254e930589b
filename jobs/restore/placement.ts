/**
 * Decides which nodes get which shards: an existing shard stays where it is at the target. A new
 * shard goes to its node of the source or, if the number of nodes differs, to the node with the
 * fewest bytes. Also combines the views of all nodes on the shards and finds out whether they
 * agree.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import { withoutClock } from '../clients/engine/shards.ts'
import type { ConsensusStatus, RestoreClusterInfo } from '../clients/engine/responses.ts'
import type { RestoreItem } from '../manifest-check.ts'

/**
 * Nodes of each shard, by ordinal: the first one takes the snapshot, the others get replicas of it.
 */
export type Placement = Map<number, number[]>

/** Bytes assigned to each node, by ordinal. */
export type BytesByNode = number[]

export interface TargetTopology {
  /** Number of nodes. */
  nodes: number
  /** spec.replicationFactor, if set. */
  replicationFactor: number | undefined
}

/** Replicas that exist at the target, and an earlier plan. */
export interface PlacementHints {
  view?: ReportedShards | undefined
  planned?: Placement | undefined
}

/** Adds the bytes that each node gets to `load`. */
export function planPlacement(
  item: RestoreItem,
  { view, planned }: PlacementHints,
  target: TargetTopology,
  load: BytesByNode = emptyLoad(target),
): Placement {
  const { source } = item
  // A node snapshot restores its shards to the node that held them.
  if (item.method === 'Node' && target.replicationFactor === undefined) {
    return new Map(source.shards.map(({ shardId, nodes }) => [shardId, nodes]))
  }
  const current = view && replicasOnFirstNode(view)
  const hasSameNodeCount = item.method === 'Node' || item.nodeCount === target.nodes
  const requests = source.shards.map(({ shardId, nodes }) => ({
    shardId,
    bytes: shardBytes(item, shardId),
    replicas: replicaCount(nodes.length, item, target),
    preferences: [
      [...(current?.get(shardId)?.keys() ?? [])].filter((node) => node < target.nodes),
      planned?.get(shardId) ?? [],
      hasSameNodeCount ? nodes : [],
      [...load.keys()],
    ],
  }))
  return assign(requests, load)
}

/** No bytes on any node. */
export function emptyLoad({ nodes }: Pick<TargetTopology, 'nodes'>): BytesByNode {
  return Array.from({ length: nodes }, () => 0)
}

/**
 * Replicas that each shard of the collection is to have; a backup by node is restored into the same
 * number of nodes.
 */
export function targetFactor(item: RestoreItem, target: TargetTopology): number {
  const recorded = recordedFactor(item)
  if (item.method === 'Node' && target.replicationFactor === undefined) return recorded
  return Math.min(target.replicationFactor ?? recorded, target.nodes)
}

export function recordedFactor({ method, source }: RestoreItem): number {
  return method === 'Shard'
    ? source.replicationFactor
    : Number(source.config.params['replication_factor'] ?? 1)
}

/**
 * A shard key may have been created with another factor than its collection; its shards get that
 * factor again.
 */
function replicaCount(holders: number, item: RestoreItem, target: TargetTopology): number {
  const { replicationFactor, nodes } = target
  if (replicationFactor !== undefined) return Math.min(replicationFactor, nodes)
  const recorded = recordedFactor(item)
  const possible = item.method === 'Shard' ? item.nodeCount : nodes
  const followsFactor = holders === Math.min(recorded, possible)
  return Math.min(followsFactor ? recorded : holders, nodes)
}

/** A node snapshot does not record sizes per shard; count each shard as 1. */
function shardBytes({ method, source }: RestoreItem, id: number): number {
  if (method === 'Node') return 1
  return source.snapshots.find(({ shardId }) => shardId === id)?.sizeBytes ?? 0
}

interface ShardRequest {
  shardId: number
  bytes: number
  replicas: number
  /** Lists of candidate nodes; an earlier list takes precedence over a later one. */
  preferences: number[][]
}

/**
 * Assigns the first replica of every shard before the second replica of any: the first replicas
 * receive the snapshots, which are delivered concurrently.
 */
function assign(requests: ShardRequest[], load: BytesByNode): Placement {
  const placement: Placement = new Map(requests.map(({ shardId }) => [shardId, []]))
  const largestFirst = requests.toSorted((a, b) => b.bytes - a.bytes || a.shardId - b.shardId)
  const maxReplicas = Math.max(0, ...requests.map(({ replicas }) => replicas))
  for (let replica = 0; replica < maxReplicas; replica += 1) {
    for (const { shardId, bytes, replicas, preferences } of largestFirst) {
      const assigned = placement.get(shardId) ?? []
      const candidates = preferences.map((nodes) =>
        nodes.filter((node) => !assigned.includes(node)),
      )
      const node = leastLoaded(candidates.find((nodes) => nodes.length > 0) ?? [], load)
      if (replica >= replicas || node === undefined) continue
      assigned.push(node)
      load[node] = (load[node] ?? 0) + bytes
    }
  }
  return placement
}

function leastLoaded(nodes: number[], load: BytesByNode): number | undefined {
  const [first] = nodes.toSorted((a, b) => (load[a] ?? 0) - (load[b] ?? 0) || a - b)
  return first
}

/**
 * State of each replica of each shard, by shard id and node ordinal. A peer that is not one of the
 * pods is listed under its peer id.
 */
export type ReplicaStates = Map<number, Map<number, string>>

/** What all nodes report of the shards of a collection, at about the same time. */
export interface ReportedShards {
  /** By ordinal of the reporting node. */
  replicas: ReplicaStates[]
  /** Key of each shard, with custom sharding. */
  keys: Map<number, string | number>
  /** Peer ids by ordinal. */
  peers: number[]
  /** Why the cluster is not stable; undefined if it is. */
  instability?: string
  /** What any node reports of transfers, without clocks; absent if no node lists one. */
  transferProgress?: string
}

/** Replicas of each shard as the first node reports them, even if nodes disagree. */
export function replicasOnFirstNode({ replicas: [first] }: ReportedShards): ReplicaStates {
  return first ?? new Map<number, Map<number, string>>()
}

/** Throws if consensus has stopped for good. */
export function reportedShards(
  placements: RestoreClusterInfo[],
  views: ConsensusStatus[],
): ReportedShards {
  const peers = placements.map(({ peer_id }) => peer_id)
  const ordinalOf = (peer: number) => {
    const ordinal = peers.indexOf(peer)
    return ordinal === -1 ? peer : ordinal
  }
  const keys = new Map<number, string | number>()
  const replicas = placements.map(({ peer_id, local_shards, remote_shards }) => {
    const byShard: ReplicaStates = new Map()
    const shards = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
    for (const { shard_id, shard_key, peer_id: peer, state } of shards) {
      if (shard_key != null) keys.set(shard_id, shard_key)
      const shard = byShard.get(shard_id) ?? new Map<number, string>()
      byShard.set(shard_id, shard.set(ordinalOf(peer), state))
    }
    return byShard
  })
  // First: a transfer that needs a consensus that has stopped would be waited for.
  const backlog = findRaftBacklog(views)
  const transfers = reportedTransfers(placements)
  const instability =
    findRunningTransfer(transfers, ordinalOf) ?? findResharding(placements) ?? backlog
  return {
    ...{ replicas, keys, peers },
    ...(instability !== undefined && { instability }),
    ...(transfers.length > 0 && { transferProgress: transfers.map(progressOf).join() }),
  }
}

/**
 * Why the next step has to wait; undefined if all nodes agree, all replicas are Active and nothing
 * moves.
 */
export function unstableReason(view: ReportedShards): string | undefined {
  return view.instability ?? findDisagreement(view) ?? findInactiveReplica(view.replicas)
}

/**
 * The first replica that not all nodes report in the same state, and what each node reports;
 * undefined if there is none.
 */
export function findDisagreement({
  replicas,
  keys,
}: Omit<ReportedShards, 'peers'>): string | undefined {
  for (const shard of new Set(replicas.flatMap((reported) => [...reported.keys()]))) {
    const reports = replicas.map((reported) => reported.get(shard))
    for (const node of new Set(reports.flatMap((states) => [...(states?.keys() ?? [])]))) {
      const states = reports.map((report) => report?.get(node) ?? 'absent')
      if (new Set(states).size === 1) continue
      const key = keys.has(shard) ? ` of shard key ${keys.get(shard)}` : ''
      return `the nodes disagree about shard ${shard}${key} on node ${node}: ${formatReports(states)}`
    }
  }
  return undefined
}

/** The nodes that report each state. */
function formatReports(states: string[]): string {
  const byState = Map.groupBy(states.keys(), (ordinal) => states[ordinal])
  return [...byState]
    .map(([state, [first, ...others]]) =>
      others.length === 0
        ? `node ${first} reports ${state}`
        : `nodes ${[first, ...others].join(', ')} report ${state}`,
    )
    .join(', ')
}

function findInactiveReplica(all: ReplicaStates[]): string | undefined {
  for (const replicas of all) {
    for (const [shard, states] of replicas) {
      for (const [ordinal, state] of states) {
        if (state !== 'Active') return `shard ${shard} on node ${ordinal} is ${state}`
      }
    }
  }
  return undefined
}

type Transfer = RestoreClusterInfo['shard_transfers'][number]

/** A transfer as a node lists it. */
interface ReportedTransfer extends Transfer {
  /** Peer id of that node. */
  reportedBy: number
}

function reportedTransfers(placements: RestoreClusterInfo[]): ReportedTransfer[] {
  return placements.flatMap(({ peer_id: reportedBy, shard_transfers }) =>
    shard_transfers.map((transfer) => ({ ...transfer, reportedBy })),
  )
}

/**
 * Only source and target describe what they do: the other nodes list the transfer without a comment
 * (docs/engine-notes.md, "Replicas and transfers").
 */
function findRunningTransfer(
  transfers: ReportedTransfer[],
  ordinalOf: (peer: number) => number,
): string | undefined {
  const [first] = transfers
  if (first === undefined) return undefined
  const { shard_id: shard, from, to } = first
  const described = transfers.filter(
    (other) =>
      other.shard_id === shard && other.from === from && other.to === to && other.comment != null,
  )
  // The stages of the target are the finer ones.
  const { comment } = described.find(({ reportedBy }) => reportedBy === to) ?? described[0] ?? first
  const text = `shard ${shard} is being transferred from node ${ordinalOf(from)} to node ${ordinalOf(to)}`
  return comment == null ? text : `${text} (${comment})`
}

function progressOf({ shard_id, from, to, comment, reportedBy }: ReportedTransfer): string {
  return `${shard_id}/${from}/${to}/${reportedBy} ${withoutClock(comment ?? '')}`
}

function findResharding(placements: RestoreClusterInfo[]): string | undefined {
  const isResharding = placements.some(
    ({ resharding_operations: operations = [] }) => operations.length > 0,
  )
  return isResharding ? 'the number of its shards is being changed' : undefined
}

/** Throws if consensus has stopped for good: the cluster would never reach the expected state. */
function findRaftBacklog(views: ConsensusStatus[]): string | undefined {
  const commits = new Set<number>()
  let backlog: string | undefined
  for (const [ordinal, view] of views.entries()) {
    if (view.status === 'disabled') continue
    const { consensus_thread_status: thread, err = 'no reason given' } =
      view.consensus_thread_status
    if (thread !== 'working') {
      const reason = `consensus is ${thread} on node ${ordinal}: ${err.replace(ATTEMPT, '')}`
      if (!err.includes(RESTARTING)) throw new Rejected(reason)
      backlog ??= reason
    }
    if (view.raft_info.pending_operations > 0)
      backlog ??= `node ${ordinal} has not applied all that was agreed on`
    commits.add(view.raft_info.commit)
  }
  return backlog ?? (commits.size > 1 ? 'the nodes have not applied the same' : undefined)
}

/** Since 1.19 the engine starts a consensus thread that has failed again (docs/engine-notes.md, "Versions"). */
const RESTARTING = 'restarting consensus thread'

/** Each attempt counts, which is no progress. */
const ATTEMPT = / \(attempt \d+, next attempt in \d+ sec\)$/

/** Equal text for equal replicas. */
export function fingerprint(replicas: ReplicaStates | undefined): string {
  const shards = [...(replicas ?? [])].map(([shard, states]) => [shard, [...states].sort(byFirst)])
  return JSON.stringify(shards.sort(byFirst))
}

function byFirst([a]: unknown[], [b]: unknown[]): number {
  return Number(a) - Number(b)
}
