/** The bodies by which collections, payload indexes and aliases are made and changed (facts 3 to 5). */
import { Type, type Static } from '@sinclair/typebox'
import type { CollectionSpec } from '../collection.ts'
import { declaredQuantization, isDisabled, type DenseVector, type Field } from './fields.ts'
import { knowsAny } from './hnsw.ts'
import { assembled, declared, type Plain } from './objects.ts'

export type PayloadIndex = NonNullable<CollectionSpec['payloadIndexes']>[number]

/** Body of PUT and of PATCH: fields of the engine, by its own names. */
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
 * What PUT makes a collection from. Empty objects are left out: some are refused, one hangs the call,
 * one is stored as it is. `readFanOutFactor` is for PATCH only.
 */
export function createBody(spec: CollectionSpec, engineVersion: string): CollectionBody {
  const vectors = spec.vectors ?? []
  const sparse = spec.sparseVectors ?? []
  return defined({
    vectors: vectors.length === 0 ? undefined : denseVectors(vectors, engineVersion),
    sparse_vectors: sparse.length === 0 ? undefined : sparseVectors(sparse),
    shard_number: spec.shardNumber,
    sharding_method: spec.shardingMethod === 'custom' ? 'custom' : undefined,
    replication_factor: spec.replicationFactor,
    write_consistency_factor: spec.writeConsistencyFactor,
    on_disk_payload: spec.onDiskPayload,
    hnsw_config: declared(spec.hnsw),
    optimizers_config: declared(spec.optimizers),
    wal_config: declared(spec.wal),
    quantization_config: quantization(spec.quantization),
    strict_mode_config: declared(spec.strictMode),
  })
}

/** What PATCH makes of the values that differ, and of nothing else. */
export function patchBody(fields: readonly Field[]): CollectionBody {
  return assembled(
    fields.map(({ patch, wanted, isQuantization }) => ({
      path: patch,
      value: isQuantization === true && isDisabled(wanted as Plain) ? 'Disabled' : wanted,
    })),
  )
}

/** The fields apart whose PATCH would hang: of one vector's HNSW, the engine knows none of them. */
export function hanging(fields: readonly Field[], engineVersion: string): Field[] {
  const groups = Map.groupBy(fields.filter(isVectorHnsw), ({ patch }) => patch[1])
  return [...groups.values()]
    .filter((group) => !knowsAny(group.flatMap(fieldsOf), engineVersion))
    .flat()
}

/** At this depth only vectors have one. */
function isVectorHnsw({ patch }: Field): boolean {
  return patch[2] === 'hnsw_config'
}

/** Below `vectors`, the name and `hnsw_config`. */
function fieldsOf({ patch }: Field): string[] {
  return patch.slice(3)
}

export function indexBody({ field, type, params }: PayloadIndex): IndexBody {
  const given = declared(params)
  return { field_name: field, field_schema: given === undefined ? type : { ...given, type } }
}

function denseVectors(vectors: DenseVector[], engineVersion: string): Plain {
  const [first] = vectors
  if (first !== undefined && first.name === undefined) return denseVector(first, engineVersion)
  return Object.fromEntries(
    vectors.map((vector) => [vector.name ?? '', denseVector(vector, engineVersion)]),
  )
}

function denseVector(vector: DenseVector, engineVersion: string): Plain {
  const hnsw = declared(vector.hnsw)
  const isKnown = hnsw !== undefined && knowsAny(Object.keys(hnsw), engineVersion)
  return defined({
    size: vector.size,
    distance: vector.distance,
    datatype: vector.datatype,
    multivector_config: vector.multivector,
    on_disk: vector.onDisk,
    hnsw_config: isKnown ? hnsw : undefined,
    quantization_config: quantization(vector.quantization),
  })
}

function sparseVectors(vectors: NonNullable<CollectionSpec['sparseVectors']>): Plain {
  return Object.fromEntries(
    vectors.map(({ name, modifier, index }) => [
      name,
      defined({ modifier, index: declared(index) }),
    ]),
  )
}

/** A collection is made without quantization, so its removal needs no word. */
function quantization(value: Plain | undefined): Plain | undefined {
  const wanted = declaredQuantization(value)
  return wanted === undefined || isDisabled(wanted) ? undefined : wanted
}

function defined(fields: Plain): Plain {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
