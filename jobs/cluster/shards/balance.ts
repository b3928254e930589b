/**
 * Which replica to move next so that the nodes hold about the same number of bytes; none while spec.shards.maxTransfers are in
 * progress.
 */
import {
  activeHolders,
  bytesByPeer,
  hasSpace,
  hasTransfer,
  moveOf,
  requiredReplicas,
  shardsOf,
  remainingMembers,
  zonesOf,
  type Shard,
} from './queries.ts'
import type { ClusterView, DesiredShards, Move, PeerView } from './view.ts'

/**
 * A move must reduce the difference between two nodes by more than this part of the shard:
 * otherwise growing shards would be moved back and forth.
 */
const MIN_GAIN = 0.2
/**
 * Nodes are balanced if they differ by no more than this part of what a node holds on average: a
 * transfer of a small shard would cost more than it gains.
 */
const MIN_IMBALANCE = 0.1

interface Candidate {
  move: Move
  /** Two replicas in one zone become replicas in two. */
  separatesZones: boolean
  /** Decrease of the sum of squares: positive, so that a sequence of moves ends. */
  gain: number
}

/**
 * The best one if each shard could be moved, also those in recovery and those that miss a replica; undefined if no move
 * improves the placement.
 */
export function moveOnceComplete(view: ClusterView, desired: DesiredShards): Move | undefined {
  return bestMove(view, desired, () => true)
}

/** Undefined if no move improves the placement. */
export function bestMove(
  view: ClusterView,
  desired: DesiredShards,
  isMovable = (shard: Shard) => !hasTransfer(view, shard) && isComplete(view, shard, desired),
): Move | undefined {
  if (view.transfers.length >= desired.maxTransfers) return undefined
  const load = bytesByPeer(view, desired)
  const peers = remainingMembers(view, desired)
  const minDifference = (MIN_IMBALANCE * sum([...load.values()])) / Math.max(1, peers.length)
  let best: Candidate | undefined
  for (const shard of shardsOf(view)) {
    if (!isMovable(shard)) continue
    if (desired.copyFailure?.(shard)?.givenUp !== undefined) continue
    for (const source of peers) {
      if (!shard.replicas.some(({ peer }) => peer === source.id)) continue
      for (const target of peers) {
        if (desired.closedTargets?.has(target.id) === true) continue
        const candidate = candidateOf(view, {
          ...{ shard, source, target, load, minDifference },
        })
        if (candidate !== undefined && isBetter(candidate, best)) best = candidate
      }
    }
  }
  return best?.move
}

/**
 * A shard is moved only if each of its replicas is Active on a node that answers, and none is
 * missing: otherwise the source would have to stay.
 */
function isComplete(view: ClusterView, shard: Shard, { nodes }: DesiredShards): boolean {
  const { length } = activeHolders(view, shard)
  return shard.replicas.length === length && length >= requiredReplicas(view, shard, nodes)
}

interface PossibleMove {
  shard: Shard
  source: PeerView
  target: PeerView
  load: ReadonlyMap<number, number>
  /** Of the bytes on source and target. */
  minDifference: number
}

function candidateOf(
  view: ClusterView,
  { shard, source, target, load, minDifference }: PossibleMove,
): Candidate | undefined {
  const isHolder = shard.replicas.some(({ peer }) => peer === target.id)
  if (isHolder || !hasSpace(target, shard)) return undefined
  const otherZones = zonesOf(view, shard, source.id)
  const isShared = (zone: string | undefined) => zone !== undefined && otherZones.includes(zone)
  if (isShared(target.zone) && !isShared(source.zone)) return undefined
  const separatesZones = isShared(source.zone) && !isShared(target.zone)
  const difference = (load.get(source.id) ?? 0) - (load.get(target.id) ?? 0)
  const isTooSmall = difference <= Math.max(shard.bytes * (1 + MIN_GAIN), minDifference)
  if (!separatesZones && isTooSmall) return undefined
  return {
    move: moveOf(shard, source.id, target.id),
    separatesZones,
    gain: 2 * shard.bytes * (difference - shard.bytes),
  }
}

function isBetter(candidate: Candidate, best: Candidate | undefined): boolean {
  if (best === undefined) return true
  if (candidate.separatesZones !== best.separatesZones) return candidate.separatesZones
  return candidate.gain > best.gain
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
