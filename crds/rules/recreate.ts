/** The body that makes a collection like one that was read (facts 6.4, 16 row 24). */
import type { CollectionBody, IndexBody } from './bodies.ts'
import { declared, isPlain, type Plain } from './objects.ts'

/** `config` of a collection, as the engine shows it. */
interface ShownConfig {
  params: Plain
  [part: string]: unknown
}

/** Only PATCH takes these. */
const PATCH_ONLY = ['read_fan_out_factor', 'read_fan_out_delay_ms']

/**
 * Body of PUT; `params` are put over those that were read. What is null or an empty object is left out:
 * some of it would be refused, and some would hang the call.
 */
export function recreateBody(config: ShownConfig, params: Plain = {}): CollectionBody {
  const { params: read, optimizer_config: optimizers, metadata, ...parts } = config
  const { vectors, sparse_vectors: sparse, ...rest } = { ...read, ...params }
  const plain = { ...rest, ...parts, optimizers_config: optimizers }
  const kept = Object.entries(plain).filter(([name]) => !PATCH_ONLY.includes(name))
  return {
    ...withoutEmpty(Object.fromEntries(kept)),
    ...withoutEmpty({ vectors: isPlain(vectors) ? denseVectors(vectors) : undefined }),
    ...withoutEmpty({ sparse_vectors: isPlain(sparse) ? eachOf(sparse) : undefined }),
    // A person's own: what is null in it stays null.
    ...(isPlain(metadata) && { metadata }),
  }
}

/** Body of PATCH for what PUT does not take; undefined where nothing of it is set. */
export function fanOutBody({ params }: ShownConfig): CollectionBody | undefined {
  const found = PATCH_ONLY.flatMap((name) => (params[name] == null ? [] : [[name, params[name]]]))
  return found.length === 0 ? undefined : { params: Object.fromEntries(found) }
}

/** Body of the payload index that a collection shows; the bare type where it shows no parameters. */
export function recreateIndex(
  field: string,
  { dataType, params }: { dataType: string; params?: Plain },
): IndexBody {
  return { field_name: field, field_schema: declared(params) ?? dataType }
}

/** An object with a number as `size` is the one unnamed vector; a vector may be called "size". */
function denseVectors(vectors: Plain): Plain {
  return typeof vectors['size'] === 'number' ? withoutEmpty(vectors) : eachOf(vectors)
}

/** Vectors by name: one without any settings is an empty object, and stays. */
function eachOf(vectors: Plain): Plain {
  const entries = Object.entries(vectors).map(([name, vector]) => [
    name,
    isPlain(vector) ? withoutEmpty(vector) : vector,
  ])
  return Object.fromEntries(entries) as Plain
}

/** Leaves out what is unset, at this level and in the objects right below it. */
function withoutEmpty(fields: Plain): Plain {
  const entries = Object.entries(fields).flatMap(([name, value]) => {
    const set = isPlain(value) ? declared(value) : value
    return set == null ? [] : [[name, set]]
  })
  return Object.fromEntries(entries) as Plain
}
