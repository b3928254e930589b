/** What the engine answers about collections, as far as it is read (facts: sections 2, 5 and 10). */
import { Type, type Static } from '@sinclair/typebox'

const Free = Type.Record(Type.String(), Type.Unknown())
const FreeOrNull = Type.Optional(Type.Union([Free, Type.Null()]))
const Counted = Type.Optional(Type.Union([Type.Integer(), Type.Null()]))

const IndexInfo = Type.Object({ data_type: Type.String(), params: FreeOrNull })
export type IndexInfo = Static<typeof IndexInfo>

/** `config` of a collection: it says `optimizer_config` where bodies say `optimizers_config`. */
export const CollectionConfig = Type.Object({
  params: Free,
  hnsw_config: Free,
  optimizer_config: Free,
  quantization_config: FreeOrNull,
  strict_mode_config: FreeOrNull,
})
export type CollectionConfig = Static<typeof CollectionConfig>

/** Of engines since 1.17; points are deferred since 1.17.1, with `prevent_unoptimized` only. */
const UpdateQueue = Type.Object({
  /** Writes that are acknowledged and not applied yet. */
  length: Type.Integer(),
  /** Points that are written and not indexed yet: no read shows them. */
  deferred_points: Counted,
})

/** `GET /collections/{c}`. */
export const CollectionInfo = Type.Object({
  status: Type.String(),
  points_count: Counted,
  indexed_vectors_count: Counted,
  segments_count: Counted,
  update_queue: Type.Optional(Type.Union([UpdateQueue, Type.Null()])),
  config: CollectionConfig,
  payload_schema: Type.Record(Type.String(), IndexInfo),
})
export type CollectionInfo = Static<typeof CollectionInfo>

const Alias = Type.Object({ alias_name: Type.String(), collection_name: Type.String() })
export type Alias = Static<typeof Alias>

/** `GET /aliases`. */
export const Aliases = Type.Object({ aliases: Type.Array(Alias) })

const shard = { shard_id: Type.Integer(), state: Type.String() }

/** `GET /collections/{c}/cluster`: which copies of its shards there are. */
export const ShardCopies = Type.Object({
  local_shards: Type.Array(Type.Object(shard)),
  remote_shards: Type.Array(Type.Object(shard)),
})
export type ShardCopies = Static<typeof ShardCopies>
