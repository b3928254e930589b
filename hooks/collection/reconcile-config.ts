/**
 * Compares a live collection with its spec, in immutable and in patchable fields, and patches the latter.
 * Only declared values are compared: when two values count as equal is decided here. Values that the engine
 * silently ignores are reported.
 */
import type { CollectionSpec, VecCollection } from '../../crds/collection.ts'
import { NotReady } from '../../crds/contract/errors.ts'
import {
  patchBody,
  unsafeHnswPatches,
  type CollectionConfig,
  type CollectionInfo,
} from '../../crds/engine/collections.ts'
import {
  isDisabled,
  mutableFields,
  vectorPath,
  type DenseVector,
  type MutableField,
} from '../../crds/engine/mutable-fields.ts'
import {
  isPlainObject,
  ownValue,
  valueAt,
  type PlainObject,
} from '../../crds/engine/plain-object.ts'
import { waitForCollection, type ReconcileContext } from './reconcile-context.ts'

/** One value that differs from the spec; `undefined` means unset. */
export interface Difference {
  /** Path within spec. */
  path: string
  desired: unknown
  live: unknown
}

/** A mutable field that differs from the spec, with each differing value in it. */
export interface Drift {
  field: MutableField
  differences: Difference[]
}

/** Whether the cluster changes the number of shards: each shard key has shards of its own. */
export function isReshardable({ shardingMethod }: CollectionSpec, mayReshard: boolean): boolean {
  return mayReshard && shardingMethod !== 'custom'
}

/** Differences that no call can change; they make the phase Degraded. */
export function immutableDifferences(
  spec: CollectionSpec,
  { params }: CollectionConfig,
  mayReshard = false,
): Difference[] {
  return [
    ...vectorDifferences(spec.vectors ?? [], params['vectors'] ?? {}),
    ...missingVectors(
      'sparseVectors',
      (spec.sparseVectors ?? []).map(({ name }) => name),
      Object.keys(asPlain(params['sparse_vectors'])),
    ),
    ...(isReshardable(spec, mayReshard)
      ? []
      : diffValues('shardNumber', spec.shardNumber, params['shard_number'])),
    ...diffValues('shardingMethod', spec.shardingMethod, params['sharding_method'] ?? 'auto'),
  ]
}

/** Differences that a PATCH can correct. */
export function findDrift(spec: CollectionSpec, config: CollectionConfig): Drift[] {
  return mutableFields(spec).flatMap((field) => {
    const live = valueAt(config, field.live)
    const differences =
      field.isQuantization === true
        ? quantizationDifferences(field, live)
        : diffValues(field.path, field.desired, live ?? inheritedTrue(field, spec, config))
    return differences.length === 0 ? [] : [{ field, differences }]
  })
}

/**
 * A vector without a value of its own has that of the collection: `false` is then not the same as unset. Both may be
 * patched in one call, so the declared value of the collection counts before the live one.
 */
function inheritedTrue(
  { patch, desired }: MutableField,
  spec: CollectionSpec,
  { hnsw_config }: CollectionConfig,
): true | undefined {
  const [level, , group, name = ''] = patch
  if (level !== 'vectors' || group !== 'hnsw_config' || desired !== false) return undefined
  return (ownValue(spec.hnsw, name) ?? ownValue(hnsw_config, name)) === true ? true : undefined
}

/** Every value inside the declared one that the live value does not have. */
export function diffValues(path: string, desired: unknown, live: unknown): Difference[] {
  if (isPlainObject(desired) && (isPlainObject(live) || isUnset(live))) {
    return Object.entries(desired).flatMap(([name, value]) =>
      diffValues(`${path}.${name}`, value, ownValue(live, name)),
    )
  }
  const name = path.slice(path.lastIndexOf('.') + 1)
  return isSame(name, desired, live) ? [] : [{ path, desired, live }]
}

export function formatDifference({ path, desired, live }: Difference): string {
  return `${path}: desired ${formatValue(desired)}, live ${formatValue(live)}`
}

