/**
 * The mutable part of a VecCollection, value by value: where each stands in the spec, in the engine's
 * PATCH body and in the live config. One table, so that what is compared is what is patched.
 */
import type { CollectionSpec } from '../collection.ts'
import { declared, type Plain } from './objects.ts'

export interface Field {
  /** Within spec, for people: `vectors[title].hnsw.m`. */
  path: string
  wanted: unknown
  /** Below `config` of what the engine shows. */
  live: string[]
  /** In the body of PATCH. */
  patch: string[]
  /** Quantization is replaced as a whole, the others value by value. */
  isQuantization?: true
}

export type DenseVector = NonNullable<CollectionSpec['vectors']>[number]
type SparseVector = NonNullable<CollectionSpec['sparseVectors']>[number]

/** Every declared value that a PATCH can change. */
export function mutableFields(spec: CollectionSpec): Field[] {
  return [
    ...params(spec),
    ...leaves(spec.hnsw, 'hnsw', ['hnsw_config'], ['hnsw_config']),
    ...leaves(spec.optimizers, 'optimizers', ['optimizer_config'], ['optimizers_config']),
    ...quantization(spec.quantization, 'quantization', [], []),
    ...leaves(spec.strictMode, 'strictMode', ['strict_mode_config'], ['strict_mode_config']),
    ...(spec.vectors ?? []).flatMap(denseFields),
    ...(spec.sparseVectors ?? []).flatMap(sparseFields),
  ]
}

/** How a vector is called in messages; the unnamed one is the only one. */
export function vectorPath({ name }: Pick<DenseVector, 'name'>): string {
  return name === undefined ? 'vectors[0]' : `vectors[${name}]`
}

/** What is declared of a quantization: a kind of it, or `Disabled`, its removal. */
export function declaredQuantization(value: Plain | undefined): Plain | undefined {
  return value !== undefined && isDisabled(value) ? { Disabled: null } : declared(value)
}

/** `Disabled` is a word in the engine's API; in a spec it is a field, whatever its value. */
export function isDisabled(quantization: Plain): boolean {
  return Object.hasOwn(quantization, 'Disabled')
}

function params(spec: CollectionSpec): Field[] {
  const fields = [
    ['replicationFactor', 'replication_factor'],
    ['writeConsistencyFactor', 'write_consistency_factor'],
    ['readFanOutFactor', 'read_fan_out_factor'],
    ['onDiskPayload', 'on_disk_payload'],
  ] as const
  return fields.flatMap(([path, name]) => one(path, spec[path], ['params', name], ['params', name]))
}

function denseFields(vector: DenseVector): Field[] {
  const path = vectorPath(vector)
  // The unnamed vector has no level of names in the live config, and the empty name in PATCH.
  const live = ['params', 'vectors', ...(vector.name === undefined ? [] : [vector.name])]
  const patch = ['vectors', vector.name ?? '']
  return [
    ...one(`${path}.onDisk`, vector.onDisk, [...live, 'on_disk'], [...patch, 'on_disk']),
    ...leaves(vector.hnsw, `${path}.hnsw`, [...live, 'hnsw_config'], [...patch, 'hnsw_config']),
    ...quantization(vector.quantization, `${path}.quantization`, live, patch),
  ]
}

function sparseFields({ name, modifier, index }: SparseVector): Field[] {
  const path = `sparseVectors[${name}]`
  const live = ['params', 'sparse_vectors', name]
  const patch = ['sparse_vectors', name]
  return [
    ...one(`${path}.modifier`, modifier, [...live, 'modifier'], [...patch, 'modifier']),
    ...leaves(index, `${path}.index`, [...live, 'index'], [...patch, 'index']),
  ]
}

function quantization(
  value: Plain | undefined,
  path: string,
  live: string[],
  patch: string[],
): Field[] {
  const wanted = declaredQuantization(value)
  if (wanted === undefined) return []
  const name = 'quantization_config'
  return [{ path, wanted, live: [...live, name], patch: [...patch, name], isQuantization: true }]
}

/** The values of an object of the engine's own, each by itself. */
function leaves(value: Plain | undefined, path: string, live: string[], patch: string[]): Field[] {
  return Object.entries(declared(value) ?? {}).map(([name, wanted]) => ({
    path: `${path}.${name}`,
    wanted,
    live: [...live, CANONICAL.get(name) ?? name],
    patch: [...patch, name],
  }))
}

function one(path: string, wanted: unknown, live: string[], patch: string[]): Field[] {
  return wanted === undefined ? [] : [{ path, wanted, live, patch }]
}

/** Names the engine reads but never shows. */
const CANONICAL = new Map(
  ['full_scan_threshold', 'max_segment_size', 'memmap_threshold', 'indexing_threshold'].map(
    (name) => [`${name}_kb`, name],
  ),
)
