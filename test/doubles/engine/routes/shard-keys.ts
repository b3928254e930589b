/** /collections/{c}/shards: the keys of custom sharding, each with its own shards. */
import { ok, refuse, refuseTooMany, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { CreateShardKey, DropShardKey } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Collection, Shard, ShardKey } from '../collection.ts'
import { keep } from '../deferred.ts'
import { readBody } from '../read.ts'
import { lockSnapshots } from '../transfers.ts'
import { found, timeoutOf } from './collections.ts'

export function shardKeyRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
): EngineAnswer | undefined {
  const [root, name = '', part, verb, ...rest] = request.path
  if (root !== 'collections' || part !== 'shards' || rest.length > 0) return undefined
  switch (`${request.method} ${verb ?? ''}`) {
    case 'GET ':
      return ok(listed(found(cluster, name)))
    case 'PUT ':
      return create(request, cluster, name)
    case 'POST delete':
      return drop(request, cluster, name)
    default:
      return undefined
  }
}

function listed(collection: Collection): object {
  if (!isCustom(collection)) return {}
  const keys = new Set(collection.shards.flatMap(({ key }) => (key === undefined ? [] : [key])))
  return { shard_keys: [...keys].map((key) => ({ key })) }
}

function create(request: EngineRequest, cluster: EngineCluster, name: string): EngineAnswer {
  timeoutOf(request)
  const body = readBody(CreateShardKey, request.body)
  const collection = found(cluster, name)
  if (!isCustom(collection)) {
    refuse(400, 'Bad request: Shard Key cannot be created with Auto sharding method')
  }
  const key = body['shard_key'] as ShardKey
  if (holds(collection, key)) {
    refuse(400, `Bad request: Sharding key ${called(key)} already exists for collection ${name}`)
  }
  const { params } = collection.config
  const count = Number(body['shards_number'] ?? params['shard_number'])
  refuseTooMany(count)
  const copies = Number(body['replication_factor'] ?? params['replication_factor'])
  const peers = (body['placement'] as number[] | undefined) ?? cluster.peers().map(({ id }) => id)
  lockSnapshots(collection)
  collection.shards.push(...newShards(collection, { key, count, copies, peers }))
  return ok(true)
}

function drop(request: EngineRequest, cluster: EngineCluster, name: string): EngineAnswer {
  timeoutOf(request)
  const key = readBody(DropShardKey, request.body)['shard_key'] as ShardKey
  const collection = found(cluster, name)
  if (!holds(collection, key)) {
    refuse(400, `Bad request: Sharding key ${called(key)} does not exist for collection ${name}`)
  }
  lockSnapshots(collection)
  collection.shards = collection.shards.filter((shard) => shard.key !== key)
  keep(collection, (point) => point.shard_key !== key)
  return ok(true)
}

interface Wish {
  key: ShardKey
  count: number
  /** Of each shard, as many as there are peers at most. */
  copies: number
  peers: number[]
}

function newShards({ shards }: Collection, { key, count, copies, peers }: Wish): Shard[] {
  const first = 1 + Math.max(0, ...shards.map(({ id }) => id))
  return Array.from({ length: count }, (_, index) => ({
    id: first + index,
    key,
    peers: Array.from(
      { length: Math.min(copies, peers.length) },
      (_, copy) => peers[(first + index + copy) % peers.length] ?? 0,
    ),
  }))
}

/** 7 and "7" are two keys. */
function holds({ shards }: Collection, key: ShardKey): boolean {
  return shards.some((shard) => shard.key === key)
}

function isCustom({ config }: Collection): boolean {
  return config.params['sharding_method'] === 'custom'
}

function called(key: ShardKey): string {
  return typeof key === 'string' ? `"${key}"` : String(key)
}
