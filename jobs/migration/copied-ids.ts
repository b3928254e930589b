/**
 * The ids of the points that were copied into a collection that had points before. What a comparison then
 * finds on the target alone may be its own; only what was copied, and is not on the source any more, was
 * deleted there meanwhile. Kept in memory, as few bytes as their kind allows, up to a bound.
 */
import type { ShardKey } from '../../crds/manifest.ts'
import { orderOfIds } from '../clients/ids.ts'

/** As many as 30 million numbers in a row, or two million UUIDs. */
export const MAX_ID_BYTES = 32 * 1024 * 1024
/** Of each page besides its ids: two of them as text, and the objects around. */
const RUN_BYTES = 400
const UUID_BYTES = 16
const SEVEN_BITS = 0x7f
const MORE = 0x80

/** Ids of one page, in ascending order. */
interface Run {
  first: string
  last: string
  ids: Packed
}

type Packed =
  { as: 'numbers'; bytes: Buffer } | { as: 'uuids'; bytes: Buffer } | { as: 'text'; text: string }

/** Ids, as JSON: from one on, and before another. */
export interface Bounds {
  shardKey?: ShardKey | undefined
  from?: string | undefined
  until?: string | undefined
}

export class CopiedIds {
  readonly #runs = new Map<ShardKey | undefined, Run[]>()
  #left: number
  #isComplete: boolean
  /** Runs come in the order of their lanes; they are sorted once they are asked for. */
  #isSorted = true

  /** `isComplete`: none was copied before, by another pod. */
  constructor(isComplete: boolean, maxBytes = MAX_ID_BYTES) {
    this.#isComplete = isComplete
    this.#left = maxBytes
  }

  /** Whether it has every id that was copied. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  get shardKeys(): (ShardKey | undefined)[] {
    return [...this.#runs.keys()]
  }

  /** Those of a page. */
  add(shardKey: ShardKey | undefined, ids: readonly string[]): void {
    const [first, last] = [ids[0], ids.at(-1)]
    if (!this.#isComplete || first === undefined || last === undefined) return
    const packed = pack(ids)
    this.#left -= RUN_BYTES + sizeOf(packed)
    if (this.#left < 0) {
      this.#isComplete = false
      this.#runs.clear()
      return
    }
    const runs = this.#runs.get(shardKey) ?? []
    runs.push({ first, last, ids: packed })
    this.#runs.set(shardKey, runs)
    this.#isSorted = false
  }

  /** In ascending order. */
  *between({ shardKey, from, until }: Bounds): Generator<string> {
    this.#sort()
    const runs = this.#runs.get(shardKey) ?? []
    for (let n = firstAt(runs, from); n < runs.length; n += 1) {
      const run = runs[n]
      if (run === undefined || (until !== undefined && orderOfIds(run.first, until) >= 0)) return
      for (const id of unpack(run.ids)) {
        if (from !== undefined && orderOfIds(id, from) < 0) continue
        if (until !== undefined && orderOfIds(id, until) >= 0) return
        yield id
      }
    }
  }

  #sort(): void {
    if (this.#isSorted) return
    this.#isSorted = true
    for (const runs of this.#runs.values()) {
      runs.sort((one, other) => orderOfIds(one.first, other.first))
    }
  }
}

/** Of the first run that does not end before an id. Lanes do not overlap, and so neither do runs. */
function firstAt(runs: readonly Run[], from: string | undefined): number {
  if (from === undefined) return 0
  let [low, high] = [0, runs.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (orderOfIds(runs[middle]?.last ?? '', from) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function pack(ids: readonly string[]): Packed {
  const numbers = ids.map(Number)
  const isAscending = numbers.every((id, n) => n === 0 || (numbers[n - 1] ?? 0) < id)
  if (isAscending && numbers.every((id) => Number.isSafeInteger(id))) {
    return { as: 'numbers', bytes: packNumbers(numbers) }
  }
  if (ids.every((id) => id.length === UUID_BYTES * 2 + 6 && id.startsWith('"'))) {
    const digits = ids.map((id) => id.replaceAll(/["-]/g, '')).join('')
    const bytes = Buffer.from(digits, 'hex')
    if (bytes.length === ids.length * UUID_BYTES) return { as: 'uuids', bytes }
  }
  return { as: 'text', text: ids.join('\n') }
}

function sizeOf(packed: Packed): number {
  return packed.as === 'text' ? packed.text.length : packed.bytes.length
}

function* unpack(packed: Packed): Generator<string> {
  switch (packed.as) {
    case 'numbers':
      yield* unpackNumbers(packed.bytes)
      return
    case 'uuids':
      for (let at = 0; at < packed.bytes.length; at += UUID_BYTES) yield uuidAt(packed.bytes, at)
      return
    case 'text':
      yield* packed.text.split('\n')
  }
}

function uuidAt(bytes: Buffer, at: number): string {
  const digits = bytes.toString('hex', at, at + UUID_BYTES)
  const cuts = [0, 8, 12, 16, 20, 32]
  return `"${cuts
    .slice(1)
    .map((end, n) => digits.slice(cuts[n], end))
    .join('-')}"`
}

/** By how much each is larger than the one before, seven bits to a byte. */
function packNumbers(ids: readonly number[]): Buffer {
  const bytes: number[] = []
  let former = 0
  for (const id of ids) {
    let step = id - former
    former = id
    for (; step > SEVEN_BITS; step = Math.floor(step / MORE)) bytes.push((step % MORE) + MORE)
    bytes.push(step)
  }
  return Buffer.from(bytes)
}

function* unpackNumbers(bytes: Buffer): Generator<string> {
  let [id, step, weight] = [0, 0, 1]
  for (const byte of bytes) {
    step += (byte & SEVEN_BITS) * weight
    weight *= MORE
    if (byte >= MORE) continue
    id += step
    yield String(id)
    step = 0
    weight = 1
  }
}
