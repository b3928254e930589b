/**
 * The engine's API of collections: the fields of responses that are read, the bodies of requests that create
 * or change a collection or an index, and the HNSW fields that each engine version supports.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { CollectionSpec } from '../collection.ts'
import {
  declaredQuantization,
  isDisabled,
  type DenseVector,
  type MutableField,
} from './mutable-fields.ts'
import { fromPaths, withoutNulls, type PlainObject } from './plain-object.ts'
import { parseVersion } from '../versions.ts'

const FreeFormObject = Type.Record(Type.String(), Type.Unknown())
const OptionalObject = Type.Optional(Type.Union([FreeFormObject, Type.Null()]))
const OptionalCount = Type.Optional(Type.Union([Type.Integer(), Type.Null()]))

const IndexInfo = Type.Object({ data_type: Type.String(), params: OptionalObject })
export type IndexInfo = Static<typeof IndexInfo>

/** `config` of a collection: it has `optimizer_config`, request bodies have `optimizers_config`. */
export const CollectionConfig = Type.Object({
  params: FreeFormObject,
  hnsw_config: FreeFormObject,
  optimizer_config: FreeFormObject,
  quantization_config: OptionalObject,
  strict_mode_config: OptionalObject,
})
export type CollectionConfig = Static<typeof CollectionConfig>

/** Since engine 1.17; points are deferred since 1.17.1, and only with `prevent_unoptimized`. */
const UpdateQueue = Type.Object({
  /** Acknowledged writes that are not applied yet. */
  length: Type.Integer(),
  /** Points that are written but not indexed yet: no read returns them. */
  deferred_points: OptionalCount,
})

/** `GET /collections/{c}`. */
export const CollectionInfo = Type.Object({
  status: Type.String(),
  points_count: OptionalCount,
  indexed_vectors_count: OptionalCount,
  segments_count: OptionalCount,
  update_queue: Type.Optional(Type.Union([UpdateQueue, Type.Null()])),
  config: CollectionConfig,
  payload_schema: Type.Record(Type.String(), IndexInfo),
})
export type CollectionInfo = Static<typeof CollectionInfo>

const Alias = Type.Object({ alias_name: Type.String(), collection_name: Type.String() })
export type Alias = Static<typeof Alias>

/** `GET /aliases`. */
export const Aliases = Type.Object({ aliases: Type.Array(Alias) })

const replicaFields = { shard_id: Type.Integer(), state: Type.String() }

/** `GET /collections/{c}/cluster`: the replicas of its shards. */
export const ShardReplicas = Type.Object({
  local_shards: Type.Array(Type.Object(replicaFields)),
  remote_shards: Type.Array(Type.Object(replicaFields)),
})
export type ShardReplicas = Static<typeof ShardReplicas>

export type PayloadIndex = NonNullable<CollectionSpec['payloadIndexes']>[number]

/** Body of PUT and of PATCH, with the engine's own field names. */
export const CollectionBody = Type.Record(Type.String(), Type.Unknown())
export type CollectionBody = Static<typeof CollectionBody>

/** Body of `PUT /collections/{c}/index`. */
export const IndexBody = Type.Object({
  field_name: Type.String(),
  field_schema: Type.Union([Type.String(), Type.Record(Type.String(), Type.Unknown())]),
})
export type IndexBody = Static<typeof IndexBody>

export const AliasAction = Type.Union([
  Type.Object({
    create_alias: Type.Object({ collection_name: Type.String(), alias_name: Type.String() }),
  }),
  Type.Object({ delete_alias: Type.Object({ alias_name: Type.String() }) }),
])
export type AliasAction = Static<typeof AliasAction>

/**
 * Body of the PUT that creates a collection. It omits empty objects: the engine rejects some, hangs on one
 * and stores one as it is. Only PATCH accepts `readFanOutFactor`.
 */
