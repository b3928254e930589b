/** The condition Resharding of a VecCollection: what becomes of spec.shardNumber. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import { formatBytes } from '../../crds/units.ts'
import { getCondition, type ConditionUpdate } from '../conditions.ts'
import { collectionNameOf } from './ownership.ts'

const MAX_MESSAGE = 1024

/** Undefined if the number of shards is not the operator's. */
export function reshardingCondition(
  collection: VecCollection,
  cluster: Pick<VecCluster, 'status' | 'metadata'> | undefined,
  liveShards: number | undefined,
): ConditionUpdate | undefined {
  const { shardNumber: desired, shardingMethod } = collection.spec
  if (cluster === undefined || desired === undefined || shardingMethod === 'custom') {
    return undefined
  }
  const name = collectionNameOf(collection)
  const shards = cluster.status?.shards
  if (shards?.resharding?.collection === name) {
    const { direction, shard, stage } = shards.resharding
    const progress = progressOf(shards, name)
    const message =
      direction === 'up'
        ? `shard ${shard} is being added, stage ${stage}${progress}; desired are ${desired} shards`
        : `shard ${shard} is being removed, stage ${stage}${progress}; desired are ${desired} shards`
    return update('True', 'Resharding', message)
  }
  if (liveShards === undefined) return previousCondition(collection)
  if (liveShards === desired) {
    return update('False', 'ShardNumberReached', `${liveShards} shards, as in spec.shardNumber`)
  }
  const placed = getCondition(cluster, 'ShardsPlaced')
  const cause =
    placed?.status === 'False' ? `: the cluster has ${placed.reason}: ${placed.message}` : ''
  return update('False', 'ReshardingPending', `${liveShards} shards, desired ${desired}${cause}`)
}

/** The step in progress, if it is about the collection, its throughput and the time that is left. */
function progressOf(
  { step, bytesPerSecond, secondsLeft }: NonNullable<ClusterStatus['shards']>,
  name: string,
): string {
  if (step === undefined || !(step.startsWith(`${name}/`) || step.startsWith(`${name}:`))) return ''
  const rate = bytesPerSecond === undefined ? '' : `, ${formatBytes(bytesPerSecond)}/s`
  const left = secondsLeft === undefined ? '' : `, about ${secondsLeft} s left`
  return `: ${step}${rate}${left}`
}

function previousCondition(collection: VecCollection): ConditionUpdate | undefined {
  const previous = getCondition(collection, 'Resharding')
  return previous && update(previous.status, previous.reason, previous.message)
}

function update(
  status: ConditionUpdate['status'],
  reason: string,
  message: string,
): ConditionUpdate {
  return { type: 'Resharding', status, reason, message: message.slice(0, MAX_MESSAGE) }
}
