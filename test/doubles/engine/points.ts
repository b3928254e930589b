/** Points, as far as counts, pages, copies and tokens with value_exists need them. */
import { refuse } from './answers.ts'
import type { Collection, ShardKey } from './collection.ts'
import { integerText } from './json.ts'
import { isObject } from './read.ts'

export interface Point {
  id: unknown
  vector: unknown
  payload: Record<string, unknown>
  /** Under custom sharding. */
  shard_key?: ShardKey
  /** Id of the shard, where it came with a snapshot of one. */
  shard?: number
}

export type Condition = { key: string; match: { value?: unknown } } | { has_id: unknown[] }

export interface Filter {
  must?: Condition[]
}

/** Integers before UUIDs, each in ascending order. */
export function sortId(id: unknown): [number, bigint | string] {
  const number = integerText(id)
  return number === undefined ? [1, String(id)] : [0, BigInt(number)]
}

export function compareIds(one: unknown, other: unknown): number {
  if (typeof one === 'number' && typeof other === 'number') return one - other
  const [kind, value] = sortId(one)
  const [otherKind, otherValue] = sortId(other)
  if (kind !== otherKind) return kind - otherKind
  return value === otherValue ? 0 : value < otherValue ? -1 : 1
}

export function sameId(one: unknown, other: unknown): boolean {
  return compareIds(one, other) === 0
}

/** Typed: "1" is not 1. */
export function matches({ id, payload }: Point, { must = [] }: Filter = {}): boolean {
  return must.every((condition) => {
    if ('has_id' in condition) return condition.has_id.some((one) => sameId(one, id))
    const { key, match } = condition
    const value = key
      .split('.')
      .reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), payload)
    return Array.isArray(value) ? value.includes(match.value) : value === match.value
  })
}

/** Points of an upsert, checked against the vectors and the shard keys of their collection. */
export function readPoints(body: unknown, collection: Collection): Point[] {
  const { points, shard_key: key } = body as { points?: unknown; shard_key?: ShardKey }
  if (!Array.isArray(points) || points.length === 0)
    refuse(400, 'Bad request: Empty update request')
  checkKey(collection, key, 'Wrong input')
  if (key === undefined && isCustom(collection)) refuse(400, 'Wrong input: Shard key not specified')
  return (points as Partial<Point>[]).map(({ id, vector, payload }) => {
    checkVector(vector, collection)
    return { id, vector, payload: payload ?? {}, ...(key !== undefined && { shard_key: key }) }
  })
}

/** An unknown shard key is an error; without a key the call addresses all of them. */
export function checkKey(
  { shards }: Collection,
  key: ShardKey | undefined,
  kind: 'Wrong input' | 'Bad request',
): void {
  if (key === undefined || shards.some((shard) => shard.key === key)) return
  refuse(400, `${kind}: Shard key ${JSON.stringify(key)} not found`)
}

function isCustom({ config }: Collection): boolean {
  return config.params['sharding_method'] === 'custom'
}

function checkVector(vector: unknown, { config }: Collection): void {
  const { vectors } = config.params
  const single = vectors['size']
  if (Array.isArray(vector)) checkSize(vector, single)
  if (!isObject(vector)) return
  for (const [name, value] of Object.entries(vector)) {
    if (isReadAsSparse(value)) {
      refuse(400, 'Wrong input: Conversion between sparse and regular vectors failed')
    }
    const known = vectors[name]
    if (isObject(known) && Array.isArray(value)) checkSize(value, known['size'])
  }
}

/** Of a multivector each of its vectors is measured. */
function checkSize(vector: unknown[], size: unknown): void {
  const [first] = vector
  const length = Array.isArray(first) ? first.length : vector.length
  if (typeof size !== 'number' || length === size) return
  refuse(400, `Wrong input: Vector dimension error: expected dim: ${size}, got ${length}`)
}

/** Two lists, the first of whole numbers: the engine takes them for indices and values. */
function isReadAsSparse(value: unknown): boolean {
  const [indices, values, ...more] = Array.isArray(value) ? (value as unknown[]) : []
  if (!Array.isArray(indices) || !Array.isArray(values) || more.length > 0) return false
  return indices.every((index) => typeof index === 'number' && Number.isInteger(index))
}
