/** Questions that the planner asks about a view: who holds what, and where a replica can go. */
import { formatNames } from '../../../crds/units.ts'
import type { ClusterView, DesiredShards, Move, PeerView, ShardView } from './view.ts'

/** A shard with the collection that it belongs to. */
export interface Shard extends ShardView {
  collection: string
  /** Replication factor of the collection. */
  factor: number
}

/** A transfer needs space for the data and for what the optimizer writes while it receives it. */
const SPACE_FACTOR = 1.5

export function shardsOf({ collections }: ClusterView): Shard[] {
  return collections.flatMap(({ name, factor, shards }) =>
    shards.map((shard) => ({ ...shard, collection: name, factor })),
  )
}

export function isRemaining(
  { ordinal }: PeerView,
  { nodes }: Pick<DesiredShards, 'nodes'>,
): boolean {
  return ordinal !== undefined && ordinal < nodes
}

/** Nodes that answer and are not to be removed: the possible targets. */
export function remainingMembers(view: ClusterView, desired: DesiredShards): PeerView[] {
  return view.peers.filter((peer) => peer.isMember && isRemaining(peer, desired))
}

/** Peers of the pods that are to be removed, whether they answer or not. */
export function leavingPeers(view: ClusterView, desired: DesiredShards): PeerView[] {
  return view.peers.filter((peer) => peer.ordinal !== undefined && !isRemaining(peer, desired))
}

/**
 * Replicas that a shard needs: the replication factor, or one on each node if there are fewer nodes.
 */
export function requiredReplicas(view: ClusterView, { factor }: Shard, nodes: number): number {
  return Math.max(1, Math.min(factor, nodes, view.nodes))
}

/**
 * Replicas that a shard keeps when one of them is dropped. The engine does not record how many a shard key
 * was created with, so the shard of a key keeps those that it has, apart from the targets of unfinished moves.
 */
export function retainedReplicas(
  view: ClusterView,
  shard: Shard,
  { nodes, moves }: Pick<DesiredShards, 'nodes' | 'moves'>,
): number {
  const required = requiredReplicas(view, shard, nodes)
  if (shard.key === undefined) return required
  const replaced = moves.flatMap((move) =>
    isMoveOf(move, shard) && holds(shard, move.from) && holds(shard, move.to) ? [move.from] : [],
  )
  const retained = shard.replicas.length - new Set(replaced).size
  return Math.max(required, Math.min(retained, nodes, view.nodes))
}

/** Whether the pod of this peer answers as this peer. */
export function isMember({ peers }: ClusterView, peer: number): boolean {
  return peers.find(({ id }) => id === peer)?.isMember === true
}

/** Peers with an Active replica that answer: what others say about a silent node proves nothing. */
export function activeHolders(view: ClusterView, { replicas }: ShardView): number[] {
  const members = new Set(view.peers.filter(({ isMember }) => isMember).map(({ id }) => id))
  return replicas
    .filter(({ peer, state }) => state === 'Active' && members.has(peer))
    .map(({ peer }) => peer)
}

export function activeElsewhere(view: ClusterView, shard: ShardView, peer: number): number[] {
  return activeHolders(view, shard).filter((holder) => holder !== peer)
}

/** Whether a transfer of this shard is in progress: nothing else is done with it meanwhile. */
export function hasTransfer(
  { transfers }: ClusterView,
  { collection, id, replicas }: Pick<Shard, 'collection' | 'id' | 'replicas'>,
): boolean {
  return (
    transfers.some((transfer) => transfer.collection === collection && transfer.shard === id) ||
    replicas.some(({ state }) => state === 'InTransfer' || state === 'Resharding')
  )
}

/** The node to copy from: the one that takes part in the fewest transfers. */
export function copySource(view: ClusterView, shard: ShardView): number | undefined {
  const load = (peer: number) =>
    view.transfers.filter(({ from, to }) => from === peer || to === peer).length
  return activeHolders(view, shard).toSorted((a, b) => load(a) - load(b) || a - b)[0]
}

/**
 * The node that gets a new replica: one without a failed copy of the shard, in a zone without a replica if possible, then the
 * node with the least data. Undefined if every node has one or none has enough space.
 */
export function freeTarget(
  view: ClusterView,
  shard: Shard,
  desired: DesiredShards,
): number | undefined {
  const load = bytesByPeer(view, desired)
  const usedZones = new Set(zonesOf(view, shard))
  const [target] = remainingMembers(view, desired)
    .filter(({ id }) => !holds(shard, id) && desired.closedTargets?.has(id) !== true)
    .filter((peer) => hasSpace(peer, shard))
    .toSorted(
      (a, b) =>
        Number(hasFailedCopy(shard, a.id, desired)) - Number(hasFailedCopy(shard, b.id, desired)) ||
        Number(isUsed(usedZones, a)) - Number(isUsed(usedZones, b)) ||
        (load.get(a.id) ?? 0) - (load.get(b.id) ?? 0) ||
        (a.ordinal ?? 0) - (b.ordinal ?? 0),
    )
  return target?.id
}

