/**
 * Reads an object of a built-in kind as Kubernetes does: unknown fields are dropped, wrong types refused, and amounts
 * written in one notation.
 */
import { ApiFailure } from './failure.ts'
import { isRecord, type Json } from './json.ts'
import type { Kind } from './kinds.ts'
import { fieldsOf, modelOf, TIMES, type Field } from './models.ts'
import { canonicalQuantity } from './quantity.ts'

/** An amount, as Kubernetes writes it; a number is one, too. */
const QUANTITY = /^[+-]?(\d+|\d+\.\d*|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE])?$/
/** Fields that the models call text. */
const QUANTITIES = new Set([
  'V1EmptyDirVolumeSource.sizeLimit',
  'V1PersistentVolumeClaimStatus.capacity',
  'V1PodSpec.overhead',
  'V1ResourceFieldSelector.divisor',
  'V1ResourceRequirements.limits',
  'V1ResourceRequirements.requests',
  'V1VolumeResourceRequirements.limits',
  'V1VolumeResourceRequirements.requests',
])
const LIST = /^Array<(.*)>$/
const MAP = /^\{ \[key: string\]: (.*); \}$/

interface Decoded {
  object: Json
  /** Paths of fields that Kubernetes does not have; they are not in `object`. */
  unknown: string[]
}

/** Throws `WrongType` for a value of another type than its field. */
export function decode(kind: Kind, object: Json): Decoded {
  const unknown: string[] = []
  const decoded = readObject(modelOf(kind.kind), object, '', unknown)
  return { object: decoded, unknown }
}

export class WrongType extends ApiFailure {
  constructor(message: string) {
    super(400, 'BadRequest', message)
  }
}

function readObject(model: string, object: Json, path: string, unknown: string[]): Json {
  const fields = fieldsOf(model)
  if (fields === undefined) return object
  const read: Json = {}
  for (const [name, value] of Object.entries(object)) {
    const field = fields.get(name)
    const at = path === '' ? name : `${path}.${name}`
    if (field === undefined) unknown.push(at)
    else read[name] = readField(model, field, value, at, unknown)
  }
  return read
}

function readField(
  model: string,
  field: Field,
  value: unknown,
  path: string,
  unknown: string[],
): unknown {
  const isQuantity = QUANTITIES.has(`${model}.${field.name}`)
  return readValue({ ...field, ...(isQuantity && quantity(field)) }, value, path, unknown)
}

/** The type with amounts in place of text. */
function quantity({ type }: Field): Pick<Field, 'type'> {
  return { type: type.replace('string; }', 'Quantity; }').replace(/^string$/, 'Quantity') }
}

type Type = Pick<Field, 'type' | 'format'>

function readValue(
  { type, format }: Type,
  value: unknown,
  path: string,
  unknown: string[],
): unknown {
  // Null is what an absent field is.
  if (value === null || value === undefined || type === 'any') return value
  const [, item] = LIST.exec(type) ?? []
  if (item !== undefined) {
    if (!Array.isArray(value)) throw wrong(value, path, 'list')
    return value.map((one: unknown, index) =>
      readValue({ type: item, format }, one, `${path}[${index}]`, unknown),
    )
  }
  const [, entry] = MAP.exec(type) ?? []
  if (entry !== undefined) {
    if (!isRecord(value)) throw wrong(value, path, 'map')
    const entries = Object.entries(value).map(([key, one]) => [
      key,
      readValue({ type: entry, format }, one, `${path}.${key}`, unknown),
    ])
    return Object.fromEntries(entries) as Json
  }
  if (fieldsOf(type) !== undefined) {
    if (!isRecord(value)) throw wrong(value, path, type.replace(/^\w*V1/, ''))
    return readObject(type, value, path, unknown)
  }
  if (!isScalar({ type, format }, value)) throw wrong(value, path, format === '' ? type : format)
  if (type !== 'Quantity') return value
  return typeof value === 'number' || typeof value === 'string'
    ? canonicalQuantity(String(value))
    : value
}

function isScalar({ type, format }: Type, value: unknown): boolean {
  if (TIMES.has(type)) return typeof value === 'string' && !Number.isNaN(Date.parse(value))
  switch (type) {
    case 'string':
      return typeof value === 'string'
    case 'boolean':
      return typeof value === 'boolean'
    case 'number':
      return typeof value === 'number' && isInFormat(value, format)
    case 'IntOrString':
      return typeof value === 'string' || Number.isInteger(value)
    case 'Quantity':
      return QUANTITY.test(String(value)) && ['string', 'number'].includes(typeof value)
    default:
      throw new Error(`no type of Kubernetes: ${type}`)
  }
}

function isInFormat(value: number, format: string): boolean {
  if (format === 'double') return true
  const bits = format === 'int32' ? 31 : 63
  return Number.isInteger(value) && value < 2 ** bits && value >= -(2 ** bits)
}

function wrong(value: unknown, path: string, type: string): WrongType {
  const given = Array.isArray(value) ? 'array' : typeof value
  return new WrongType(`json: cannot unmarshal ${given} into field ${path} of type ${type}`)
}