export function createBody(spec: CollectionSpec, engineVersion: string): CollectionBody {
  const vectors = spec.vectors ?? []
  const sparse = spec.sparseVectors ?? []
  return withoutUndefined({
    vectors: vectors.length === 0 ? undefined : denseVectors(vectors, engineVersion),
    sparse_vectors: sparse.length === 0 ? undefined : sparseVectors(sparse),
    shard_number: spec.shardNumber,
    sharding_method: spec.shardingMethod === 'custom' ? 'custom' : undefined,
    replication_factor: spec.replicationFactor,
    write_consistency_factor: spec.writeConsistencyFactor,
    on_disk_payload: spec.onDiskPayload,
    hnsw_config: withoutNulls(spec.hnsw),
    optimizers_config: withoutNulls(spec.optimizers),
    wal_config: withoutNulls(spec.wal),
    quantization_config: quantizationBody(spec.quantization),
    strict_mode_config: withoutNulls(spec.strictMode),
  })
}

/** Body of the PATCH that changes only the values that differ. */
export function patchBody(fields: readonly MutableField[]): CollectionBody {
  return fromPaths(
    fields.map(({ patch, desired, isQuantization }) => ({
      path: patch,
      value: isQuantization === true && isDisabled(desired as PlainObject) ? 'Disabled' : desired,
    })),
  )
}

/** The HNSW patches that would hang the engine: it knows none of the fields for that vector. */
export function unsafeHnswPatches(
  fields: readonly MutableField[],
  engineVersion: string,
): MutableField[] {
  const groups = Map.groupBy(fields.filter(isVectorHnsw), ({ patch }) => patch[1])
  return [...groups.values()]
    .filter((group) => !supportsAny(group.flatMap(hnswFields), engineVersion))
    .flat()
}

/** At this depth only vectors have an HNSW configuration. */
function isVectorHnsw({ patch }: MutableField): boolean {
  return patch[2] === 'hnsw_config'
}

/** Path depth: `vectors`, the name and `hnsw_config`. */
function hnswFields({ patch }: MutableField): string[] {
  return patch.slice(3)
}

export function indexBody({ field, type, params }: PayloadIndex): IndexBody {
  const declaredParams = withoutNulls(params)
  return {
    field_name: field,
    field_schema: declaredParams === undefined ? type : { ...declaredParams, type },
  }
}

function denseVectors(vectors: DenseVector[], engineVersion: string): PlainObject {
  const [first] = vectors
  if (first !== undefined && first.name === undefined) return denseVector(first, engineVersion)
  return Object.fromEntries(
    vectors.map((vector) => [vector.name ?? '', denseVector(vector, engineVersion)]),
  )
}

function denseVector(vector: DenseVector, engineVersion: string): PlainObject {
  const hnsw = withoutNulls(vector.hnsw)
  const isSupported = hnsw !== undefined && supportsAny(Object.keys(hnsw), engineVersion)
  return withoutUndefined({
    size: vector.size,
    distance: vector.distance,
    datatype: vector.datatype,
    multivector_config: vector.multivector,
    on_disk: vector.onDisk,
    hnsw_config: isSupported ? hnsw : undefined,
    quantization_config: quantizationBody(vector.quantization),
  })
}

function sparseVectors(vectors: NonNullable<CollectionSpec['sparseVectors']>): PlainObject {
  return Object.fromEntries(
    vectors.map(({ name, modifier, index }) => [
      name,
      withoutUndefined({ modifier, index: withoutNulls(index) }),
    ]),
  )
}

/** A new collection has no quantization, so a removal needs no field. */
function quantizationBody(value: PlainObject | undefined): PlainObject | undefined {
  const desired = declaredQuantization(value)
  return desired === undefined || isDisabled(desired) ? undefined : desired
}

function withoutUndefined(fields: PlainObject): PlainObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Fields of HnswConfigDiff, each with the first minor version of 1.x that supports it. */
const HNSW_FIELDS = new Map([
  ['m', 0],
  ['ef_construct', 0],
  ['full_scan_threshold', 0],
  ['full_scan_threshold_kb', 0],
  ['max_indexing_threads', 0],
  ['on_disk', 0],
  ['payload_m', 0],
  ['inline_storage', 16],
  ['memory', 19],
])
const NEWEST_KNOWN_MINOR = 19

/** Whether an engine of this version supports at least one of the fields. */
export function supportsAny(fields: readonly string[], engineVersion: string): boolean {
  const { major, minor } = parseVersion(engineVersion)
  // A newer engine may support fields that are not in the table.
  if (major !== 1 || minor > NEWEST_KNOWN_MINOR) return fields.length > 0
  return fields.some((name) => (HNSW_FIELDS.get(name) ?? Infinity) <= minor)
}