/** A Job has created a replica of the shard on this node, and could not fill it; or it tries no further copy. */
export function hasFailedCopy(
  shard: Shard,
  peer: number,
  desired: Pick<DesiredShards, 'copyFailure'>,
): boolean {
  const isCreated = desired.copyFailure?.(shard)?.createdOn?.includes(peer) === true
  return isCreated || copyError(shard, peer, desired) !== undefined
}

/** Why no further copy of the shard to this node is tried. */
export function copyError(
  shard: Shard,
  peer: number,
  { copyFailure }: Pick<DesiredShards, 'copyFailure'>,
): string | undefined {
  return copyFailure?.(shard)?.givenUp?.get(peer)
}

function isUsed(zones: ReadonlySet<string>, { zone }: PeerView): boolean {
  return zone !== undefined && zones.has(zone)
}

export function hasSpace(peer: PeerView, { bytes }: ShardView): boolean {
  return spaceFor(peer, bytes)
}

export function spaceFor({ freeBytes }: PeerView, bytes: number): boolean {
  return freeBytes === undefined || freeBytes >= bytes * SPACE_FACTOR
}

/** Zones of the nodes with a replica, apart from that of one peer. */
export function zonesOf(view: ClusterView, { replicas }: ShardView, except?: number): string[] {
  return replicas.flatMap(({ peer }) => {
    const zone = view.peers.find(({ id }) => id === peer)?.zone
    return zone === undefined || peer === except ? [] : [zone]
  })
}

/** Bytes on each peer, once the unfinished moves have ended. */
export function bytesByPeer(
  view: ClusterView,
  { moves }: Pick<DesiredShards, 'moves'>,
): Map<number, number> {
  const load = new Map(view.peers.map(({ id }) => [id, 0]))
  for (const shard of shardsOf(view)) {
    const { bytes, replicas } = shard
    for (const { peer } of replicas) {
      const isMoving = moves.some(
        (move) =>
          isMoveOf(move, shard) &&
          move.from === peer &&
          replicas.some((replica) => replica.peer === move.to),
      )
      if (!isMoving) load.set(peer, (load.get(peer) ?? 0) + bytes)
    }
  }
  return load
}

export function nodeName({ id, ordinal }: Pick<PeerView, 'id' | 'ordinal'>): string {
  return ordinal === undefined ? `peer ${id}` : `node ${ordinal}`
}

export function describeShard({ collection, id }: Shard): string {
  return `${collection}/${id}`
}

export function holds({ replicas }: Shard, peer: number): boolean {
  return replicas.some((replica) => replica.peer === peer)
}

export function findShard(
  view: ClusterView,
  { collection, shard }: Pick<Move, 'collection' | 'shard'>,
) {
  return shardsOf(view).find((entry) => entry.collection === collection && entry.id === shard)
}

export function moveOf({ collection, id, key }: Shard, from: number, to: number): Move {
  return { collection, shard: id, ...(key !== undefined && { key }), from, to }
}

/** The shard that a move was planned for: not one that has got its id since. */
export function findMoved(view: ClusterView, move: Move): Shard | undefined {
  const shard = findShard(view, move)
  return shard !== undefined && isMoveOf(move, shard) ? shard : undefined
}

function isMoveOf({ collection, shard: id, key }: Move, shard: Shard): boolean {
  const isSameKey = key === undefined || key === shard.key
  return shard.collection === collection && shard.id === id && isSameKey
}

export function peerName(view: ClusterView, id: number): string {
  return nodeName(view.peers.find((peer) => peer.id === id) ?? { id })
}

const MAX_LISTED = 5

export function formatList(items: string[]): string {
  return formatNames(items, MAX_LISTED)
}

/** A pod that should be a node and is no member, for example because its new volume is empty. */
export function absentNode(view: ClusterView, { nodes }: DesiredShards): string | undefined {
  const [ordinal] = absentOrdinals(view, nodes)
  return ordinal === undefined ? undefined : `node ${ordinal}`
}

export function absentOrdinals({ peers, nodes: pods }: ClusterView, nodes: number): number[] {
  const members = new Set(peers.filter(({ isMember }) => isMember).map(({ ordinal }) => ordinal))
  const ordinals = Array.from({ length: Math.min(nodes, pods) }, (_, ordinal) => ordinal)
  return ordinals.filter((ordinal) => !members.has(ordinal))
}

/** Moves that still have a replica too many; others have ended or never began. */
export function unfinishedMoves(view: ClusterView, moves: readonly Move[]): Move[] {
  return moves.filter((move) => {
    const shard = findMoved(view, move)
    return shard !== undefined && holds(shard, move.from) && holds(shard, move.to)
  })
}
