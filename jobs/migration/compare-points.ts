/**
 * Compares two points completely: id, payload and every vector. Bytes are compared first, then
 * values: the order of keys and sparse indices is arbitrary, a number can be written in several
 * ways, and an engine rounds when it normalizes a vector.
 *
 * Counts the points that differ by kind, and keeps their ids as far as memory allows.
 */
import { isPlainObject, type PlainObject } from '../../crds/engine/plain-object.ts'
import { arraySpans, objectSpans, type Span } from '../clients/engine/json-scanner.ts'
import type { CopyScope } from './page-reader.ts'

const OBJECT = 0x7b
const ARRAY = 0x5b
const STRING = 0x22
const EMPTY = Buffer.alloc(0)
const EMPTY_VALUES = ['null', '{}']
/**
 * Integers are compared digit by digit; the engine treats only numbers with a fraction or an
 * exponent as floats.
 */
const FLOAT = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/

/**
 * By vector name; the unnamed vector has an empty name. Vectors without an entry must be exactly
 * equal.
 */
export type Tolerances = ReadonlyMap<string, Tolerance>

const EXACT: Tolerance = { relative: 0, absolute: 0 }

/** Compares points given as JSON. Values with equal bytes are not copied or parsed. */
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

/**
 * Fields of a point. An empty payload or empty vectors count as absent, however an engine writes
 * them.
 */
function pointFields(point: Buffer): Map<string, Buffer> {
  const fields = [...objectSpans(point)].map(
    ([name, span]) => [name, sliceSpan(point, span)] as const,
  )
  return new Map(
    fields.filter(([, value]) => !EMPTY_VALUES.includes(value.toString('latin1', 0, 5))),
  )
}

/** Compares any two JSON values. */
export function jsonEqual(a: Buffer, b: Buffer): boolean {
  if (a.equals(b)) return true
  const [firstByte] = a
  if (firstByte !== b[0]) return floatsEqual(a, b)
  if (firstByte === OBJECT) return fieldsEqual(a, b, (_, left, right) => jsonEqual(left, right))
  if (firstByte === ARRAY) return itemsEqual(a, b)
  if (firstByte === STRING) return JSON.parse(a.toString()) === JSON.parse(b.toString())
  return floatsEqual(a, b)
}

/** Compares single vectors, multivectors, or all named vectors of a point. */
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

/** Vectors contain floats of at most 32 bits, which JavaScript numbers represent exactly. */
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
  /** For values close to zero. */
  absolute: number
}

/** The rounding error in a sum of squares of 65,536 32-bit floats is smaller. */
const COSINE: Tolerance = { relative: 1e-5, absolute: 1e-9 }
/** One step between two 16-bit floats; between the smallest of them a step is 2^-24. */
const COSINE_FLOAT16: Tolerance = { relative: 2 ** -10, absolute: 2 ** -24 }

/**
 * Tolerances of the dense vectors in `config.params` of a collection; the unnamed vector has an
 * empty name. The engine normalizes Cosine vectors on every write, and their last bits can change
 * (docs/engine-notes.md).
 */
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
  // The engine does not normalize integers.
  if (distance !== 'Cosine' || datatype === 'uint8') return undefined
  return datatype === 'float16' ? COSINE_FLOAT16 : COSINE
}

/** `extra`: on the target only. */
export type DifferenceKind = 'missing' | 'different' | 'extra'

/** An id takes about a hundred bytes. */
const MAX_LISTED = 20_000
const MAX_DESCRIBED = 3

const LABELS: Record<DifferenceKind, string> = {
  missing: 'missing on the target',
  different: 'different on the target',
  extra: 'on the target only',
}

export class Differences {
  readonly #counts: Record<DifferenceKind, number>
  readonly #listed: Record<DifferenceKind, [scope: CopyScope, id: string][]> = {
    ...{ missing: [], different: [], extra: [] },
  }

  /** `extra` is a number of points on the target only whose ids are unknown. */
  constructor(extra = 0) {
    this.#counts = { missing: 0, different: 0, extra }
  }

  add(kind: DifferenceKind, scope: CopyScope, id: string): void {
    this.#counts[kind] += 1
    if (this.#listed[kind].length < MAX_LISTED) this.#listed[kind].push([scope, id])
  }

  count(...kinds: DifferenceKind[]): number {
    return kinds.reduce((sum, kind) => sum + this.#counts[kind], 0)
  }

  /** Whether the id of every point of these kinds is listed. */
  areListed(...kinds: DifferenceKind[]): boolean {
    return kinds.every((kind) => this.unlisted(kind) === 0)
  }

  /** Number of points whose ids are not listed. */
  unlisted(kind: DifferenceKind): number {
    return this.#counts[kind] - this.#listed[kind].length
  }

  /** Ids, as JSON, by their scope. */
  ids(...kinds: DifferenceKind[]): Map<CopyScope, string[]> {
    const ids = new Map<CopyScope, string[]>()
    for (const [scope, id] of kinds.flatMap((kind) => this.#listed[kind])) {
      const scopeIds = ids.get(scope)
      if (scopeIds === undefined) ids.set(scope, [id])
      else scopeIds.push(id)
    }
    return ids
  }

  /**
   * Readable descriptions, for example `2 missing on the target (5, 7)`; empty without differences.
   */
  describe(): string[] {
    return (['missing', 'different', 'extra'] as const).flatMap((kind) => {
      const count = this.#counts[kind]
      if (count === 0) return []
      const examples = this.#listed[kind]
        .slice(0, MAX_DESCRIBED)
        .map(([scope, id]) => formatId(scope, id))
      const ellipsis = count > examples.length ? ', ...' : ''
      return [`${count} ${LABELS[kind]} (${examples.join(', ')}${ellipsis})`]
    })
  }
}

function formatId({ shardKey }: CopyScope, id: string): string {
  return shardKey === undefined ? id : `${id} under shard key ${JSON.stringify(shardKey)}`
}
