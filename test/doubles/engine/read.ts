/**
 * How the engine reads JSON bodies: unknown fields are dropped, null is absent, a wrong type is a 400
 * that says what was expected, a value out of range a 422 with its path.
 */
import { refuse } from './answers.ts'
import { largeInteger } from './json.ts'

type Fields = Record<string, unknown>

/** Values out of range are collected, and all of them are reported together. */
interface Reading {
  path: string[]
  outOfRange: string[]
}

export type Reader<T = unknown> = (value: unknown, reading: Reading) => T

/** A value of another shape; it ends the reading unless another variant fits. */
class Malformed extends Error {}

export function readBody<T>(reader: Reader<T>, body: unknown, root: string[] = []): T {
  if (body === undefined) {
    return refuse(400, 'Format error in JSON body: EOF while parsing a value at line 1 column 0')
  }
  const reading: Reading = { path: root, outOfRange: [] }
  const value = attempt(() => reader(body, reading))
  if (value instanceof Malformed) {
    return refuse(400, `Format error in JSON body: ${value.message} at line 1 column 1`)
  }
  const [first] = reading.outOfRange
  if (first === undefined) return value
  return refuse(422, `Validation error in JSON body: [${reading.outOfRange.join(', ')}]`)
}

export function malformed(message: string): never {
  throw new Malformed(message)
}

interface Range {
  min?: number
  max?: number
}

const MAX_U64 = 2n ** 64n - 1n

export function integer(type: string, { min, max }: Range = {}): Reader<number> {
  return (value, reading) => {
    const large = largeInteger(value)
    if (large !== undefined) return largeNumber(value, large, type)
    if (typeof value !== 'number') return malformed(`${invalidType(value)}, expected ${type}`)
    if (!Number.isInteger(value)) malformed(`${invalidType(value)}, expected ${type}`)
    const isUnsigned = !type.startsWith('i')
    if (isUnsigned && value < (type.startsWith('a nonzero') ? 1 : 0)) {
      malformed(`invalid value: integer \`${value}\`, expected ${type}`)
    }
    checkRange(
      value,
      String,
      { ...(min !== undefined && { min }), ...(max !== undefined && { max }) },
      reading,
    )
    return value
  }
}

/** Written again as it is. */
function largeNumber(value: unknown, large: bigint, type: string): number {
  if (large > MAX_U64 || large < -(2n ** 63n)) {
    malformed(`invalid type: floating point \`${Number(large)}\`, expected ${type}`)
  }
  if (large < 0n || type.includes('32')) {
    malformed(`invalid value: integer \`${large}\`, expected ${type}`)
  }
  return value as number
}

export function float(range: Range = {}): Reader<number> {
  return (value, reading) => {
    if (typeof value !== 'number') return malformed(`${invalidType(value)}, expected f64`)
    const show = (number: number) => (Number.isInteger(number) ? `${number}.0` : String(number))
    checkRange(value, show, range, reading)
    return value
  }
}

export const usize = integer('usize')

export const boolean: Reader<boolean> = (value) =>
  typeof value === 'boolean' ? value : malformed(`${invalidType(value)}, expected a boolean`)

export const string: Reader<string> = (value) =>
  typeof value === 'string' ? value : malformed(`${invalidType(value)}, expected a string`)

export const anything: Reader = (value) => value

export function oneOf(...variants: string[]): Reader<string> {
  return (value) => {
    if (typeof value === 'string' && variants.includes(value)) return value
    if (typeof value !== 'string') return malformed(`${invalidType(value)}, expected a string`)
    const names = variants.map((name) => `\`${name}\``)
    const expected = names.length === 2 ? names.join(' or ') : `one of ${names.join(', ')}`
    return malformed(`unknown variant \`${value}\`, expected ${expected}`)
  }
}

export function list<T>(item: Reader<T>): Reader<T[]> {
  return (value, reading) =>
    Array.isArray(value)
      ? value.map((inner) => item(inner, reading))
      : malformed(`${invalidType(value)}, expected a sequence`)
}

export function map<T>(item: Reader<T>): Reader<Map<string, T>> {
  return (value, reading) => {
    if (!isObject(value)) return malformed(`${invalidType(value)}, expected a map`)
    return new Map(
      Object.entries(value).map(([name, inner]) => [
        name,
        within(reading, '?', () => item(inner, reading)),
      ]),
    )
  }
}

interface StructOptions {
  required?: string[]
  /** Other names that are read for a field. */
  aliases?: Record<string, string>
}

/** Only the fields it knows; the rest is dropped without a word. */
export function struct(
  name: string,
  fields: Record<string, Reader>,
  { required = [], aliases = {} }: StructOptions = {},
): Reader<Fields> {
  return (value, reading) => {
    if (!isObject(value)) return malformed(`${invalidType(value)}, expected struct ${name}`)
    const given = new Map(Object.entries(value).map(([key, inner]) => [aliases[key] ?? key, inner]))
    const read: Fields = {}
    for (const [field, reader] of Object.entries(fields)) {
      const inner = given.get(field)
      if (inner !== undefined && inner !== null) {
        read[field] = within(reading, field, () => reader(inner, reading))
      } else if (required.includes(field)) malformed(`missing field \`${field}\``)
    }
    return read
  }
}

/** The first variant that fits; the errors of the others are not reported. */
export function untagged<T>(name: string, ...variants: Reader<T>[]): Reader<T> {
  return (value, reading) => {
    for (const variant of variants) {
      const outOfRange: string[] = []
      const read = attempt(() => variant(value, { path: reading.path, outOfRange }))
      if (read instanceof Malformed) continue
      reading.outOfRange.push(...outOfRange)
      return read
    }
    return malformed(`data did not match any variant of untagged enum ${name}`)
  }
}

/** A value with an additional check, which returns the error. */
export function checked<T>(reader: Reader<T>, wrong: (value: T) => string | undefined): Reader<T> {
  return (value, reading) => {
    const read = reader(value, reading)
    const error = wrong(read)
    if (error !== undefined) reading.outOfRange.push(`${reading.path.join('.')}.${error}`)
    return read
  }
}

function within<T>(reading: Reading, step: string, read: () => T): T {
  reading.path.push(step)
  const value = read()
  reading.path.pop()
  return value
}

function attempt<T>(read: () => T): T | Malformed {
  try {
    return read()
  } catch (error) {
    if (error instanceof Malformed) return error
    throw error
  }
}

function checkRange(
  value: number,
  show: (value: number) => string,
  { min = -Infinity, max = Infinity }: Range,
  { path, outOfRange }: Reading,
): void {
  if (value >= min && value <= max) return
  const range = max === Infinity ? `${show(min)} or larger` : `from ${show(min)} to ${show(max)}`
  outOfRange.push(`${path.join('.')}: value ${show(value)} invalid, must be ${range}`)
}

function invalidType(value: unknown): string {
  if (value === null) return 'invalid type: null'
  if (typeof value === 'string') return `invalid type: string ${JSON.stringify(value)}`
  if (typeof value === 'boolean') return `invalid type: boolean \`${value}\``
  if (typeof value !== 'number') return `invalid type: ${Array.isArray(value) ? 'sequence' : 'map'}`
  return `invalid type: ${Number.isInteger(value) ? 'integer' : 'floating point'} \`${value}\``
}

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
