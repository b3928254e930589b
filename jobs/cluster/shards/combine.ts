/** Combines what the members report about one collection. */
import type { ReshardingOperation } from '../../clients/engine/resharding.ts'
import type { CollectionFacts, ShardPlacement } from '../../clients/engine/shards.ts'
import { ignoreEngineError } from '../../clients/engine/statistics.ts'
import { findDifference, type CollectionReport, type Counting } from './differences.ts'
import type {
  CollectionView,
  ReplicaState,
  ReplicaView,
  ReshardingView,
  ShardView,
  TransferView,
} from './view.ts'

/** Whether a node recovers a collection from a snapshot; also while that is not known. */
export type RecoveryCheck = (ordinal: number, collection: string) => Promise<boolean>

/** A member and what it reports; undefined while it does not answer. */
export interface Report {
  ordinal: number
  engine: Counting
  status: { peer_id: number }
  collections: Map<string, ShardPlacement> | undefined
}

interface Context {
  /** By ordinal. */
  facts: ReadonlyMap<number, ReadonlyMap<string, CollectionFacts>>
  /** Replicas that have looked unreadable in all observations since then, in monotonic milliseconds. */
  suspects: ReadonlyMap<string, number>
  /** The same for replicas of which the nodes have reported different states. */
  disputes: ReadonlyMap<string, number>
  /** Those that have done so since then, or earlier, are unreadable or disputed. */
  lastingBefore: number
  /**
   * Shards whose Active replicas had equal numbers of points in an observation since all of them are
   * Active; updated. Absent if the numbers are not compared.
   */
  equal?: Set<string> | undefined
  isRecovering: RecoveryCheck
  signal: AbortSignal
}

export interface Combined {
  view: CollectionView
  transfers: TransferView[]
  /** What members report differently. */
  disagreements: string[]
  /** Replicas that look unreadable. */
  suspects: string[]
  /** Replicas of which the nodes report different states, and no transfer changes them. */
  disputed: string[]
}

/** From this number of points on another replica, a replica without any has lost them. */
const MANY_POINTS = 1000

export async function combineCollection(
  name: string,
  nodes: readonly Report[],
  { facts, suspects, disputes, lastingBefore, equal, isRecovering, signal }: Context,
): Promise<Combined> {
  const reports = nodes.flatMap(({ ordinal, engine, status, collections }) => {
    const placement = collections?.get(name)
    return placement === undefined ? [] : [{ ordinal, engine, peer: status.peer_id, placement }]
  })
  const transfers = combineTransfers(name, reports)
  const { resharding, disagreements } = combineResharding(name, reports)
  const found: string[] = []
  const disputed: string[] = []
  const shards: ShardView[] = []
  for (const id of shardIds(reports)) {
    const replicas = reportedReplicas(id, reports)
    const keyOf = (peer: number) => `${name}/${id}/${peer}`
    const inDispute = findDisputed({ id, replicas, reports }, transfers)
    disputed.push(...[...inDispute].map(keyOf))
    const isLasting = (peer: number) =>
      inDispute.has(peer) && (disputes.get(keyOf(peer)) ?? Infinity) <= lastingBefore
    const undisputed = replicas.filter(({ peer }) => !isLasting(peer))
    disagreements.push(...shardDisagreements(name, { id, replicas: undisputed, reports }))
    const reported = replicas.map((replica): ReplicaView => {
      const { peer } = replica
      const state = isLasting(peer) ? 'Disputed' : combinedState(replica, { id, transfers })
      return { peer, state }
    })
    const states = await withRecoveries(name, reported, { reports, isRecovering })
    const looksUnreadable = await findUnreadable(name, { id, replicas: states, reports, signal })
    const views = states.map((replica): ReplicaView => {
      const key = keyOf(replica.peer)
      if (!looksUnreadable.has(replica.peer)) return replica
      found.push(key)
      const since = suspects.get(key) ?? Infinity
      if (since <= lastingBefore) return { ...replica, state: 'Unreadable' }
      // It may be a pause of its node: neither this replica nor what depends on it is touched until that is known.
      const owner = reports.find(({ peer }) => peer === replica.peer)
      disagreements.push(`node ${owner?.ordinal} cannot read its replica of ${name}/${id}`)
      return replica
    })
    const key = shardKey(id, reports)
    const difference =
      equal && (await findDifference(name, { id, replicas: views, reports, signal }, equal))
    shards.push({
      id,
      ...(key !== undefined && { key }),
      bytes: shardBytes(name, id, facts),
      ...(resharding !== undefined && { points: shardPoints(id, reports) }),
      replicas: views.toSorted((a, b) => a.peer - b.peer),
      ...(difference !== undefined && { difference }),
    })
  }
  const factor = replicationFactor(name, reports, facts)
  if (factor === undefined) disagreements.push(`no node reports the configuration of ${name}`)
  return {
    view: {
      ...{ name, factor: factor ?? 1, shards },
      ...(resharding !== undefined && { resharding }),
    },
    transfers,
    disagreements,
    suspects: found,
    disputed,
  }
}

