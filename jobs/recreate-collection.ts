/** The body that makes a collection like one that was read (facts 6.4, 16 row 24). */
import type { CollectionBody, IndexBody } from '../crds/engine/collections.ts'
import { withoutNulls, isPlainObject, type PlainObject } from '../crds/engine/plain-object.ts'

/** `config` of a collection, as the engine shows it. */
interface LiveConfig {
  params: PlainObject
  [part: string]: unknown
}

/** Only PATCH takes these. */
const PATCH_ONLY = ['read_fan_out_factor', 'read_fan_out_delay_ms']

/**
 * Body of PUT; `params` are put over those that were read. What is null or an empty object is left out:
 * some of it would be refused, and some would hang the call.
 */
export function recreateBody(config: LiveConfig, params: PlainObject = {}): CollectionBody {
  const { params: liveParams, optimizer_config: optimizers, metadata, ...parts } = config
  const { vectors, sparse_vectors: sparse, ...rest } = { ...liveParams, ...params }
  const settings = { ...rest, ...parts, optimizers_config: optimizers }
  const accepted = Object.entries(settings).filter(([name]) => !PATCH_ONLY.includes(name))
  return {
    ...withoutEmpty(Object.fromEntries(accepted)),
    ...withoutEmpty({ vectors: isPlainObject(vectors) ? denseVectors(vectors) : undefined }),
    ...withoutEmpty({ sparse_vectors: isPlainObject(sparse) ? namedVectors(sparse) : undefined }),
    // A person's own: what is null in it stays null.
    ...(isPlainObject(metadata) && { metadata }),
  }
}

/** Body of PATCH for what PUT does not take; undefined where nothing of it is set. */
export function fanOutBody({ params }: LiveConfig): CollectionBody | undefined {
  const fanOut = PATCH_ONLY.flatMap((name) => (params[name] == null ? [] : [[name, params[name]]]))
  return fanOut.length === 0 ? undefined : { params: Object.fromEntries(fanOut) }
}

/** Body of the payload index that a collection shows; the bare type where it shows no parameters. */
export function recreateIndex(
  field: string,
  { dataType, params }: { dataType: string; params?: PlainObject },
): IndexBody {
  return { field_name: field, field_schema: withoutNulls(params) ?? dataType }
}

/** An object with a number as `size` is the one unnamed vector; a vector may be called "size". */
function denseVectors(vectors: PlainObject): PlainObject {
  return typeof vectors['size'] === 'number' ? withoutEmpty(vectors) : namedVectors(vectors)
}

/** Vectors by name: one without any settings is an empty object, and stays. */
function namedVectors(vectors: PlainObject): PlainObject {
  const entries = Object.entries(vectors).map(([name, vector]) => [
    name,
    isPlainObject(vector) ? withoutEmpty(vector) : vector,
  ])
  return Object.fromEntries(entries) as PlainObject
}

/** Leaves out what is unset, at this level and in the objects right below it. */
function withoutEmpty(fields: PlainObject): PlainObject {
  const entries = Object.entries(fields).flatMap(([name, value]) => {
    const present = isPlainObject(value) ? withoutNulls(value) : value
    return present == null ? [] : [[name, present]]
  })
  return Object.fromEntries(entries) as PlainObject
}
