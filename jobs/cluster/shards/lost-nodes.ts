/**
 * Replaces nodes that have lost their data: their replicas are dropped, where another node has an Active one,
 * and their peers are removed.
 */
import {
  activeElsewhere,
  describeShard,
  formatList,
  hasTransfer,
  holds,
  nodeName,
  shardsOf,
} from './queries.ts'
import { dropOf, planned, refused, removalOf, type Plan } from './step.ts'
import type { ClusterView, DesiredShards } from './view.ts'

/** Peers whose volume is lost hold nothing: once they are removed, their pods join as new peers. */
export function replaceLostNodes(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const purpose = 'lost node'
  const lastReplicas: string[] = []
  for (const peer of view.peers) {
    if (peer.isMember || !desired.lost.includes(peer.id)) continue
    const held = shardsOf(view).filter((shard) => holds(shard, peer.id))
    for (const shard of held) {
      if (activeElsewhere(view, shard, peer.id).length === 0) {
        lastReplicas.push(`${describeShard(shard)} on ${nodeName(peer)}`)
      } else if (!hasTransfer(view, shard)) {
        return planned(purpose, dropOf(shard, peer.id))
      }
    }
    if (held.length === 0 && !drivesResharding(view, peer.id)) {
      return planned(purpose, removalOf(peer))
    }
  }
  if (lastReplicas.length === 0) return removeFormerPeers(view, desired)
  return refused(
    'LastReplicaLost',
    `no other node has an Active replica of ${formatList(lastReplicas)}: restore these shards from a backup, or delete their collections`,
  )
}

/**
 * Peers of pods that were removed earlier without their peers. What only they hold stays listed: a
 * user accepted that loss when the pods were removed.
 */
function removeFormerPeers(view: ClusterView, { nodes }: DesiredShards): Plan | undefined {
  const purpose = 'lost node'
  for (const peer of view.peers) {
    const isFormer = peer.ordinal !== undefined && peer.ordinal >= Math.max(nodes, view.nodes)
    if (!isFormer || peer.isMember) continue
    const held = shardsOf(view).filter((shard) => holds(shard, peer.id))
    const dispensable = held.find(
      (shard) => !hasTransfer(view, shard) && activeElsewhere(view, shard, peer.id).length > 0,
    )
    if (dispensable !== undefined) return planned(purpose, dropOf(dispensable, peer.id))
    if (held.length === 0 && !drivesResharding(view, peer.id)) {
      return planned(purpose, removalOf(peer))
    }
  }
  return undefined
}

/**
 * The engine aborts a resharding with the peer that it was started on, at any stage: what has been
 * written to the new shard since reads use it would be lost.
 */
function drivesResharding({ collections }: ClusterView, peer: number): boolean {
  return collections.some(({ resharding }) => resharding?.peer === peer)
}