/** A replica and the state that each reporting node gives it, by ordinal. */
interface ReportedReplica {
  peer: number
  states: Map<number, string>
}

function shardIds(reports: CollectionReport[]): number[] {
  const ids = reports.flatMap(({ placement }) =>
    [...placement.local_shards, ...placement.remote_shards].map(({ shard_id }) => shard_id),
  )
  return [...new Set(ids)].toSorted((a, b) => a - b)
}

function shardKey(id: number, reports: CollectionReport[]): string | number | undefined {
  for (const { placement } of reports) {
    const found = [...placement.local_shards, ...placement.remote_shards].find(
      ({ shard_id }) => shard_id === id,
    )
    if (found?.shard_key != null) return found.shard_key
  }
  return undefined
}

function reportedReplicas(id: number, reports: CollectionReport[]): ReportedReplica[] {
  const byPeer = new Map<number, Map<number, string>>()
  const add = (peer: number, ordinal: number, state: string) => {
    const states = byPeer.get(peer) ?? new Map<number, string>()
    byPeer.set(peer, states.set(ordinal, state))
  }
  for (const { ordinal, peer, placement } of reports) {
    for (const shard of placement.local_shards) {
      if (shard.shard_id === id) add(peer, ordinal, shard.state)
    }
    for (const shard of placement.remote_shards) {
      if (shard.shard_id === id) add(shard.peer_id, ordinal, shard.state)
    }
  }
  return [...byPeer].map(([peer, states]) => ({ peer, states }))
}

interface Shard {
  id: number
  replicas: ReportedReplica[]
  reports: CollectionReport[]
}

/**
 * A node that does not list its own replica is no disagreement that passes: `findUnreadable` handles
 * it.
 */
function shardDisagreements(name: string, { id, replicas, reports }: Shard): string[] {
  return replicas.flatMap((replica) => {
    const { peer, states } = replica
    const reporting = reportingNodes(replica, reports)
    const silent = reporting.find(({ ordinal }) => !states.has(ordinal))
    if (silent !== undefined) {
      return [`node ${silent.ordinal} does not list the replica of ${name}/${id} on peer ${peer}`]
    }
    if (reportedStates(replica, reporting).size <= 1) return []
    return [`the nodes report different states of ${name}/${id} on peer ${peer}`]
  })
}

/**
 * Peers whose replica has one state for some nodes and another one for others, although no transfer changes it. Without a
 * replica that is Active for all nodes, and whose node answers, none can be replaced.
 */
function findDisputed(
  { id, replicas, reports }: Shard,
  transfers: readonly TransferView[],
): Set<number> {
  const isCopied = transfers.some(({ shard, toShard = shard }) => shard === id || toShard === id)
  if (isCopied || !reports.every(({ placement }) => listsAll(placement, { id, replicas }))) {
    return new Set()
  }
  const states = replicas.map((replica) => ({
    peer: replica.peer,
    states: reportedStates(replica, reportingNodes(replica, reports)),
  }))
  const hasActive = states.some(
    (one) =>
      one.states.size === 1 &&
      one.states.has('Active') &&
      reports.some(({ peer }) => peer === one.peer),
  )
  const disputed = states.filter((one) => one.states.size > 1)
  return new Set(hasActive ? disputed.map(({ peer }) => peer) : [])
}

function listsAll(
  { local_shards: own, remote_shards: others }: ShardPlacement,
  { id, replicas }: Pick<Shard, 'id' | 'replicas'>,
): boolean {
  return [...own, ...others].filter(({ shard_id }) => shard_id === id).length === replicas.length
}

/** All but the node of the replica, if it does not list it. */
function reportingNodes(
  { peer, states }: ReportedReplica,
  reports: readonly CollectionReport[],
): CollectionReport[] {
  const others = reports.filter((report) => report.peer !== peer)
  const owner = reports.find((report) => report.peer === peer)
  return owner !== undefined && states.has(owner.ordinal) ? [...others, owner] : others
}

function reportedStates(
  { states }: ReportedReplica,
  nodes: readonly CollectionReport[],
): Set<string | undefined> {
  return new Set(nodes.map(({ ordinal }) => states.get(ordinal)))
}

function combinedState(
  { peer, states }: ReportedReplica,
  { id, transfers }: { id: number; transfers: TransferView[] },
): ReplicaState {
  const isTarget = transfers.some(({ shard, toShard = shard, to }) => toShard === id && to === peer)
  const reported = [...new Set([...states.values()])].map((state) => replicaState(state, isTarget))
  const worst = SEVERITY.findLast((state) => reported.includes(state))
  return worst ?? 'Incomplete'
}

/**
 * A snapshot that a user has a node recover takes its replicas out of service for as long as that takes. A copy of
 * another replica would mix its points with those of the snapshot.
 */
