/** What the API server changes before it validates: unknown fields and nulls go, defaults come. */
import { clone } from '../api/json.ts'
import {
  ANY,
  isFields,
  keepsUnknown,
  schemaOfField,
  type Fields,
  type Schema,
} from './structure.ts'

/** Drops, in place, the fields a schema does not know and the nulls it does not allow. */
export function prune(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) prune(schema.items ?? ANY, item)
  } else if (isFields(value)) {
    for (const name of Object.keys(value)) pruneField(schema, value, name)
  }
}

function pruneField(schema: Schema, object: Fields, name: string): void {
  const field = schemaOfField(schema, name)
  const unknown = field === undefined
  if (unknown ? !keepsUnknown(schema, name) : object[name] === null && field.nullable !== true) {
    Reflect.deleteProperty(object, name)
  } else if (!unknown) {
    prune(field, object[name])
  }
}

/** Fills in, in place, the defaults of fields that are absent, from the outside inwards. */
export function fillDefaults(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) fillDefaults(schema.items ?? ANY, item)
  } else if (isFields(value)) {
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      if (value[name] === undefined && field.default !== undefined) {
        value[name] = clone(field.default)
      }
    }
    for (const name of Object.keys(value)) {
      fillDefaults(schemaOfField(schema, name) ?? ANY, value[name])
    }
  }
}
