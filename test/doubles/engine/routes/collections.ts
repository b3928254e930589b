/** /collections: their names, making and deleting one, and where its shards are. */
import { failed, ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { Collection, EngineCluster } from '../cluster.ts'

export function collectionRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  const [root, name, part, ...rest] = request.path
  if (root !== 'collections' || rest.length > 0) return undefined
  if (name === undefined) return request.method === 'GET' ? list(cluster) : undefined
  if (part === 'cluster' && request.method === 'GET') return placement(cluster, name, ordinal)
  if (part !== undefined) return undefined
  if (request.method === 'PUT') return create(cluster, name, ordinal, request.body)
  if (request.method === 'DELETE') return remove(cluster, name, ordinal)
  return undefined
}

function list({ collections }: EngineCluster): EngineAnswer {
  return ok({ collections: [...collections.keys()].map((name) => ({ name })) })
}

function create(
  cluster: EngineCluster,
  name: string,
  ordinal: number,
  body: unknown,
): EngineAnswer {
  if (cluster.consensusError(ordinal) !== undefined) return DEAD
  if (cluster.collections.has(name)) {
    return failed(409, `Wrong input: Collection \`${name}\` already exists!`)
  }
  const { shard_number, replication_factor } = body as Record<string, number | undefined>
  cluster.createCollection(name, shard_number, replication_factor)
  return ok(true)
}

function remove(cluster: EngineCluster, name: string, ordinal: number): EngineAnswer {
  if (cluster.consensusError(ordinal) !== undefined) return DEAD
  return ok(cluster.collections.delete(name))
}

const DEAD = failed(500, 'Service internal error: Channel closed: sending on a closed channel')

function placement(cluster: EngineCluster, name: string, ordinal: number): EngineAnswer {
  const collection = cluster.collections.get(name)
  if (collection === undefined) {
    return failed(404, `Not found: Collection \`${name}\` doesn't exist!`)
  }
  if (!cluster.enabled) return ok(alone(collection))
  const { id } = cluster.peer(ordinal)
  const copies = collection.shards.flatMap(({ id: shard_id, peers }) =>
    peers.map((peer_id) => ({ shard_id, peer_id, state: 'Active' })),
  )
  return ok({
    peer_id: id,
    shard_count: collection.shards.length,
    local_shards: copies
      .filter(({ peer_id }) => peer_id === id)
      .map(({ shard_id, state }) => ({ shard_id, points_count: 0, state })),
    remote_shards: copies.filter(({ peer_id }) => peer_id !== id),
    shard_transfers: [],
  })
}

function alone({ shards }: Collection): object {
  return {
    peer_id: 0,
    shard_count: shards.length,
    local_shards: shards.map(({ id }) => ({ shard_id: id, points_count: 0, state: 'Active' })),
    remote_shards: [],
    shard_transfers: [],
  }
}
