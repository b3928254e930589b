/** Removes the nodes with the highest ordinals, once they hold no shard. */
import { nodeDefect, replicaDefect } from './defects.ts'
import {
  absentNode,
  activeElsewhere,
  describeShard,
  formatList,
  hasTransfer,
  retainedReplicas,
  leavingPeers,
  nodeName,
  shardsOf,
  type Shard,
} from './queries.ts'
import { SELF_REPAIR_SECONDS } from './repair.ts'
import {
  addReplica,
  planDrop,
  planned,
  refused,
  removalOf,
  transferInProgress,
  type Plan,
} from './step.ts'
import type { ClusterView, DesiredShards, PeerView } from './view.ts'

/** One node at a time, the highest first: its replicas, then its peer, then its pod. */
export function drainNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const purpose = 'scale-in'
  if (view.nodes <= desired.nodes) return undefined
  const leaving = leavingPeers(view, desired).filter(({ ordinal }) => ordinal === view.nodes - 1)
  // A pod without a peer holds no replica.
  const unfit = leaving.length === 0 ? undefined : tooFewNodes(view, desired)
  if (unfit !== undefined) return unfit
  const absent = absentNode(view, desired)
  if (absent !== undefined) {
    return { is: 'waiting', purpose, message: `${absent} does not answer` }
  }
  for (const peer of leaving) {
    const drained = drainPeer(view, desired, peer)
    if (drained !== undefined) return drained
  }
  const [peer] = leaving
  if (peer !== undefined) return planned(purpose, removalOf(peer))
  return planned(purpose, { do: 'scaleDown', nodes: view.nodes - 1 })
}

function drainPeer(view: ClusterView, desired: DesiredShards, peer: PeerView): Plan | undefined {
  const purpose = 'scale-in'
  let blocked: Plan | undefined
  for (const shard of shardsOf(view)) {
    const replica = shard.replicas.find((entry) => entry.peer === peer.id)
    if (replica === undefined) continue
    if (hasTransfer(view, shard)) {
      // A replica of a resharding may have no transfer that is listed: its node is not removed either.
      const message = `${describeShard(shard)} on ${nodeName(peer)} is ${replica.state}`
      blocked ??= transferInProgress(view) ?? { is: 'waiting', purpose, message }
      continue
    }
    const others = activeElsewhere(view, shard, peer.id)
    const retained = retainedReplicas(view, shard, desired)
    const isMissed = replica.state === 'Dead' && others.length < retained
    if (isMissed && mayRecover(shard, peer, desired)) {
      const message = `${describeShard(shard)} on ${nodeName(peer)} is Dead; the engine usually repairs it`
      blocked ??= { is: 'waiting', purpose, message }
      continue
    }
    // Nodes write to a Disputed replica too. Any other one that is not Active contributes nothing.
    const contributes = replica.state === 'Active' || replica.state === 'Disputed'
    const enough = contributes ? retained : 1
    // A move: the new replica takes the place of this one, also if the scale-in is cancelled before this one is dropped.
    const plan =
      others.length >= enough
        ? planDrop(view, desired, purpose, { shard, peer: peer.id })
        : addReplica(view, desired, purpose, shard, peer.id)
    if (plan.is === 'step') return plan
    blocked ??= plan
  }
  return blocked
}

/**
 * A write that its node has missed makes a replica Dead for moments. Without repair, the shard would have one replica
 * less from then on.
 */
function mayRecover({ collection, id }: Shard, peer: PeerView, desired: DesiredShards): boolean {
  if (desired.repair) return false
  const { ordinal, isMember } = peer
  const isAbsent = !isMember && ordinal !== undefined
  const defect = isAbsent ? nodeDefect(ordinal) : replicaDefect(collection, id, peer.id)
  return desired.defectSeconds(defect) < SELF_REPAIR_SECONDS
}

/** Fewer nodes than replicas would leave shards with fewer replicas than they have. */
function tooFewNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (desired.allowsFewerReplicas) return undefined
  const needed = view.collections.flatMap(({ name, factor }) =>
    Math.min(factor, view.nodes) > desired.nodes
      ? [`"${name}" has replication factor ${factor}`]
      : [],
  )
  for (const shard of shardsOf(view)) {
    const retained = retainedReplicas(view, shard, { ...desired, nodes: view.nodes })
    const isNamed = Math.min(shard.factor, view.nodes) > desired.nodes
    if (shard.key === undefined || isNamed || retained <= desired.nodes) continue
    needed.push(
      `shard key ${JSON.stringify(shard.key)} of "${shard.collection}" has ${retained} replicas`,
    )
  }
  if (needed.length === 0) return undefined
  return refused(
    'NotEnoughNodes',
    `spec.replicas: ${view.nodes} -> ${desired.nodes}: ${formatList(needed)}; lower the factor of the collections, keep more nodes, or accept fewer replicas with the annotation vec-operator.dev/accept-risk: fewer-replicas`,
  )
}
