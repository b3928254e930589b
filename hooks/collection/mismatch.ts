/**
 * How a live collection differs from its spec: in what is fixed when it is made, and in what can be
 * patched (facts 2.2). Only what the spec declares is compared.
 */
import type { CollectionSpec } from '../../crds/collection.ts'
import type { CollectionConfig } from '../../crds/rules/answers.ts'
import {
  isDisabled,
  mutableFields,
  vectorPath,
  type DenseVector,
  type Field,
} from '../../crds/rules/fields.ts'
import { at, isPlain, own, type Plain } from '../../crds/rules/objects.ts'

/** One value that is not as declared; undefined means that there is none. */
export interface Difference {
  /** Within spec. */
  path: string
  wanted: unknown
  live: unknown
}

/** A mutable field that is not as declared, with each value within it that differs. */
export interface Drift {
  field: Field
  differences: Difference[]
}

/** What no call can change: these make the phase Degraded. */
export function immutableDifferences(
  spec: CollectionSpec,
  { params }: CollectionConfig,
): Difference[] {
  return [
    ...vectorDifferences(spec.vectors ?? [], params['vectors'] ?? {}),
    ...missingVectors(
      'sparseVectors',
      (spec.sparseVectors ?? []).map(({ name }) => name),
      Object.keys(plain(params['sparse_vectors'])),
    ),
    ...differencesIn('shardNumber', spec.shardNumber, params['shard_number']),
    ...differencesIn('shardingMethod', spec.shardingMethod, params['sharding_method'] ?? 'auto'),
  ]
}

/** What a PATCH can put right. */
export function drifted(spec: CollectionSpec, config: CollectionConfig): Drift[] {
  return mutableFields(spec).flatMap((field) => {
    const live = at(config, field.live)
    const differences =
      field.isQuantization === true
        ? quantizationDifferences(field, live)
        : differencesIn(field.path, field.wanted, live)
    return differences.length === 0 ? [] : [{ field, differences }]
  })
}

/** Every value within a declared one that the live one does not have. */
export function differencesIn(path: string, wanted: unknown, live: unknown): Difference[] {
  if (isPlain(wanted) && (isPlain(live) || isUnset(live))) {
    return Object.entries(wanted).flatMap(([name, value]) =>
      differencesIn(`${path}.${name}`, value, own(live, name)),
    )
  }
  const name = path.slice(path.lastIndexOf('.') + 1)
  return isSame(name, wanted, live) ? [] : [{ path, wanted, live }]
}

export function describe({ path, wanted, live }: Difference): string {
  return `${path}: wanted ${text(wanted)}, live ${text(live)}`
}

function vectorDifferences(vectors: DenseVector[], live: unknown): Difference[] {
  const [first] = vectors
  if (first === undefined) return []
  const isSingle = first.name === undefined
  const isLiveSingle = typeof own(live, 'size') === 'number'
  const names = vectors.map(({ name = '' }) => name)
  const liveNames = Object.keys(plain(live))
  if (isSingle && isLiveSingle) return fixedDifferences(first, live)
  if (isSingle || isLiveSingle) {
    const wanted = kindOf(isSingle, names)
    return [{ path: 'vectors', wanted, live: kindOf(isLiveSingle, liveNames) }]
  }
  return [
    ...missingVectors('vectors', names, liveNames),
    ...vectors.flatMap((vector) => {
      const there = own(live, vector.name ?? '')
      return there === undefined ? [] : fixedDifferences(vector, there)
    }),
  ]
}

function kindOf(isSingle: boolean, names: string[]): string {
  if (isSingle) return 'one unnamed vector'
  return names.length === 0 ? 'no dense vector' : `named vectors ${names.join(', ')}`
}

function fixedDifferences(vector: DenseVector, live: unknown): Difference[] {
  const path = vectorPath(vector)
  return [
    ...differencesIn(`${path}.size`, vector.size, own(live, 'size')),
    ...differencesIn(`${path}.distance`, vector.distance, own(live, 'distance')),
    ...differencesIn(`${path}.datatype`, vector.datatype, own(live, 'datatype')),
    ...differencesIn(
      `${path}.multivector.comparator`,
      vector.multivector?.comparator,
      at(live, ['multivector_config', 'comparator']),
    ),
  ]
}

/** No PATCH adds a vector. Those that the spec does not name are not compared. */
function missingVectors(path: string, wanted: string[], live: string[]): Difference[] {
  return wanted
    .filter((name) => !live.includes(name))
    .map((name) => ({ path: `${path}[${name}]`, wanted: 'a vector', live: undefined }))
}

/** A quantization of another kind differs even where nothing is declared within it. */
function quantizationDifferences({ path, wanted }: Field, live: unknown): Difference[] {
  if (isDisabled(plain(wanted))) {
    return isUnset(live) ? [] : [{ path, wanted: 'Disabled', live }]
  }
  const isOfKind = Object.keys(plain(wanted)).every((kind) => !isUnset(own(live, kind)))
  return isOfKind ? differencesIn(path, wanted, live) : [{ path, wanted, live }]
}

function isSame(name: string, wanted: unknown, live: unknown): boolean {
  // A declared null means "do not care": the engine itself takes it for "leave as it is".
  if (wanted === null || wanted === undefined) return true
  if (isUnset(live)) return isOff(wanted) || wanted === WHEN_UNSET.get(name)
  if (Array.isArray(wanted)) return Array.isArray(live) && isSameSet(wanted, live)
  // The engine keeps this one in 32 bits, all other fractions in 64.
  if (name === 'quantile' && typeof wanted === 'number')
    return Math.fround(wanted) === asFloat(live)
  return wanted === live
}

function isOff(wanted: unknown): boolean {
  return wanted === false || (Array.isArray(wanted) && wanted.length === 0)
}

function asFloat(live: unknown): number {
  return Math.fround(Number(live))
}

function isSameSet(wanted: unknown[], live: unknown[]): boolean {
  const keys = (values: unknown[]) => new Set(values.map((value) => JSON.stringify(value)))
  const [one, other] = [keys(wanted), keys(live)]
  return one.size === other.size && [...one].every((key) => other.has(key))
}

function isUnset(live: unknown): boolean {
  return live === undefined || live === null
}

function plain(value: unknown): Plain {
  return isPlain(value) ? value : {}
}

/** What the engine does where it shows nothing. */
const WHEN_UNSET = new Map<string, unknown>([
  ['datatype', 'float32'],
  ['modifier', 'none'],
  ['max_optimization_threads', 'auto'],
  ['encoding', 'one_bit'],
  ['query_encoding', 'default'],
  ['bits', 'bits4'],
])

function text(value: unknown): string {
  if (isUnset(value)) return 'nothing'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
