/** POST /collections/{c}/shards/{id}/points/count: the points of the copy on this node (engine 1.12 on). */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { pointsOn } from '../shard-points.ts'
import { checkExact, checkTimeout } from '../strict.ts'
import { found } from './collections.ts'

export function shardPointRoutes(
  { method, path, query, body }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, name = '', part, id = '', points, verb, ...rest] = path
  if (root !== 'collections' || part !== 'shards' || points !== 'points') return undefined
  if (method !== 'POST' || verb !== 'count' || rest.length > 0) return undefined
  const collection = found(cluster, name)
  checkTimeout(collection, query['timeout'])
  checkExact(collection, (body as { exact?: boolean } | undefined)?.exact ?? true)
  const shard =
    collection.shards.find((one) => one.id === Number(id)) ??
    refuse(404, `Not found: Shard ${id} not found`)
  if (cluster.enabled && !shard.peers.includes(cluster.peer(ordinal).id)) {
    refuse(500, `Service internal error: Local shard ${id} not found`)
  }
  return ok({ count: pointsOn(collection, shard, ordinal) })
}
