/**
 * Whether two points are the same: id, payload and every vector, whole. Bytes are compared first; where
 * they differ, values are: the order of keys and of sparse indices is nobody's choice, one number may be
 * written in several ways, and an engine that normalises a vector rounds.
 */
import { fieldsOf, itemsOf, type Span } from '../clients/raw-json.ts'
import type { Tolerance } from './tolerance.ts'

const OBJECT = 0x7b
const ARRAY = 0x5b
const STRING = 0x22
const EMPTY = Buffer.alloc(0)
const EMPTY_PARTS = ['null', '{}']
/** Integers are equal digit by digit; only numbers with a fraction or an exponent are floats to the engine. */
const FLOAT = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/

/** By name of a vector, the unnamed one under the empty name; those that are absent must be equal. */
export type Tolerances = ReadonlyMap<string, Tolerance>

const EXACT: Tolerance = { relative: 0, absolute: 0 }

/** Points as JSON. Nothing large is copied. */
export function samePoint(
  one: Buffer,
  other: Buffer | undefined,
  tolerances: Tolerances = new Map(),
): boolean {
  if (other === undefined) return false
  if (one.equals(other)) return true
  const [left, right] = [partsOf(one), partsOf(other)]
  return (
    left.size === right.size &&
    [...left].every(([name, value]) => {
      const match = right.get(name)
      if (match === undefined) return false
      return name === 'vector' ? sameVectors(value, match, tolerances) : sameValue(value, match)
    })
  )
}

/** Fields of a point; a payload or vectors that are empty are not there, however an engine writes that. */
function partsOf(point: Buffer): Map<string, Buffer> {
  const parts = [...fieldsOf(point)].map(([name, span]) => [name, cut(point, span)] as const)
  return new Map(parts.filter(([, value]) => !EMPTY_PARTS.includes(value.toString('latin1', 0, 5))))
}

/** Any JSON. */
export function sameValue(one: Buffer, other: Buffer): boolean {
  if (one.equals(other)) return true
  const [kind] = one
  if (kind !== other[0]) return isSameFloat(one, other)
  if (kind === OBJECT) return sameFields(one, other, (_, left, right) => sameValue(left, right))
  if (kind === ARRAY) return sameItems(one, other)
  if (kind === STRING) return JSON.parse(one.toString()) === JSON.parse(other.toString())
  return isSameFloat(one, other)
}

/** One vector, several of a multivector, or all that have names. */
function sameVectors(one: Buffer, other: Buffer, tolerances: Tolerances): boolean {
  if (one.equals(other)) return true
  if (one[0] !== other[0]) return false
  if (one[0] === ARRAY) return sameNumbers(one, other, tolerances.get('') ?? EXACT)
  return sameFields(one, other, (name, left, right) => {
    if (left.equals(right)) return true
    if (left[0] !== right[0]) return false
    return left[0] === OBJECT
      ? sameSparse(left, right)
      : sameNumbers(left, right, tolerances.get(name) ?? EXACT)
  })
}

function sameFields(
  one: Buffer,
  other: Buffer,
  same: (name: string, left: Buffer, right: Buffer) => boolean,
): boolean {
  if (one[0] !== OBJECT || other[0] !== OBJECT) return sameValue(one, other)
  const [left, right] = [fieldsOf(one), fieldsOf(other)]
  return (
    left.size === right.size &&
    [...left].every(([name, span]) => {
      const match = right.get(name)
      return match !== undefined && same(name, cut(one, span), cut(other, match))
    })
  )
}

function sameItems(one: Buffer, other: Buffer): boolean {
  const [left, right] = [itemsOf(one), itemsOf(other)]
  return (
    left.length === right.length &&
    left.every((span, n) => sameValue(cut(one, span), cut(other, right[n])))
  )
}

function isSameFloat(one: Buffer, other: Buffer): boolean {
  const [left, right] = [one.toString(), other.toString()]
  const areFloats = [left, right].every((word) => FLOAT.test(word) && /[.eE]/.test(word))
  return areFloats && Object.is(Number(left), Number(right))
}

/** Vectors hold floats of 32 bits at most, which a number of JavaScript can hold. */
function sameNumbers(one: Buffer, other: Buffer, tolerance: Tolerance): boolean {
  return areClose(JSON.parse(one.toString()), JSON.parse(other.toString()), tolerance)
}

function areClose(one: unknown, other: unknown, tolerance: Tolerance): boolean {
  if (Array.isArray(one) && Array.isArray(other)) {
    const list: unknown[] = other
    return one.length === list.length && one.every((item, n) => areClose(item, list[n], tolerance))
  }
  if (typeof one !== 'number' || typeof other !== 'number') return one === other
  const { relative, absolute } = tolerance
  return one === other || Math.abs(one - other) <= Math.max(absolute, relative * Math.abs(one))
}

function sameSparse(one: Buffer, other: Buffer): boolean {
  const [left, right] = [sparseOf(one), sparseOf(other)]
  return left.size === right.size && [...left].every(([index, value]) => right.get(index) === value)
}

function sparseOf(json: Buffer): Map<number, number> {
  const { indices = [], values = [] } = JSON.parse(json.toString()) as {
    indices?: number[]
    values?: number[]
  }
  return new Map(indices.map((index, n) => [index, values[n] ?? NaN]))
}

function cut(text: Buffer, span: Span | undefined): Buffer {
  return span === undefined ? EMPTY : text.subarray(span.start, span.end)
}
