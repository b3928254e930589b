/** Steps and transfers as logs and the status show them. */
import type { ShardTransfer } from '../../clients/engine/shards.ts'
import { formatList, nodeName, peerName } from './queries.ts'
import { isReshardingStep, type ReshardingStep, type Step } from './step.ts'
import { unavailableCollections } from './update.ts'
import type { ClusterView } from './view.ts'

export function describeStep(view: ClusterView, step: Step): string {
  if (isReshardingStep(step)) return describeResharding(view, step)
  switch (step.do) {
    case 'replicate':
      return describeTransfer(view, step)
    case 'repair':
      return `${step.collection}/${step.shard}: repairing the replica on ${peerName(view, step.to)} from ${peerName(view, step.from)}`
    case 'drop':
      return `${step.collection}/${step.shard}: dropping the replica on ${peerName(view, step.peer)}`
    case 'removePeer':
      if (step.isUnlisted === true) {
        return `removing the replicas of peer ${step.peer}, which no node lists, from the cluster`
      }
      return `removing ${nodeName({ id: step.peer, ...(step.ordinal !== undefined && { ordinal: step.ordinal }) })} from the cluster`
    case 'scaleDown':
      return `lowering the StatefulSet to ${step.nodes} pods`
    case 'updateNode':
      return `updating node ${step.ordinal}${unavailableNote(view, step.ordinal)}`
  }
}

export function describeResharding(view: ClusterView, step: ReshardingStep): string {
  switch (step.do) {
    case 'startResharding':
      return step.direction === 'up'
        ? `${step.collection}: adding shard ${step.shard} on ${peerName(view, step.peer)}`
        : `${step.collection}: removing shard ${step.shard}`
    case 'streamPoints':
      return describeTransfer(view, step)
    case 'finishMigration':
      return `${step.collection}/${step.shard}: activating the replica on ${peerName(view, step.peer)}`
    case 'commitRead':
      return `${step.collection}: reading from the new shards`
    case 'cleanReplica':
      return `${step.collection}/${step.shard}: deleting the points of shard ${step.target} on ${peerName(view, step.peer)}`
    case 'commitWrite':
      return `${step.collection}: writing to the new shards only`
    case 'finishResharding':
      return `${step.collection}: completing the resharding`
    case 'checkReplica':
      return `${step.collection}/${step.shard}: checking the replica on ${peerName(view, step.peer)}`
    case 'abortResharding':
      return `${step.collection}: aborting the resharding`
  }
}

/** What is not available while the node restarts. */
export function unavailableNote(view: ClusterView, ordinal: number): string {
  const names = unavailableCollections(view, ordinal)
  if (names.length === 0) return ''
  return `; shards of ${formatList(names)} are not available until it is ready`
}

export function describeTransfer(
  view: ClusterView,
  { collection, shard, from, to, toShard }: ShardTransfer,
) {
  if (toShard !== undefined) {
    return `${collection}/${shard}: copying points to shard ${toShard}, from ${peerName(view, from)} to ${peerName(view, to)}`
  }
  return `${collection}/${shard}: replicating from ${peerName(view, from)} to ${peerName(view, to)}`
}
