/** What of an OpenAPI schema a CRD may use; the parts of an object that a schema leads to. */

export interface Schema {
  type?: string
  nullable?: boolean
  default?: unknown
  enum?: unknown[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: Schema | boolean
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  multipleOf?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  minProperties?: number
  maxProperties?: number
  not?: Schema
  'x-kubernetes-int-or-string'?: boolean
  'x-kubernetes-preserve-unknown-fields'?: boolean
  'x-kubernetes-embedded-resource'?: boolean
  'x-kubernetes-list-type'?: string
  'x-kubernetes-list-map-keys'?: string[]
  'x-kubernetes-validations'?: { rule: string; message?: string }[]
}

/** The schema of a value without one. */
export const ANY: Schema = {}

export type Fields = Record<string, unknown>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Schema of a field of an object; undefined when the schema does not know the field. */
export function schemaOfField(schema: Schema, name: string): Schema | undefined {
  const known = schema.properties
  if (known !== undefined && Object.hasOwn(known, name)) return known[name]
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
}

/** Whether a field that the schema does not know is kept. */
export function keepsUnknown(schema: Schema, name: string): boolean {
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return true
  if (schema.additionalProperties === true) return true
  const identity = ['apiVersion', 'kind', 'metadata'].includes(name)
  return identity && schema['x-kubernetes-embedded-resource'] === true
}

/** What distinguishes an item of a list of type map from the others. */
export function itemKey(schema: Schema, item: unknown): Fields {
  const keys = schema['x-kubernetes-list-map-keys'] ?? []
  const fields = isFields(item) ? item : {}
  return Object.fromEntries(keys.map((key) => [key, fields[key]]))
}
