/**
 * The next step from what a cluster is to what it should be: a pure function, used by the Job, by
 * the service to decide whether a Job is due, and by the command line to show the steps.
 *
 * Three rules hold for every step. A replica is dropped only while another replica of its shard is
 * Active on a node that answers. An Active replica is dropped only if enough Active ones remain:
 * the replication factor, or as many as there are nodes. A node is restarted only if each shard on it
 * has another Active replica, unless its collection has single replicas.
 */
import { bestMove, moveOnceComplete } from './balance.ts'
import { drainNodes } from './drain.ts'
import {
  absentNode,
  activeElsewhere,
  activeHolders,
  findMoved,
  findShard,
  hasTransfer,
  holds,
  retainedReplicas,
  leavingPeers,
  peerName,
  type Shard,
} from './queries.ts'
import { replaceLostNodes, repairReplicas } from './repair.ts'
import { continueResharding, currentResharding, startResharding } from './resharding.ts'
import { planDrop, planned, refused, transferInProgress, type Plan } from './step.ts'
import { removeUnlistedPeer } from './unlisted-peers.ts'
import { updateFailedNode, updateNodes } from './update.ts'
import type { ClusterView, DesiredShards, Move } from './view.ts'

/** In order of priority: what protects data comes before what saves space. */
export function planShards(view: ClusterView, desired: DesiredShards): Plan {
  const failed = updateFailedNode(view, desired)
  if (failed !== undefined) return failed
  if (view.broken !== undefined) return { is: 'refused', ...view.broken }
  if (view.unsettled !== undefined) {
    return { is: 'waiting', purpose: 'agreement', message: view.unsettled }
  }
  const resharding = continueResharding(view, desired)
  if (resharding?.is === 'step') return resharding
  const lost = replaceLostNodes(view, desired)
  if (lost?.is === 'step') return lost
  const unlisted = removeUnlistedPeer(view)
  if (unlisted !== undefined) return unlisted
  const moved = finishMoves(view, desired)
  if (moved?.is === 'step') return moved
  const repaired = desired.repair ? repairReplicas(view, desired) : undefined
  if (repaired?.is === 'step') return repaired
  if (resharding !== undefined) {
    const unrepaired = repaired?.is === 'refused' ? stuckResharding(view, desired) : undefined
    return resharding.is === 'waiting' ? (unrepaired ?? resharding) : resharding
  }
  if (repaired?.is === 'waiting') return repaired
  if (lost !== undefined) return lost
  // Else one copy after the other would keep the replicas that were moved.
  if (moved?.is === 'waiting') return moved
  const drained = drainNodes(view, desired)
  if (drained !== undefined) return drained
  const updated = updateNodes(view, desired)
  if (updated !== undefined) return updated
  // A defect that cannot be repaired must not keep a node from being removed, nor other shards where they are.
  const started = startResharding(view, desired)
  if (started?.is === 'step') return started
  const balanced = started === undefined ? balance(view, desired) : undefined
  if (balanced?.is === 'step') return balanced
  return repaired ?? started ?? balanced ?? moved ?? transferInProgress(view) ?? { is: 'done' }
}

/** The shard of the collection in resharding that nothing can repair: a user has to know what it waits for. */
function stuckResharding(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (view.transfers.length > 0) return undefined
  const current = currentResharding(view, desired)
  const collections = view.collections.filter(({ name }) => name === current?.collection)
  const plan = repairReplicas({ ...view, collections }, desired)
  return plan?.is === 'refused' ? plan : undefined
}

/** A move that was begun ends or is undone, whatever else is due: until then the shard has a replica too many. */
function finishMoves(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const { moves } = desired
  let waiting: Plan | undefined
  const leaving = leavingPeers(view, desired).map(({ id }) => id)
  for (const move of moves) {
    const shard = findMoved(view, move)
    if (shard === undefined || hasTransfer(view, shard) || !holds(shard, move.from)) continue
    const hasFewerPoints = desired.hasFewerPoints?.(move) === true
    const isComplete = activeHolders(view, shard).includes(move.to) && !hasFewerPoints
    if (!isComplete && !hasFewerPoints && !hasFailed(shard, move)) continue
    const dispensable = isComplete ? move.from : move.to
    const remaining = activeElsewhere(view, shard, dispensable)
    if (remaining.length < retainedReplicas(view, shard, desired)) continue
    const purpose = leaving.includes(move.from) ? 'scale-in' : purposeOf(view, shard, move)
    const drop = { shard, peer: dispensable, isUndo: !isComplete }
    const plan = planDrop(view, desired, purpose, drop)
    if (plan.is === 'step') return plan
    waiting ??= plan
  }
  return waiting
}

/** A replica that is not Active was not moved, but replaced. */
function purposeOf(view: ClusterView, shard: Shard, { from }: Move): 'balance' | 'repair' {
  return activeHolders(view, shard).includes(from) ? 'balance' : 'repair'
}

/**
 * The engine would repeat the copy to this node without end, also if the node has no space for it. The replica is not
 * missed: the source of the move has all points.
 */
function hasFailed({ replicas }: Shard, { to }: Move): boolean {
  return replicas.some(
    ({ peer, state }) => peer === to && (state === 'Dead' || state === 'Disputed'),
  )
}

function balance(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (!desired.balance) return undefined
  const absent = absentNode(view, desired)
  // Done would mean that the shards are balanced over all nodes.
  if (absent !== undefined) {
    return { is: 'waiting', purpose: 'balance', message: `${absent} does not answer` }
  }
  const move = bestMove(view, desired)
  if (move === undefined) return failedBalance(view, desired) ?? awaitedMove(view, desired)
  const shard = findShard(view, move)
  if (shard === undefined) return undefined
  const { collection, from, to } = move
  return planned(
    'balance',
    { do: 'replicate', collection, shard: shard.id, from, to, move },
    shard.bytes,
  )
}

/** Done would mean that it is where it should be, and with `OnScale` it would never be moved. */
function awaitedMove(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (view.transfers.length > 0) return undefined
  const move = moveOnceComplete(view, desired)
  if (move === undefined) return undefined
  const { collection, shard, to } = move
  const message = `${collection}/${shard} is moved to ${peerName(view, to)} once all of its replicas are Active`
  return { is: 'waiting', purpose: 'balance', message, isExternal: true }
}

/** Done would mean that no shard has to be moved. */
function failedBalance(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const { closedTargets, ...all } = desired
  if (closedTargets === undefined || view.transfers.length > 0) return undefined
  const failure = closedTargets.get(bestMove(view, all)?.to ?? NaN)
  return failure === undefined ? undefined : refused('TransferFailed', failure)
}
