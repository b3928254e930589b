/** What a view and the record of the Job become after a step of a resharding (simulate.ts). */
import type { ReshardingRecord } from '../../../crds/contract/shards-job.ts'
import { recordAfterStep, streamedKey } from './resharding.ts'
import type { ReshardingStep, Step } from './step.ts'
import type { ClusterView, CollectionView, DesiredShards, ReplicaView, ShardView } from './view.ts'

export function afterResharding(view: ClusterView, step: ReshardingStep): ClusterView {
  const collections = view.collections.map((collection) =>
    collection.name === step.collection ? collectionAfter(collection, step) : collection,
  )
  return { ...view, collections }
}

function collectionAfter(collection: CollectionView, step: ReshardingStep): CollectionView {
  const { resharding, ...idle } = collection
  const { shards } = collection
  switch (step.do) {
    case 'startResharding': {
      const { direction, shard, peer } = step
      const started = { uuid: SIMULATED, direction, shard, peer }
      if (direction === 'down') return { ...collection, resharding: started }
      const replicas: ReplicaView[] = [{ peer, state: 'Resharding' }]
      const bytes = Math.ceil(bytesOf(shards) / (shards.length + 1))
      return {
        ...collection,
        resharding: started,
        shards: [...shards, { id: shard, bytes, replicas }],
      }
    }
    case 'streamPoints':
      return withReplica(collection, { shard: step.toShard, peer: step.to, state: 'Resharding' })
    case 'finishMigration':
      return withReplica(collection, { ...step, state: 'Active' })
    case 'finishResharding':
      return resharding?.direction === 'down'
        ? { ...idle, shards: shards.filter(({ id }) => id !== resharding.shard) }
        : idle
    case 'abortResharding':
      return resharding?.direction === 'up'
        ? { ...idle, shards: shards.filter(({ id }) => id !== resharding.shard) }
        : { ...idle, shards: shards.map(activated) }
    case 'commitRead':
    case 'cleanReplica':
    case 'commitWrite':
    case 'checkReplica':
      return collection
  }
}

/** Not the id of a resharding in progress: its record has the same. */
const SIMULATED = 'simulated'

export function recordAfter(
  { resharding }: DesiredShards,
  step: Step,
): Pick<DesiredShards, 'resharding'> {
  if (resharding === undefined) return {}
  const { current, ...rest } = resharding
  const record = nextRecord(current, step)
  return { resharding: { ...rest, ...(record !== undefined && { current: record }) } }
}

function nextRecord(
  current: ReshardingRecord | undefined,
  step: Step,
): ReshardingRecord | undefined {
  if (step.do === 'startResharding') {
    const { collection, direction, shard, peer } = step
    return { collection, uuid: SIMULATED, direction, shard, peer, stage: 'migrate', done: [] }
  }
  if (current === undefined) return undefined
  if (step.do === 'streamPoints') {
    return { ...current, done: [...current.done, streamedKey(current, step)] }
  }
  return recordAfterStep(current, step)
}

function withReplica(
  collection: CollectionView,
  { shard, peer, state }: { shard: number; peer: number; state: ReplicaView['state'] },
): CollectionView {
  const shards = collection.shards.map((one) =>
    one.id === shard
      ? {
          ...one,
          replicas: one.replicas.map((replica) =>
            replica.peer === peer ? { peer, state } : replica,
          ),
        }
      : one,
  )
  return { ...collection, shards }
}

function activated(shard: ShardView): ShardView {
  const replicas = shard.replicas.map(({ peer, state }) => ({
    ...{ peer, state: state === 'Resharding' ? ('Active' as const) : state },
  }))
  return { ...shard, replicas }
}

function bytesOf(shards: readonly ShardView[]): number {
  return shards.reduce((sum, { bytes }) => sum + bytes, 0)
}
