/** Engine fields that several kinds share: collection names, and engine objects that are passed through. */
import { Type, type SchemaOptions } from '@sinclair/typebox'
import { MAX_COLLECTIONS } from './contract/limits.ts'
import { PassThrough, maxCharacters, rule } from './schema.ts'

// A URL path that ends in . or .. resolves to another path, with or without escaping.
const notDotName = rule("!(self in ['.', '..'])", 'a collection cannot be named . or ..')

/** Name of an existing collection: old names may contain characters that the engine rejects today. */
export function CollectionName(options: SchemaOptions = {}) {
  return Type.String({ minLength: 1, ...maxCharacters(255), ...notDotName, ...options })
}

/** Name of a collection to create. */
export function NewCollectionName(options: SchemaOptions = {}) {
  return CollectionName({ pattern: '^[^<>:"/\\\\|?*\\x00\\x1f]+$', ...options })
}

/** Name of a vector; the engine allows 200 bytes. */
export function VectorName(options: SchemaOptions = {}) {
  return Type.String({
    minLength: 1,
    ...maxCharacters(200),
    pattern: '^[^<>:"/\\\\|?*\\x00\\x1f]+$',
    ...options,
  })
}

/** Selects collections of a cluster. */
export function CollectionNames(options: SchemaOptions = {}) {
  return Type.Array(CollectionName(), {
    minItems: 1,
    maxItems: MAX_COLLECTIONS,
    'x-kubernetes-list-type': 'set',
    ...options,
  })
}

/** Maps the name of a collection at the source to its name at the target. */
export function CollectionMapping() {
  return Type.Record(Type.String(), NewCollectionName(), {
    default: {},
    maxProperties: MAX_COLLECTIONS,
    description:
      'Collections that get another name: from name at the source to name at the target.',
  })
}

/** An object of the engine's API, with the engine's own field names. */
export function EngineConfig(name: string, note = '') {
  return PassThrough({
    default: {},
    description: `The engine's ${name}, with its own field names.${note === '' ? '' : ` ${note}`}`,
  })
}
