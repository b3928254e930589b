/**
 * How large the shards of a node are, as its telemetry estimates it. The engine tells nothing exact: of
 * vectors and payload without their indexes, and not of a shard on disk.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { Engine } from './engine.ts'

const Bytes = Type.Optional(Type.Union([Type.Number({ minimum: 0 }), Type.Null()]))
const LocalShard = Type.Object({
  vectors_size_bytes: Bytes,
  payloads_size_bytes: Bytes,
  num_points: Bytes,
})

const Telemetry = Type.Object({
  collections: Type.Object({
    collections: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          shards: Type.Optional(
            Type.Union([
              Type.Array(
                Type.Object({
                  id: Type.Integer(),
                  local: Type.Optional(Type.Union([LocalShard, Type.Null()])),
                }),
              ),
              Type.Null(),
            ]),
          ),
        }),
      ),
    ),
  }),
})
type Local = Static<typeof LocalShard>

/** Bytes of shards by id, by collection. */
export type ShardBytes = Map<string, Map<number, number>>

/** As for other telemetry: a node that is this busy is left out. */
const TELEMETRY_SECONDS = 10

/** What ids, versions, HNSW links and simple payload indexes of a point take. */
const BYTES_OF_A_POINT = 256

/** Estimated, of the shards this node holds; one of which the engine says nothing is missing. */
export async function shardBytes(engine: Engine, signal?: AbortSignal): Promise<ShardBytes> {
  // The first level that lists shards; the next one lists segments, of which there may be thousands.
  const path = `/telemetry?details_level=3&timeout=${TELEMETRY_SECONDS}`
  const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
  const { collections } = await engine.call('GET', path, Telemetry, options)
  const all: ShardBytes = new Map()
  for (const { id: collection, shards } of collections.collections ?? []) {
    const bytes = new Map<number, number>()
    for (const { id, local } of shards ?? []) {
      const estimated = local == null ? undefined : bytesOf(local)
      if (estimated !== undefined) bytes.set(id, estimated)
    }
    all.set(collection, bytes)
  }
  return all
}

function bytesOf({ vectors_size_bytes, payloads_size_bytes, num_points }: Local) {
  if (vectors_size_bytes == null || payloads_size_bytes == null) return undefined
  return vectors_size_bytes + payloads_size_bytes + (num_points ?? 0) * BYTES_OF_A_POINT
}
