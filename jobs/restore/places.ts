/**
 * Which nodes get which shards: each stays where it is at the target or was at the source, and where the
 * target has another number of nodes it goes where the fewest bytes are.
 */
import { firstCopies, type Sight } from './sight.ts'
import type { Wanted } from './wanted.ts'

/** Nodes of each shard, by ordinal: the first takes its snapshot, the others get copies of it. */
export type Places = Map<number, number[]>

/** Bytes that each node is given, by ordinal. */
export type Load = number[]

export interface Target {
  /** Nodes there are. */
  nodes: number
  /** What spec.replicationFactor says. */
  replicationFactor: number | undefined
}

/** What stands at the target, and what was decided before. */
export interface Known {
  sight?: Sight | undefined
  planned?: Places | undefined
}

/** What its nodes are given is added to `load`. */
export function placesOf(
  wanted: Wanted,
  { sight, planned }: Known,
  target: Target,
  load: Load = noLoad(target),
): Places {
  const { source } = wanted
  // The snapshots of nodes bring their shards where they were.
  if (wanted.method === 'Node' && target.replicationFactor === undefined) {
    return new Map(source.shards.map(({ shardId, nodes }) => [shardId, nodes]))
  }
  const held = sight && firstCopies(sight)
  const isAsLarge = wanted.method === 'Node' || wanted.nodeCount === target.nodes
  const seats = source.shards.map(({ shardId, nodes }) => ({
    shardId,
    bytes: bytesOfShard(wanted, shardId),
    copies: copiesOf(nodes.length, wanted, target),
    liked: [
      [...(held?.get(shardId)?.keys() ?? [])].filter((node) => node < target.nodes),
      planned?.get(shardId) ?? [],
      isAsLarge ? nodes : [],
      [...load.keys()],
    ],
  }))
  return seated(seats, load)
}

/** Nothing on any node. */
export function noLoad({ nodes }: Pick<Target, 'nodes'>): Load {
  return Array.from({ length: nodes }, () => 0)
}

/** What a collection is to have of each shard; a backup by node comes back into as many nodes. */
export function factorOf(wanted: Wanted, target: Target): number {
  const recorded = recordedFactor(wanted)
  if (wanted.method === 'Node' && target.replicationFactor === undefined) return recorded
  return Math.min(target.replicationFactor ?? recorded, target.nodes)
}

export function recordedFactor({ method, source }: Wanted): number {
  return method === 'Shard'
    ? source.replicationFactor
    : Number(source.config.params['replication_factor'] ?? 1)
}

/** A key may have been made with another factor than its collection: its shards then have that again. */
function copiesOf(holders: number, wanted: Wanted, target: Target): number {
  const { replicationFactor, nodes } = target
  if (replicationFactor !== undefined) return Math.min(replicationFactor, nodes)
  const recorded = recordedFactor(wanted)
  const possible = wanted.method === 'Shard' ? wanted.nodeCount : nodes
  const isOfFactor = holders === Math.min(recorded, possible)
  return Math.min(isOfFactor ? recorded : holders, nodes)
}

/** Of a snapshot of all shards of a node nobody knows what is whose. */
function bytesOfShard({ method, source }: Wanted, id: number): number {
  if (method === 'Node') return 1
  return source.snapshots.find(({ shardId }) => shardId === id)?.sizeBytes ?? 0
}

interface Seat {
  shardId: number
  bytes: number
  copies: number
  /** Nodes it may be on; those of a list that stands before another rather than those of that one. */
  liked: number[][]
}

/** The first copy of every shard before the second of any: they are what is fetched at once. */
function seated(seats: Seat[], load: Load): Places {
  const places: Places = new Map(seats.map(({ shardId }) => [shardId, []]))
  const largestFirst = seats.toSorted(
    (one, other) => other.bytes - one.bytes || one.shardId - other.shardId,
  )
  const most = Math.max(0, ...seats.map(({ copies }) => copies))
  for (let copy = 0; copy < most; copy += 1) {
    for (const { shardId, bytes, copies, liked } of largestFirst) {
      const taken = places.get(shardId) ?? []
      const free = liked.map((nodes) => nodes.filter((node) => !taken.includes(node)))
      const node = lightest(free.find((nodes) => nodes.length > 0) ?? [], load)
      if (copy >= copies || node === undefined) continue
      taken.push(node)
      load[node] = (load[node] ?? 0) + bytes
    }
  }
  return places
}

function lightest(nodes: number[], load: Load): number | undefined {
  const [first] = nodes.toSorted(
    (one, other) => (load[one] ?? 0) - (load[other] ?? 0) || one - other,
  )
  return first
}