function vectorDifferences(vectors: DenseVector[], live: unknown): Difference[] {
  const [first] = vectors
  if (first === undefined) return []
  const isSingle = first.name === undefined
  const isLiveSingle = typeof ownValue(live, 'size') === 'number'
  const names = vectors.map(({ name = '' }) => name)
  const liveNames = Object.keys(asPlain(live))
  if (isSingle && isLiveSingle) return immutableVectorDifferences(first, live)
  if (isSingle || isLiveSingle) {
    const desired = describeVectors(isSingle, names)
    return [{ path: 'vectors', desired, live: describeVectors(isLiveSingle, liveNames) }]
  }
  return [
    ...missingVectors('vectors', names, liveNames),
    ...vectors.flatMap((vector) => {
      const liveVector = ownValue(live, vector.name ?? '')
      return liveVector === undefined ? [] : immutableVectorDifferences(vector, liveVector)
    }),
  ]
}

function describeVectors(isSingle: boolean, names: string[]): string {
  if (isSingle) return 'one unnamed vector'
  return names.length === 0 ? 'no dense vector' : `named vectors ${names.join(', ')}`
}

function immutableVectorDifferences(vector: DenseVector, live: unknown): Difference[] {
  const path = vectorPath(vector)
  return [
    ...diffValues(`${path}.size`, vector.size, ownValue(live, 'size')),
    ...diffValues(`${path}.distance`, vector.distance, ownValue(live, 'distance')),
    ...diffValues(`${path}.datatype`, vector.datatype, ownValue(live, 'datatype')),
    ...diffValues(
      `${path}.multivector.comparator`,
      vector.multivector?.comparator,
      valueAt(live, ['multivector_config', 'comparator']),
    ),
  ]
}

/** A PATCH cannot add a vector. Vectors that the spec does not name are not compared. */
function missingVectors(path: string, desired: string[], live: string[]): Difference[] {
  return desired
    .filter((name) => !live.includes(name))
    .map((name) => ({ path: `${path}[${name}]`, desired: 'a vector', live: undefined }))
}

/** A different kind of quantization is a difference even if no parameters are declared. */
function quantizationDifferences({ path, desired }: MutableField, live: unknown): Difference[] {
  if (isDisabled(asPlain(desired))) {
    return isUnset(live) ? [] : [{ path, desired: 'Disabled', live }]
  }
  const isSameKind = Object.keys(asPlain(desired)).every((kind) => !isUnset(ownValue(live, kind)))
  return isSameKind ? diffValues(path, desired, live) : [{ path, desired, live }]
}

function isSame(name: string, desired: unknown, live: unknown): boolean {
  // A declared null means "any value": the engine itself interprets it as "leave unchanged".
  if (desired === null || desired === undefined) return true
  if (isUnset(live)) {
    return (isOff(desired) && !RESTRICTIONS.has(name)) || desired === ENGINE_DEFAULTS.get(name)
  }
  if (Array.isArray(desired)) return Array.isArray(live) && isSameSet(desired, live)
  if (FLOATS_32.has(name) && typeof desired === 'number') {
    return Math.fround(desired) === Math.fround(Number(live))
  }
  return desired === live
}

function isOff(desired: unknown): boolean {
  return desired === false || (Array.isArray(desired) && desired.length === 0)
}

function isSameSet(desired: unknown[], live: unknown[]): boolean {
  const keys = (values: unknown[]) => new Set(values.map((value) => JSON.stringify(value)))
  const [a, b] = [keys(desired), keys(live)]
  return a.size === b.size && [...a].every((key) => b.has(key))
}

function isUnset(live: unknown): boolean {
  return live === undefined || live === null
}

function asPlain(value: unknown): PlainObject {
  return isPlainObject(value) ? value : {}
}

