/** Events of a VecCluster about the numbers of shards of its collections: one for each stage of each change. */
import type { ClusterStatus, VecCluster } from '../../../crds/cluster.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { newEvent } from '../../events.ts'

type Resharding = NonNullable<NonNullable<ClusterStatus['shards']>['reshardings']>[number]
type Stage = Resharding['stage']

/**
 * Of the stages that the status does not have yet. If that status was lost, an Event of the same name exists
 * already.
 */
export function reshardingEvents(
  cluster: VecCluster,
  reshardings: readonly Resharding[],
  now: Date,
): KubernetesEvent[] {
  const recorded = new Map(
    (cluster.status?.shards?.reshardings ?? []).map(({ id, stage }) => [id, stagesUntil(stage)]),
  )
  return reshardings.flatMap((resharding) =>
    stagesUntil(resharding.stage)
      .filter((stage) => recorded.get(resharding.id)?.includes(stage) !== true)
      .map((stage) => {
        const event = eventOf(resharding, stage)
        const transition = `${resharding.id}/${stage}`
        return newEvent(cluster, { type: 'Normal', ...event, transition }, now)
      }),
  )
}

/** Several may have been passed since the last status. */
function stagesUntil(stage: Stage): readonly Stage[] {
  switch (stage) {
    case 'migrate':
      return ['migrate']
    case 'commit':
      return ['migrate', 'commit']
    case 'completed':
      return ['migrate', 'commit', 'completed']
    case 'incomplete':
    case 'aborted':
    case 'gone':
      return ['migrate', stage]
  }
}

function eventOf(
  { collection, direction, shard }: Resharding,
  stage: Stage,
): ConditionReason & { type?: 'Warning' } {
  const isAdded = direction === 'up'
  const former = isAdded ? shard : shard + 1
  const change = isAdded ? `adding shard ${shard}` : `removing shard ${shard}`
  switch (stage) {
    case 'migrate':
      return {
        reason: 'ReshardingStarted',
        message: `${collection}: ${change} has begun; setting spec.shardNumber to ${former} aborts it`,
      }
    case 'commit':
      return {
        reason: 'ReshardingCommitted',
        message: `${collection}: ${change} can only be completed from here on: reads use the new number of shards`,
      }
    case 'completed':
      return { reason: 'ReshardingCompleted', message: `${collection}: ${change} is complete` }
    case 'incomplete':
      return {
        type: 'Warning',
        reason: 'ReshardingIncomplete',
        message: `${collection}: ${change} was ended by another client before all points were known to be copied: some may be missing`,
      }
    case 'aborted':
      return {
        reason: 'ReshardingAborted',
        message: `${collection}: ${change} was aborted; it has ${former} shards`,
      }
    case 'gone':
      return {
        reason: 'ReshardingAborted',
        message: `${collection}: ${change} has ended, because the collection was deleted`,
      }
  }
}
