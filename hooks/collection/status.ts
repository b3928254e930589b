/** Phase, conditions and all other status fields of a VecCollection. */
import type { VecCluster, ClusterStatus } from '../../crds/cluster.ts'
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { ShardReplicas } from '../../crds/engine/collections.ts'
import { getCondition, setConditions, type ConditionUpdate } from '../conditions.ts'
import { collectionNameOf } from '../../crds/collection-ownership.ts'
import { isReshardingOn } from '../cluster/validation.ts'
import type { ObservedFields, ReconcileResult } from './result.ts'
import { formatBytes } from '../../crds/units.ts'

/** Maximum length of a condition message; `status.error` holds the longer text. */
const MAX_MESSAGE = 1024
const MAX_ERROR = 32 * 1024

/** The status after a reconcile. Fields that it could not determine keep their values. */
export function collectionStatus(
  collection: VecCollection,
  result: ReconcileResult,
  { now, cluster }: { now: Date; cluster?: VecCluster | undefined },
): CollectionStatus {
  const { status: previous = {} } = collection
  const phase = result.phase ?? previous.phase ?? 'Pending'
  const error = result.phase === undefined ? previous.error : errorOf(result)
  return {
    phase,
    collectionName: collectionNameOf(collection),
    ...(result.fields ?? previousFields(previous)),
    ...(error !== undefined && { error }),
    conditions: setConditions(collection, findings(collection, result, cluster), now),
  }
}

function errorOf({ phase, message }: ReconcileResult): string | undefined {
  return phase === 'Ready' ? undefined : message.slice(0, MAX_ERROR)
}

function previousFields(previous: CollectionStatus): ObservedFields {
  const names = [
    'health',
    'pointsCount',
    'indexedVectorsCount',
    'segmentsCount',
    'payloadIndexes',
    'aliases',
    'ignored',
  ] as const
  return Object.fromEntries(
    names.flatMap((name) => (previous[name] === undefined ? [] : [[name, previous[name]]])),
  )
}

function findings(
  collection: VecCollection,
  result: ReconcileResult,
  cluster: VecCluster | undefined,
): ConditionUpdate[] {
  const { phase, reason, message } = result
  const ready: ConditionUpdate = {
    type: 'Ready',
    status: phase === 'Ready' ? 'True' : 'False',
    reason,
    message: message.slice(0, MAX_MESSAGE),
  }
  const replicated = result.replicated ?? previousReplication(collection, result)
  const reshardable = cluster && isReshardingOn(cluster.spec) ? cluster : undefined
  const resharding = reshardingCondition(collection, reshardable, result.liveShards)
  return [ready, replicated, resharding].filter((update) => update !== undefined)
}

/**
 * The condition was not checked this time: keep the previous one, and the generation that it is about, if the spec
 * still requests it.
 */
function previousReplication(
  collection: VecCollection,
  { isUnobserved, reason, message }: ReconcileResult,
): ConditionUpdate | undefined {
  const previous = getCondition(collection, 'Replicated')
  const isRequested = collection.spec.replicationFactor !== undefined
  if (previous === undefined || !isRequested) return undefined
  if (isUnobserved !== true) return previous
  return { type: 'Replicated', status: 'Unknown', reason, message: message.slice(0, MAX_MESSAGE) }
}

/**
 * Whether each shard has as many Active replicas as the spec asks for. A PATCH of the replication factor
 * alone does not create replicas.
 */
export function replicationCondition(
  factor: number,
  { local_shards, remote_shards }: ShardReplicas,
): ConditionUpdate {
  const active = new Map<number, number>()
  for (const { shard_id, state } of [...local_shards, ...remote_shards]) {
    active.set(shard_id, (active.get(shard_id) ?? 0) + (state === 'Active' ? 1 : 0))
  }
  const desiredCount = active.size * factor
  // A surplus replica of one shard does not compensate for a missing replica of another.
  const activeCount = [...active.values()].reduce((sum, count) => sum + Math.min(count, factor), 0)
  const message = `${activeCount} of ${desiredCount} replicas are Active`
  return activeCount < desiredCount
    ? { type: 'Replicated', status: 'False', reason: 'ReplicasMissing', message }
    : { type: 'Replicated', status: 'True', reason: 'AllReplicasActive', message }
}

/** The condition Resharding: what becomes of spec.shardNumber. Undefined if the number of shards is not the operator's. */
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
    const { direction, shard, stage, points } = shards.resharding
    const copied = points && `, about ${points.copied} of ${points.total} points are copied`
    const progress = `${copied ?? ''}${progressOf(shards, name)}`
    const change =
      direction === 'up'
        ? `shard ${shard} is being added, stage ${stage}${progress}`
        : `shard ${shard} is being removed, stage ${stage}${progress}`
    const message = `${change}; desired are ${desired} shards; ${outlook(shards.resharding, desired)}`
    return reshardingUpdate('True', 'Resharding', message)
  }
  // Not checked this time.
  if (liveShards === undefined) return getCondition(collection, 'Resharding')
  if (liveShards === desired) {
    return reshardingUpdate(
      'False',
      'ShardNumberReached',
      `${liveShards} shards, as in spec.shardNumber`,
    )
  }
  const message = `${liveShards} shards, desired ${desired}${placementCause(collection, cluster)}`
  return reshardingUpdate('False', 'ReshardingPending', message)
}

/** Users of another namespace must not read the names of its collections, which the message of the cluster may have. */
function placementCause(
  { metadata: { namespace } }: VecCollection,
  cluster: Pick<VecCluster, 'status' | 'metadata'>,
): string {
  const placed = getCondition(cluster, 'ShardsPlaced')
  if (placed?.status !== 'False') return ''
  const cause = `: the cluster has ${placed.reason}`
  return cluster.metadata.namespace === namespace
    ? `${cause}: ${placed.message}`
    : `${cause}; the condition ShardsPlaced of the VecCluster, in namespace ${cluster.metadata.namespace}, has the details`
}

type Resharding = NonNullable<NonNullable<ClusterStatus['shards']>['resharding']>

/** Whether a user can still change their mind. The shard that is added or removed has the highest id. */
function outlook({ direction, shard, stage }: Resharding, desired: number): string {
  const former = direction === 'up' ? shard : shard + 1
  const isDesired = direction === 'up' ? desired > former : desired < former
  switch (stage) {
    case 'unknown':
      return 'it is aborted, if that is still possible: its record is lost'
    case 'migrate':
      return isDesired
        ? `setting spec.shardNumber to ${former} aborts it`
        : 'it is aborted, because spec.shardNumber was set back'
    case 'commit':
    case 'check':
      return 'it can only be completed: reads use the new number of shards'
  }
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

function reshardingUpdate(
  status: ConditionUpdate['status'],
  reason: string,
  message: string,
): ConditionUpdate {
  return { type: 'Resharding', status, reason, message: message.slice(0, MAX_MESSAGE) }
}
