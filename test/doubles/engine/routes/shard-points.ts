/** POST /collections/{c}/shards/{id}/points/{count,scroll}: the points of the copy on this node (engine 1.12 on). */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
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
  const held = pointsOn(collection, shard, ordinal)
  return ok(verb === 'count' ? { count: held.length } : pageOf(collection, held, selection))
}
