/**
 * The mutable values of a VecCollection: the path of each in the spec, in the engine's PATCH body and in
 * the live config. One table, so that the compared values are the patched values.
 */
import type { CollectionSpec } from '../collection.ts'
import { withoutNulls, type PlainObject } from './plain-object.ts'

export interface MutableField {
  /** Path in spec, for messages: `vectors[title].hnsw.m`. */
  path: string
  desired: unknown
  /** Path below `config` of the live collection. */
  live: string[]
  /** Path in the body of PATCH. */
  patch: string[]
  /** Quantization is replaced as a whole; other fields are replaced value by value. */
  isQuantization?: true
  /** The CRD passes it through to the engine: an older engine may not know it. */
  isEngineConfig?: true
}

export type DenseVector = NonNullable<CollectionSpec['vectors']>[number]
type SparseVector = NonNullable<CollectionSpec['sparseVectors']>[number]

/** Returns every declared value that a PATCH can change. */
export function mutableFields(spec: CollectionSpec): MutableField[] {
  return [
    ...paramFields(spec),
    ...objectFields(spec.hnsw, 'hnsw', ['hnsw_config'], ['hnsw_config']),
    ...objectFields(spec.optimizers, 'optimizers', ['optimizer_config'], ['optimizers_config']),
    ...quantizationField(spec.quantization, 'quantization', [], []),
    ...objectFields(spec.strictMode, 'strictMode', ['strict_mode_config'], ['strict_mode_config']),
    ...(spec.vectors ?? []).flatMap(denseFields),
    ...(spec.sparseVectors ?? []).flatMap(sparseFields),
  ]
}

/** Paths of the declared values that the CRD passes through to an engine that creates the collection. */
export function engineConfigPaths(spec: CollectionSpec): string[] {
  const fields = mutableFields(spec).filter(({ isEngineConfig }) => isEngineConfig === true)
  const wal = Object.keys(withoutNulls(spec.wal) ?? {}).map((name) => `wal.${name}`)
  return [...fields.map(({ path }) => path), ...wal]
}

/** The name of a vector in messages; an unnamed vector is the only one of its collection. */
export function vectorPath({ name }: Pick<DenseVector, 'name'>): string {
  return name === undefined ? 'vectors[0]' : `vectors[${name}]`
}

/** The declared quantization: a method, or `Disabled` to remove it. */
export function declaredQuantization(value: PlainObject | undefined): PlainObject | undefined {
  return value !== undefined && isDisabled(value) ? { Disabled: null } : withoutNulls(value)
}

/** `Disabled` is a string in the engine's API; in a spec it is a field with any value. */
export function isDisabled(quantization: PlainObject): boolean {
  return Object.hasOwn(quantization, 'Disabled')
}

function paramFields(spec: CollectionSpec): MutableField[] {
  const fields = [
    ['replicationFactor', 'replication_factor'],
    ['writeConsistencyFactor', 'write_consistency_factor'],
    ['readFanOutFactor', 'read_fan_out_factor'],
    ['onDiskPayload', 'on_disk_payload'],
  ] as const
  return fields.flatMap(([path, name]) =>
    singleField(path, spec[path], ['params', name], ['params', name]),
  )
}

function denseFields(vector: DenseVector): MutableField[] {
  const path = vectorPath(vector)
  // The unnamed vector has no name level in the live config and the empty name in PATCH.
  const live = ['params', 'vectors', ...(vector.name === undefined ? [] : [vector.name])]
  const patch = ['vectors', vector.name ?? '']
  return [
    ...singleField(`${path}.onDisk`, vector.onDisk, [...live, 'on_disk'], [...patch, 'on_disk']),
    ...objectFields(
      vector.hnsw,
      `${path}.hnsw`,
      [...live, 'hnsw_config'],
      [...patch, 'hnsw_config'],
    ),
    ...quantizationField(vector.quantization, `${path}.quantization`, live, patch),
  ]
}

function sparseFields({ name, modifier, index }: SparseVector): MutableField[] {
  const path = `sparseVectors[${name}]`
  const live = ['params', 'sparse_vectors', name]
  const patch = ['sparse_vectors', name]
  return [
    ...singleField(`${path}.modifier`, modifier, [...live, 'modifier'], [...patch, 'modifier']),
    ...objectFields(index, `${path}.index`, [...live, 'index'], [...patch, 'index']),
  ]
}

function quantizationField(
  value: PlainObject | undefined,
  path: string,
  live: string[],
  patch: string[],
): MutableField[] {
  const desired = declaredQuantization(value)
  if (desired === undefined) return []
  const name = 'quantization_config'
  const paths = { path, live: [...live, name], patch: [...patch, name] }
  return [{ ...paths, desired, isQuantization: true, isEngineConfig: true }]
}

/** The values of a passed-through engine object, one by one. */
function objectFields(
  value: PlainObject | undefined,
  path: string,
  live: string[],
  patch: string[],
): MutableField[] {
  return Object.entries(withoutNulls(value) ?? {}).map(([name, desired]) => ({
    path: `${path}.${name}`,
    desired,
    live: [...live, CANONICAL_NAMES.get(name) ?? name],
    patch: [...patch, name],
    isEngineConfig: true,
  }))
}

function singleField(
  path: string,
  desired: unknown,
  live: string[],
  patch: string[],
): MutableField[] {
  return desired === undefined ? [] : [{ path, desired, live, patch }]
}

/** Fields that the engine accepts but never returns. */
const CANONICAL_NAMES = new Map(
  ['full_scan_threshold', 'max_segment_size', 'memmap_threshold', 'indexing_threshold'].map(
    (name) => [`${name}_kb`, name],
  ),
)
