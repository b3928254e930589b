/** Removes the nodes with the highest ordinals, once they hold no shard. */
import {
  absentNode,
  activeElsewhere,
  formatList,
  hasTransfer,
  leavingPeers,
  requiredReplicas,
  shardsOf,
} from './queries.ts'
import {
  addReplica,
  dropOf,
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
  const unfit = tooFewNodes(view, desired)
  if (unfit !== undefined) return unfit
  const absent = absentNode(view, desired)
  if (absent !== undefined) {
    return { is: 'waiting', purpose, message: `${absent} does not answer` }
  }
  const leaving = leavingPeers(view, desired).filter(({ ordinal }) => ordinal === view.nodes - 1)
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
      blocked ??= transferInProgress(view)
      continue
    }
    const others = activeElsewhere(view, shard, peer.id)
    const required = requiredReplicas(view, shard, desired.nodes)
    // A replica that is not Active contributes nothing: any Active one makes it dispensable.
    const enough = replica.state === 'Active' ? required : 1
    const plan =
      others.length >= enough
        ? planned(purpose, dropOf(shard, peer.id))
        : addReplica(view, desired, purpose, shard)
    if (plan.is === 'step') return plan
    blocked ??= plan
  }
  return blocked
}

/** Fewer nodes than replicas would leave shards with fewer replicas than they have. */
function tooFewNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  if (desired.allowsFewerReplicas) return undefined
  const unfit = view.collections.filter(
    ({ factor }) => Math.min(factor, view.nodes) > desired.nodes,
  )
  if (unfit.length === 0) return undefined
  const names = unfit.map(({ name, factor }) => `"${name}" has replication factor ${factor}`)
  return refused(
    'NotEnoughNodes',
    `spec.replicas: ${view.nodes} -> ${desired.nodes}: ${formatList(names)}; lower the factor of the collections, keep more nodes, or accept fewer replicas with the annotation vec-operator.dev/accept-risk: fewer-replicas`,
  )
}
