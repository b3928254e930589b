/** Builds the request bodies that recreate a collection from its configuration, and compares with them. */
import { canonicalConfig } from './canonical-config.ts'
import type { CollectionBody, IndexBody } from '../crds/engine/collections.ts'
import {
  withoutNulls,
  isPlainObject,
  isSameJson,
  ownValue,
  type PlainObject,
} from '../crds/engine/plain-object.ts'
import { formatValue } from '../crds/units.ts'

/** `config` of a collection, as returned by the engine. */
interface LiveConfig {
  params: PlainObject
  [part: string]: unknown
}

/** Only PATCH accepts these. */
const PATCH_ONLY = ['read_fan_out_factor', 'read_fan_out_delay_ms']

/**
 * Body of PUT; `params` override the ones that were read. Null values and empty objects are left
 * out: some of them would be rejected, and some would make the call hang.
 */
export function recreateBody(config: LiveConfig, params: PlainObject = {}): CollectionBody {
  const {
    params: liveParams,
    optimizer_config: optimizers,
    metadata,
    ...parts
  } = canonicalConfig(config)
  const { vectors, sparse_vectors: sparse, ...rest } = { ...liveParams, ...params }
  const settings = { ...rest, ...parts, optimizers_config: optimizers }
  const accepted = Object.entries(settings).filter(([name]) => !PATCH_ONLY.includes(name))
  return {
    ...withoutEmpty(Object.fromEntries(accepted)),
    ...withoutEmpty({ vectors: isPlainObject(vectors) ? denseVectors(vectors) : undefined }),
    ...withoutEmpty({ sparse_vectors: isPlainObject(sparse) ? namedVectors(sparse) : undefined }),
    // Written by users: null values in it are preserved.
    ...(isPlainObject(metadata) && { metadata }),
  }
}

/** The values of a body of PUT that a collection has differently, with both values. Others are not compared. */
export function bodyDifferences(
  body: CollectionBody,
  config: LiveConfig,
): { path: string; text: string }[] {
  const { params, optimizer_config: optimizers, ...parts } = canonicalConfig(config)
  return valueDifferences(body, { ...params, ...parts, optimizers_config: optimizers }, [])
}

function valueDifferences(
  expected: unknown,
  live: unknown,
  path: string[],
): { path: string; text: string }[] {
  if (isPlainObject(expected)) {
    return Object.entries(expected).flatMap(([name, value]) =>
      valueDifferences(value, ownValue(live, name), [...path, name]),
    )
  }
  if (isSameJson(expected ?? null, live ?? null)) return []
  const field = path.join('.')
  return [{ path: field, text: `${field} is ${formatValue(live)}, not ${formatValue(expected)}` }]
}

/** Body of PATCH for the parameters that PUT does not accept; undefined if none is set. */
export function fanOutBody({ params }: LiveConfig): CollectionBody | undefined {
  const fanOut = PATCH_ONLY.flatMap((name) => (params[name] == null ? [] : [[name, params[name]]]))
  return fanOut.length === 0 ? undefined : { params: Object.fromEntries(fanOut) }
}

/** Body of a payload index as returned for a collection; the bare type if it has no parameters. */
export function recreateIndex(
  field: string,
  { dataType, params }: { dataType: string; params?: PlainObject },
): IndexBody {
  return { field_name: field, field_schema: withoutNulls(params) ?? dataType }
}

/** An object with a number as `size` is the single unnamed vector; a vector may be named "size". */
function denseVectors(vectors: PlainObject): PlainObject {
  return typeof vectors['size'] === 'number' ? withoutEmpty(vectors) : namedVectors(vectors)
}

/** Vectors by name: one without any settings is an empty object and is preserved. */
function namedVectors(vectors: PlainObject): PlainObject {
  const entries = Object.entries(vectors).map(([name, vector]) => [
    name,
    isPlainObject(vector) ? withoutEmpty(vector) : vector,
  ])
  return Object.fromEntries(entries) as PlainObject
}

/** Leaves out unset fields, at this level and in the objects directly below it. */
function withoutEmpty(fields: PlainObject): PlainObject {
  const entries = Object.entries(fields).flatMap(([name, value]) => {
    const present = isPlainObject(value) ? withoutNulls(value) : value
    return present == null ? [] : [[name, present]]
  })
  return Object.fromEntries(entries) as PlainObject
}