function withRecoveries(
  name: string,
  replicas: readonly ReplicaView[],
  { reports, isRecovering }: { reports: CollectionReport[]; isRecovering: RecoveryCheck },
): Promise<ReplicaView[]> {
  return Promise.all(
    replicas.map(async (replica): Promise<ReplicaView> => {
      const owner = reports.find(({ peer }) => peer === replica.peer)
      if (replica.state !== 'Incomplete' || owner === undefined) return replica
      const isRecovered = await isRecovering(owner.ordinal, name)
      return isRecovered ? { ...replica, state: 'InTransfer' } : replica
    }),
  )
}

/** From best to worst. */
const SEVERITY: readonly ReplicaState[] = [
  'Active',
  'Resharding',
  'InTransfer',
  'Incomplete',
  'Dead',
  'Unreadable',
  'Disputed',
]

/** The target of a transfer is repaired by it; without one, the engine repairs only Dead replicas. */
function replicaState(state: string, isTarget: boolean): ReplicaState {
  if (state === 'Resharding' || state === 'ReshardingScaleDown') return 'Resharding'
  if (isTarget) return 'InTransfer'
  return state === 'Active' || state === 'Dead' ? state : 'Incomplete'
}

interface ReadableShard {
  id: number
  replicas: ReplicaView[]
  reports: CollectionReport[]
  signal: AbortSignal
}

/**
 * Peers whose replica is reported as Active but cannot be read by its own node, or has lost all its
 * points. A node counts the points of its replicas for every report, and reports 0 on an error, too:
 * only those are asked again.
 */
async function findUnreadable(
  name: string,
  { id, replicas, reports, signal }: ReadableShard,
): Promise<Set<number>> {
  const active = replicas.filter(({ state }) => state === 'Active').map(({ peer }) => peer)
  const points = (report: CollectionReport) =>
    report.placement.local_shards.find(({ shard_id }) => shard_id === id)?.points_count
  const owners = reports.filter(({ peer }) => active.includes(peer))
  const most = Math.max(0, ...owners.map((owner) => points(owner) ?? 0))
  const unreadable = new Set<number>()
  for (const owner of owners) {
    const count = points(owner)
    if (count === undefined) unreadable.add(owner.peer)
    else if (count === 0) {
      const answer = await owner.engine.estimatePoints(name, id, signal).catch(ignoreEngineError)
      const isEmpty = answer === 0 && most >= MANY_POINTS
      if (answer === 'unreadable' || isEmpty) unreadable.add(owner.peer)
    }
  }
  return unreadable
}

function combineTransfers(name: string, reports: CollectionReport[]): TransferView[] {
  const transfers = new Map<string, TransferView>()
  for (const { peer, placement } of reports) {
    for (const transfer of placement.shard_transfers) {
      const { shard_id: shard, to_shard_id: toShard, from, to, comment } = transfer
      const key = `${shard}/${from}/${to}/${toShard ?? shard}`
      const known = transfers.get(key)
      // Source and target describe their own part; the stages of the target are the finer ones.
      const isBetter = comment != null && (known?.comment === undefined || peer === to)
      const current = isBetter ? comment : known?.comment
      transfers.set(key, {
        ...{ collection: name, shard, from, to },
        ...(toShard != null && { toShard }),
        ...(current !== undefined && { comment: current }),
      })
    }
  }
  return [...transfers.values()]
}

/** Nodes that have not applied the same changes do not know the same operation. */
function combineResharding(
  name: string,
  reports: CollectionReport[],
): { resharding?: ReshardingView; disagreements: string[] } {
  const known = reports.map(({ placement }) => {
    const [operation] = placement.resharding_operations ?? []
    return operation && reshardingView(operation)
  })
  const distinct = new Set(known.map((view) => JSON.stringify(view)))
  if (distinct.size > 1) {
    return { disagreements: [`the nodes report different reshardings of ${name}`] }
  }
  const [resharding] = known
  return { ...(resharding !== undefined && { resharding }), disagreements: [] }
}

function reshardingView({
  uuid,
  direction,
  shard_id: shard,
  peer_id: peer,
}: ReshardingOperation): ReshardingView {
  return { ...(uuid !== undefined && { uuid }), direction, shard, peer }
}

/** Of a node that answers: what is remembered of another one may be that of an earlier collection. */
function replicationFactor(
  name: string,
  reports: CollectionReport[],
  facts: Context['facts'],
): number | undefined {
  for (const { ordinal } of reports) {
    const factor = facts.get(ordinal)?.get(name)?.factor
    if (factor !== undefined) return factor
  }
  return undefined
}

/** The largest of the replicas: one that is being transferred is smaller. */
function shardBytes(name: string, id: number, facts: Context['facts']): number {
  const sizes = [...facts.values()].map((byName) => byName.get(name)?.bytes.get(id) ?? 0)
  return Math.max(1, ...sizes)
}

function shardPoints(id: number, reports: CollectionReport[]): number {
  const counts = reports.flatMap(({ placement }) =>
    placement.local_shards.flatMap((shard) => (shard.shard_id === id ? [shard.points_count] : [])),
  )
  return Math.max(0, ...counts)
}
