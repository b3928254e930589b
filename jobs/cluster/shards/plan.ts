/**
 * The next step from what a cluster is to what it should be: a pure function, used by the Job, by
 * the service to decide whether a Job is due, and by the command line to show the steps.
 *
 * Three rules hold for every step. A replica is dropped only while another replica of its shard is
 * Active on a node that answers. An Active replica is dropped only if enough Active ones remain:
 * the replication factor, or as many as there are nodes. A node is restarted only if each shard on it
 * has another Active replica, unless its collection has single replicas.
 */
import { bestMove } from './balance.ts'
import { drainNodes } from './drain.ts'
import {
  absentNode,
  activeElsewhere,
  activeHolders,
  findShard,
  hasTransfer,
  holds,
  requiredReplicas,
} from './queries.ts'
import { repairReplicas, replaceLostNodes } from './repair.ts'
import { dropOf, planned, transferInProgress, type Plan } from './step.ts'
import { updateFailedNode, updateNodes } from './update.ts'
import type { ClusterView, DesiredShards } from './view.ts'

/** In order of priority: what protects data comes before what saves space. */
export function planShards(view: ClusterView, desired: DesiredShards): Plan {
  const failed = updateFailedNode(view, desired)
  if (failed !== undefined) return failed
  if (view.broken !== undefined) return { is: 'refused', ...view.broken }
  if (view.unsettled !== undefined) {
    return { is: 'waiting', purpose: 'agreement', message: view.unsettled }
  }
  const lost = replaceLostNodes(view, desired)
  if (lost?.is === 'step') return lost
  const moved = finishMoves(view, desired)
  if (moved !== undefined) return moved
  const repaired = desired.repair ? repairReplicas(view, desired) : undefined
  if (repaired?.is === 'step' || repaired?.is === 'waiting') return repaired
  if (lost !== undefined) return lost
  const drained = drainNodes(view, desired)
  if (drained !== undefined) return drained
  const updated = updateNodes(view, desired)
  if (updated !== undefined) return updated
  // A defect that cannot be repaired must not keep a node from being removed.
  if (repaired !== undefined) return repaired
  return balance(view, desired) ?? transferInProgress(view) ?? { is: 'done' }
}

/** A move that was begun ends, whatever else is due: until then the shard has a replica too many. */
function finishMoves(view: ClusterView, { moves, nodes }: DesiredShards): Plan | undefined {
  for (const move of moves) {
    const shard = findShard(view, move)
    if (shard === undefined || hasTransfer(view, shard) || !holds(shard, move.from)) continue
    if (!activeHolders(view, shard).includes(move.to)) continue
    const remaining = activeElsewhere(view, shard, move.from)
    if (remaining.length < requiredReplicas(view, shard, nodes)) continue
    return planned('balance', dropOf(shard, move.from))
  }
  return undefined
}

function balance(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (!desired.balance) return undefined
  const absent = absentNode(view, desired)
  // Done would mean that the shards are balanced over all nodes.
  if (absent !== undefined) {
    return { is: 'waiting', purpose: 'balance', message: `${absent} does not answer` }
  }
  const move = bestMove(view, desired)
  if (move === undefined) return undefined
  const shard = findShard(view, move)
  if (shard === undefined) return undefined
  return planned('balance', { do: 'replicate', ...move, move }, shard.bytes)
}
