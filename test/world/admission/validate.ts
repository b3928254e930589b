/** Validates a value against a structural schema, with the causes the API server would name. */
import { ROOT, fieldPath, invalidValue, typeName, type Cause } from './invalid.ts'
import { ANY, isFields, itemKey, schemaOfField, type Fields, type Schema } from './structure.ts'

/** What is wrong with a value and the values in it. */
export function validate(schema: Schema, value: unknown, path: string): Cause[] {
  const wrongType = typeCause(schema, value, path)
  if (wrongType !== undefined) return [wrongType, ...ofEnum(schema, value, path)]
  return [
    ...ofEnum(schema, value, path),
    ...ofNot(schema, value, path),
    ...ofKind(schema, value, path),
  ]
}

function ofKind(schema: Schema, value: unknown, path: string): Cause[] {
  if (typeof value === 'string') return ofString(schema, value, path)
  if (typeof value === 'number') return ofNumber(schema, value, path)
  if (Array.isArray(value)) return ofList(schema, value, path)
  return isFields(value) ? ofFields(schema, value, path) : []
}

function typeCause(schema: Schema, value: unknown, path: string): Cause | undefined {
  const expected = schema['x-kubernetes-int-or-string'] === true ? 'integer,string' : schema.type
  const actual = typeName(value)
  if (expected === undefined || (value === null && schema.nullable === true)) return undefined
  if (expected.split(',').includes(actual)) return undefined
  if (expected === 'number' && actual === 'integer') return undefined
  const detail = `${path} in body must be of type ${expected}: "${actual}"`
  return { field: path, message: `Invalid value: "${actual}": ${detail}` }
}

function ofEnum(schema: Schema, value: unknown, path: string): Cause[] {
  if (schema.enum === undefined || includes(schema.enum, value)) return []
  const supported = schema.enum.map((word) => JSON.stringify(word)).join(', ')
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported}`
  return [{ field: path, message }]
}

function ofNot(schema: Schema, value: unknown, path: string): Cause[] {
  if (schema.not === undefined || validate(schema.not, value, path).length > 0) return []
  // The real one names no field here, only the path in its words.
  const detail = `"${path}" must not validate the schema (not)`
  return [{ field: ROOT, message: `Invalid value: "": ${detail}` }]
}

function includes(values: unknown[], value: unknown): boolean {
  return values.some((word) => JSON.stringify(word) === JSON.stringify(value))
}

/** Of a string only the first problem is named. */
function ofString(schema: Schema, value: string, path: string): Cause[] {
  const { minLength = 0, maxLength = Infinity, pattern, format } = schema
  const length = Array.from(value).length
  if (length > maxLength) {
    return [{ field: path, message: `Too long: may not be more than ${maxLength} bytes` }]
  }
  const say = (detail: string) => [invalidValue(path, value, `${path} in body ${detail}`)]
  if (length < minLength) return say(`should be at least ${minLength} chars long`)
  if (pattern !== undefined && !compiled(pattern).test(value)) {
    return say(`should match '${pattern}'`)
  }
  const badInstant = format === 'date-time' && !INSTANT.test(value)
  return badInstant ? say(`must be of type date-time: "${value}"`) : []
}

const patterns = new Map<string, RegExp>()

function compiled(pattern: string): RegExp {
  const found = patterns.get(pattern) ?? new RegExp(pattern)
  patterns.set(pattern, found)
  return found
}

const INSTANT = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.]\d+)?([Zz]|[+-]\d\d:\d\d)$/

function ofNumber(schema: Schema, value: number, path: string): Cause[] {
  const { minimum = -Infinity, maximum = Infinity, multipleOf } = schema
  const details = [
    value < minimum ? `should be greater than or equal to ${minimum}` : undefined,
    value > maximum ? `should be less than or equal to ${maximum}` : undefined,
    multipleOf !== undefined && value % multipleOf !== 0
      ? `should be a multiple of ${multipleOf}`
      : undefined,
  ]
  return details
    .filter((detail) => detail !== undefined)
    .map((detail) => invalidValue(path, value, `${path} in body ${detail}`))
}

function ofList(schema: Schema, items: unknown[], path: string): Cause[] {
  const { minItems = 0, items: itemSchema = ANY } = schema
  const few = `${path} in body should have at least ${minItems} items`
  return [
    ...(items.length < minItems ? [invalidValue(path, items.length, few)] : []),
    ...tooMany(items.length, schema.maxItems, path),
    ...items.flatMap((item, index) => validate(itemSchema, item, `${path}[${index}]`)),
    ...duplicates(schema, items, path),
  ]
}

function tooMany(count: number, most = Infinity, path: string): Cause[] {
  if (count <= most) return []
  return [{ field: path, message: `Too many: ${count}: must have at most ${most} items` }]
}

function duplicates(schema: Schema, items: unknown[], path: string): Cause[] {
  const type = schema['x-kubernetes-list-type']
  if (type !== 'set' && type !== 'map') return []
  const keys = items.map((item) => JSON.stringify(type === 'map' ? itemKey(schema, item) : item))
  return keys.flatMap((key, index) =>
    // Only the second of many is named.
    keys.slice(0, index).filter((other) => other === key).length !== 1
      ? []
      : [{ field: `${path}[${index}]`, message: `Duplicate value: ${key}` }],
  )
}

function ofFields(schema: Schema, value: Fields, path: string): Cause[] {
  const { required = [], minProperties = 0 } = schema
  const few = `${path} in body should have at least ${minProperties} properties`
  const count = Object.keys(value).length
  return [
    ...required
      .filter((name) => value[name] === undefined)
      .map((name) => ({ field: fieldPath(path, name), message: 'Required value' })),
    ...(count < minProperties ? [invalidValue(path, value, few)] : []),
    ...tooMany(count, schema.maxProperties, path),
    ...Object.entries(value).flatMap(([name, field]) =>
      validate(schemaOfField(schema, name) ?? ANY, field, fieldPath(path, name)),
    ),
  ]
}
