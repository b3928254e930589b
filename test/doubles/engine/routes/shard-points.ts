/** POST /collections/{c}/shards/{id}/points/{count,scroll}: the points of the copy on this node (engine 1.12 on). */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { belonging, cleanShard } from '../resharding.ts'
import { pointsOn } from '../shard-points.ts'
import { checkExact, checkTimeout } from '../strict.ts'
import { found, isUnreadable } from './collections.ts'
import { pageOf, type Selection } from './points.ts'

const VERBS = ['count', 'scroll']

export function shardPointRoutes(
  { method, path, query, body }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, name = '', part, id = '', points, verb, ...rest] = path
  if (root !== 'collections' || part !== 'shards' || points !== 'points') return undefined
  if (method !== 'POST' || !VERBS.includes(verb ?? '') || rest.length > 0) return undefined
  const collection = found(cluster, name)
  const selection = (body ?? {}) as Selection
  checkTimeout(collection, query['timeout'])
  if (verb === 'count') checkExact(collection, selection.exact ?? true)
  const shard =
    collection.shards.find((one) => one.id === Number(id)) ??
    refuse(404, `Not found: shard ${id} not found`)
  if (cluster.enabled && !shard.peers.includes(cluster.peer(ordinal).id)) {
    refuse(500, `Service internal error: Local shard ${id} not found`)
  }
  if (isUnreadable(shard, ordinal)) {
    refuse(500, `Service internal error: Failed to ${verb},  Local shard ${id} is not loaded`)
  }
  const stored = pointsOn(collection, shard, cluster.peer(ordinal))
  const held = stored.slice(0, Math.max(0, stored.length - (shard.deferredOn?.[ordinal] ?? 0)))
  if (verb !== 'count') return ok(pageOf(collection, held, selection))
  const { hash_ring_filter: ring } = selection as {
    hash_ring_filter?: { expected_shard_id: number }
  }
  const counted = ring == null ? held : belonging(collection, held, ring.expected_shard_id)
  return ok({ count: counted.length })
}

/** POST /collections/{c}/shards/{id}/cleanup: deletes the points of other shards on this node. */
export function cleanupRoutes(
  { method, path }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, name = '', part, id = '', verb, ...rest] = path
  if (root !== 'collections' || part !== 'shards' || verb !== 'cleanup') return undefined
  if (method !== 'POST' || rest.length > 0) return undefined
  const collection = found(cluster, name)
  const shard =
    collection.shards.find((one) => one.id === Number(id)) ??
    refuse(404, `Not found: Shard ${id} not found`)
  const { id: peer } = cluster.peer(ordinal)
  if (!shard.peers.includes(peer)) {
    refuse(404, `Not found: Shard ${id} is not a local shard`)
  }
  cleanShard(collection, shard, peer)
  return ok({ status: 'completed' })
}
