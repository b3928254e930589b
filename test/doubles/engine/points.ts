/** Points, as far as counts, pages of ids and tokens with value_exists need them. */
import { refuse } from './answers.ts'
import { integerText } from './json.ts'
import { isObject } from './read.ts'

export interface Point {
  id: unknown
  vector: unknown
  payload: Record<string, unknown>
}

export interface Condition {
  key: string
  match: { value?: unknown }
}

export interface Filter {
  must?: Condition[]
}

/** Integers before UUIDs, each in ascending order. */
export function sortId(id: unknown): [number, bigint | string] {
  const number = integerText(id)
  return number === undefined ? [1, String(id)] : [0, BigInt(number)]
}

export function compareIds(one: unknown, other: unknown): number {
  const [kind, value] = sortId(one)
  const [otherKind, otherValue] = sortId(other)
  if (kind !== otherKind) return kind - otherKind
  return value === otherValue ? 0 : value < otherValue ? -1 : 1
}

export function sameId(one: unknown, other: unknown): boolean {
  return compareIds(one, other) === 0
}

/** Typed: "1" is not 1. */
export function matches({ payload }: Point, { must = [] }: Filter = {}): boolean {
  return must.every(({ key, match }) => {
    const value = key
      .split('.')
      .reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), payload)
    return Array.isArray(value) ? value.includes(match.value) : value === match.value
  })
}

/** Points of an upsert, checked against the vectors of their collection. */
export function readPoints(body: unknown, vectors: unknown): Point[] {
  const { points } = body as { points?: unknown }
  if (!Array.isArray(points) || points.length === 0)
    refuse(400, 'Bad request: Empty update request')
  return (points as Partial<Point>[]).map(({ id, vector, payload }) => {
    const size = isObject(vectors) ? vectors['size'] : undefined
    if (Array.isArray(vector) && typeof size === 'number' && vector.length !== size) {
      refuse(
        400,
        `Wrong input: Vector dimension error: expected dim: ${size}, got ${vector.length}`,
      )
    }
    return { id, vector, payload: payload ?? {} }
  })
}
