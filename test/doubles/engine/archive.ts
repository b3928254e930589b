/** The tar that is a snapshot of a node: its shards, and behind them the small files that describe them. */
import type { EngineCluster } from './cluster.ts'
import type { Fields, Shard, ShardKey } from './collection.ts'
import { contentOf } from './recovery.ts'
import { tarOf } from './tar.ts'

const BLOCK = 512

interface Wish {
  ordinal: number
  collection: string
  /** Size of the archive in bytes; at least what its content needs. */
  bytes: number
  filler: string
}

/** One padded file with a line of JSON replaces all segments. */
export function archiveOf(
  cluster: EngineCluster,
  { ordinal, collection, bytes, filler }: Wish,
): Buffer {
  const line = Buffer.from(`${JSON.stringify(contentOf(cluster, ordinal, collection))}\n`)
  const files = metadataOf(cluster, ordinal, collection)
  const left = bytes - BLOCK - tarOf(files).length
  const segments = Buffer.alloc(Math.max(line.length, left - (left % BLOCK)), filler)
  line.copy(segments)
  const archive = tarOf({ 'segments.tar': segments, ...files })
  return Buffer.concat([archive, Buffer.alloc(Math.max(0, bytes - archive.length))])
}

/** In the order of the engine: of each shard what it is on this node, then of the collection. */
function metadataOf(cluster: EngineCluster, ordinal: number, name: string): Record<string, Buffer> {
  const collection = cluster.find(name)
  if (collection === undefined) throw new Error(`there is no ${name}`)
  const { config, uuid, payloadSchema, shards } = collection
  const { id: peer } = cluster.peer(ordinal)
  const states = shards.flatMap((shard) => [
    [`${shard.id}/replica_state.json`, stateOf(shard, peer, !cluster.enabled)] as const,
    [`${shard.id}/shard_config.json`, { type: 'ReplicaSet' }] as const,
  ])
  const schema: Fields = {}
  for (const [field, index] of Object.entries(payloadSchema)) schema[field] = schemaOf(index)
  return {
    ...written(Object.fromEntries(states)),
    'version.info': Buffer.from('0.4.2'),
    ...written({
      'config.json': { ...config, uuid: uuid ?? null },
      'shard_key_mapping.json': mappingOf(shards),
      'payload_index.json': { schema },
    }),
  }
}

function written(files: Record<string, unknown>): Record<string, Buffer> {
  return Object.fromEntries(
    Object.entries(files).map(([path, value]) => [path, Buffer.from(JSON.stringify(value))]),
  )
}

function stateOf({ peers, states }: Shard, peer: number, isAlone: boolean): Fields {
  return {
    is_local: isAlone || peers.includes(peer),
    this_peer_id: peer,
    peers: Object.fromEntries(peers.map((id) => [id, states?.[id] ?? 'Active'])),
  }
}

function schemaOf({ data_type, params }: Fields): unknown {
  return params ?? data_type
}

function mappingOf(shards: Shard[]): { key: ShardKey; shard_ids: number[] }[] {
  const keyed = shards.flatMap(({ id, key }) => (key === undefined ? [] : [{ id, key }]))
  return [...Map.groupBy(keyed, ({ key }) => key)].map(([key, of]) => ({
    key,
    shard_ids: of.map(({ id }) => id),
  }))
}