/**
 * The engine stores the quantile with 32 bits, and sends the limit from one node to another with 32
 * (docs/engine-notes.md, "Collections"). It has 64 bits for all other fractions.
 */
const FLOATS_32 = new Set(['quantile', 'search_max_oversampling'])

/** Values of strict mode that restrict only if they are false: unset, the engine allows it. */
const RESTRICTIONS = new Set([
  'search_allow_exact',
  'unindexed_filtering_retrieve',
  'unindexed_filtering_update',
])

/** The engine's behavior for values that it does not return. */
const ENGINE_DEFAULTS = new Map<string, unknown>([
  ['datatype', 'float32'],
  ['modifier', 'none'],
  ['max_optimization_threads', 'auto'],
  ['encoding', 'one_bit'],
  ['query_encoding', 'default'],
  ['bits', 'bits4'],
])

function formatValue(value: unknown): string {
  if (isUnset(value)) return 'unset'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export interface ConfigResult {
  info: CollectionInfo
  /** Paths of declared values that the engine ignores. */
  ignored: string[]
}

/** Patches the values that differ, and finds out which of them the engine silently ignores. */
export async function reconcileConfig(
  context: ReconcileContext,
  info: CollectionInfo,
  version: string,
): Promise<ConfigResult> {
  const { spec } = context.collection
  const alreadyIgnored = previouslyIgnored(context.collection, version)
  const drift = findDrift(spec, info.config)
  const newDrift = drift.filter(({ differences }) =>
    differences.some(({ path }) => !alreadyIgnored.has(path)),
  )
  const unsafeFields = new Set(
    unsafeHnswPatches(
      newDrift.map(({ field }) => field),
      version,
    ),
  )
  const fields = newDrift.map(({ field }) => field).filter((field) => !unsafeFields.has(field))
  if (fields.length === 0) return { info, ignored: driftPaths(drift) }

  const { sendable, mixed } = await sendableFields(context, fields)
  const unknownResult = await context.writes.patch(patchBody(sendable))
  const sent = new Set(sendable.map(({ path }) => path))
  const remainingDrift = (current: CollectionInfo) =>
    findDrift(spec, current.config).filter(({ field, differences }) => {
      return sent.has(field.path) && differences.some(({ path }) => !alreadyIgnored.has(path))
    })
  const patched = await waitForCollection(
    context,
    (current) => current === undefined || remainingDrift(current).length === 0,
  )
  if (patched === undefined)
    throw new NotReady(`collection ${context.name} was deleted during the reconcile`)
  // The write is pending or lost; that does not mean that the engine ignores the value.
  if (unknownResult !== undefined && remainingDrift(patched).length > 0) throw unknownResult
  if (mixed !== undefined) throw mixed
  return { info: patched, ignored: driftPaths(findDrift(spec, patched.config)) }
}

/**
 * While pods have different versions, only values that every supported version knows: an update that is held
 * (SingleCopies) may wait for another replication factor. Throws if there is none.
 */
async function sendableFields(
  { mixedVersions }: ReconcileContext,
  fields: MutableField[],
): Promise<{ sendable: MutableField[]; mixed: NotReady | undefined }> {
  const passed = fields.filter(({ isEngineConfig }) => isEngineConfig === true)
  const mixed = await mixedVersions(passed.map(({ path }) => path))
  if (mixed === undefined) return { sendable: fields, mixed }
  const sendable = fields.filter((field) => !passed.includes(field))
  if (sendable.length === 0) throw mixed
  return { sendable, mixed }
}

/** The paths that this engine version ignored for this generation of the spec. */
export function previouslyIgnored(
  { metadata, status }: VecCollection,
  version: string,
): Set<string> {
  const ignored = status?.ignored
  const isCurrent = ignored?.generation === metadata.generation && ignored.engineVersion === version
  return isCurrent ? new Set(ignored.paths) : new Set()
}

function driftPaths(drift: Drift[]): string[] {
  return drift.flatMap(({ differences }) => differences.map(({ path }) => path))
}
