/**
 * Which node currently holds which shard, as seen by the nodes that answer: an unavailable node
 * does not stop the others.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { LocalShard } from '../../../crds/contract/manifest.ts'
import type { BackupClusterInfo } from '../../clients/engine/snapshots.ts'
import { isTransient, retryTransient } from '../../retry.ts'
import { rejectIfDeleted } from '../source-cluster.ts'
import { ordinals, snapshotsForPod, type RunContext } from '../context.ts'
import type { ActiveReplicas } from './scheduler.ts'

/** By the ordinal of the reporting node. */
export type ShardView = ReadonlyMap<number, BackupClusterInfo>

/** Waits, within bounds, until a node answers. */
export function readShardView(collection: string, context: RunContext): Promise<ShardView> {
  return retryTransient(context, () => readShardViewOnce(collection, context))
}

async function readShardViewOnce(collection: string, context: RunContext): Promise<ShardView> {
  const view = new Map<number, BackupClusterInfo>()
  let lastError = new EngineError('there is no node')
  for (const ordinal of ordinals(context)) {
    try {
      const { signal } = context.tools
      view.set(
        ordinal,
        await snapshotsForPod(context, ordinal).collectionCluster(collection, signal),
      )
    } catch (error) {
      if (error instanceof EngineError && error.status === 404)
        await rejectIfDeleted(collection, context)
      if (!isTransient(error)) throw error
      lastError = error
    }
  }
  if (view.size === 0) throw lastError
  return view
}

/**
 * A replica can be streamed only if its node reports it as Active and no node reports another
 * state.
 */
export function activeReplicas(view: ShardView): ActiveReplicas {
  const replicas = new Map<number, number[]>()
  for (const [ordinal, { peer_id, local_shards }] of view) {
    for (const { shard_id, state } of local_shards) {
      if (state !== 'Active' || isReportedInactive(view, shard_id, peer_id)) continue
      replicas.set(shard_id, [...(replicas.get(shard_id) ?? []), ordinal])
    }
  }
  return replicas
}

/** Points of a replica, as counted by its node. */
export function pointCount(view: ShardView, node: number, shardId: number): number | undefined {
  const shards = view.get(node)?.local_shards ?? []
  return shards.find(({ shard_id }) => shard_id === shardId)?.points_count
}

/** Whether any node lists the shard at all. */
export function shardExists(view: ShardView, shardId: number): boolean {
  return listShards(view).some((shard) => shard.shardId === shardId)
}

/** Every shard that at least one node lists. */
export function listShards(view: ShardView): LocalShard[] {
  const shards = new Map<number, LocalShard>()
  for (const { local_shards, remote_shards } of view.values()) {
    for (const { shard_id: shardId, shard_key: shardKey } of [...local_shards, ...remote_shards]) {
      shards.set(shardId, { shardId, ...(shardKey != null && { shardKey }) })
    }
  }
  return [...shards.values()]
}

function isReportedInactive(view: ShardView, shardId: number, peer: number): boolean {
  return [...view.values()].some(({ remote_shards }) =>
    remote_shards.some(
      ({ shard_id, peer_id, state }) =>
        shard_id === shardId && peer_id === peer && state !== 'Active',
    ),
  )
}
