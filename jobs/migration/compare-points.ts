/**
 * Whether two points are the same: id, payload and every vector, whole. Bytes are compared first; where
 * they differ, values are: the order of keys and of sparse indices is nobody's choice, one number may be
 * written in several ways, and an engine that normalises a vector rounds.
 */
import { isPlainObject, type PlainObject } from '../../crds/engine/plain-object.ts'
import { arraySpans, objectSpans, type Span } from '../clients/engine/json-scanner.ts'

const OBJECT = 0x7b
const ARRAY = 0x5b
const STRING = 0x22
const EMPTY = Buffer.alloc(0)
const EMPTY_VALUES = ['null', '{}']
/** Integers are equal digit by digit; only numbers with a fraction or an exponent are floats to the engine. */
const FLOAT = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/

/** By name of a vector, the unnamed one under the empty name; those that are absent must be equal. */
export type Tolerances = ReadonlyMap<string, Tolerance>

const EXACT: Tolerance = { relative: 0, absolute: 0 }

/** Points as JSON. Nothing large is copied. */
export function pointsEqual(
  a: Buffer,
  b: Buffer | undefined,
  tolerances: Tolerances = new Map(),
): boolean {
  if (b === undefined) return false
  if (a.equals(b)) return true
  const [left, right] = [pointFields(a), pointFields(b)]
  return (
    left.size === right.size &&
    [...left].every(([name, value]) => {
      const match = right.get(name)
      if (match === undefined) return false
      return name === 'vector' ? vectorsEqual(value, match, tolerances) : jsonEqual(value, match)
    })
  )
}

/** Fields of a point; a payload or vectors that are empty are not there, however an engine writes that. */
function pointFields(point: Buffer): Map<string, Buffer> {
  const fields = [...objectSpans(point)].map(
    ([name, span]) => [name, sliceSpan(point, span)] as const,
  )
  return new Map(
    fields.filter(([, value]) => !EMPTY_VALUES.includes(value.toString('latin1', 0, 5))),
  )
}

/** Any JSON. */
export function jsonEqual(a: Buffer, b: Buffer): boolean {
  if (a.equals(b)) return true
  const [firstByte] = a
  if (firstByte !== b[0]) return floatsEqual(a, b)
  if (firstByte === OBJECT) return fieldsEqual(a, b, (_, left, right) => jsonEqual(left, right))
  if (firstByte === ARRAY) return itemsEqual(a, b)
  if (firstByte === STRING) return JSON.parse(a.toString()) === JSON.parse(b.toString())
  return floatsEqual(a, b)
}

/** One vector, several of a multivector, or all that have names. */
function vectorsEqual(a: Buffer, b: Buffer, tolerances: Tolerances): boolean {
  if (a.equals(b)) return true
  if (a[0] !== b[0]) return false
  if (a[0] === ARRAY) return numbersEqual(a, b, tolerances.get('') ?? EXACT)
  return fieldsEqual(a, b, (name, left, right) => {
    if (left.equals(right)) return true
    if (left[0] !== right[0]) return false
    return left[0] === OBJECT
      ? sparseEqual(left, right)
      : numbersEqual(left, right, tolerances.get(name) ?? EXACT)
  })
}

function fieldsEqual(
  a: Buffer,
  b: Buffer,
  isEqual: (name: string, left: Buffer, right: Buffer) => boolean,
): boolean {
  if (a[0] !== OBJECT || b[0] !== OBJECT) return jsonEqual(a, b)
  const [left, right] = [objectSpans(a), objectSpans(b)]
  return (
    left.size === right.size &&
    [...left].every(([name, span]) => {
      const match = right.get(name)
      return match !== undefined && isEqual(name, sliceSpan(a, span), sliceSpan(b, match))
    })
  )
}

function itemsEqual(a: Buffer, b: Buffer): boolean {
  const [left, right] = [arraySpans(a), arraySpans(b)]
  return (
    left.length === right.length &&
    left.every((span, n) => jsonEqual(sliceSpan(a, span), sliceSpan(b, right[n])))
  )
}

function floatsEqual(a: Buffer, b: Buffer): boolean {
  const [left, right] = [a.toString(), b.toString()]
  const areFloats = [left, right].every((text) => FLOAT.test(text) && /[.eE]/.test(text))
  return areFloats && Object.is(Number(left), Number(right))
}

/** Vectors hold floats of 32 bits at most, which a number of JavaScript can hold. */
function numbersEqual(a: Buffer, b: Buffer, tolerance: Tolerance): boolean {
  return withinTolerance(JSON.parse(a.toString()), JSON.parse(b.toString()), tolerance)
}

function withinTolerance(a: unknown, b: unknown, tolerance: Tolerance): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    const list: unknown[] = b
    return (
      a.length === list.length && a.every((item, n) => withinTolerance(item, list[n], tolerance))
    )
  }
  if (typeof a !== 'number' || typeof b !== 'number') return a === b
  const { relative, absolute } = tolerance
  return a === b || Math.abs(a - b) <= Math.max(absolute, relative * Math.abs(a))
}

function sparseEqual(a: Buffer, b: Buffer): boolean {
  const [left, right] = [parseSparse(a), parseSparse(b)]
  return left.size === right.size && [...left].every(([index, value]) => right.get(index) === value)
}

function parseSparse(json: Buffer): Map<number, number> {
  const { indices = [], values = [] } = JSON.parse(json.toString()) as {
    indices?: number[]
    values?: number[]
  }
  return new Map(indices.map((index, n) => [index, values[n] ?? NaN]))
}

function sliceSpan(text: Buffer, span: Span | undefined): Buffer {
  return span === undefined ? EMPTY : text.subarray(span.start, span.end)
}

export interface Tolerance {
  relative: number
  /** For what is close to zero. */
  absolute: number
}

/** The sum of the squares of 65,536 floats of 32 bits is off by less. */
const COSINE: Tolerance = { relative: 1e-5, absolute: 1e-9 }
/** One step between two floats of 16 bits; between the smallest of them it is 2^-24. */
const COSINE_FLOAT16: Tolerance = { relative: 2 ** -10, absolute: 2 ** -24 }

/** Of the dense vectors in `config.params` of a collection; the unnamed one is under the empty name. */
export function vectorTolerances({ vectors }: PlainObject): Map<string, Tolerance> {
  if (!isPlainObject(vectors)) return new Map()
  const vectorsByName = typeof vectors['size'] === 'number' ? { '': vectors } : vectors
  return new Map(
    Object.entries(vectorsByName).flatMap(([name, vector]) => {
      const tolerance = isPlainObject(vector) ? vectorTolerance(vector) : undefined
      return tolerance === undefined ? [] : [[name, tolerance]]
    }),
  )
}

function vectorTolerance({ distance, datatype }: PlainObject): Tolerance | undefined {
  // Whole numbers are not normalised.
  if (distance !== 'Cosine' || datatype === 'uint8') return undefined
  return datatype === 'float16' ? COSINE_FLOAT16 : COSINE
}
