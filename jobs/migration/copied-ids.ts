/**
 * The ids of the points that were copied into a collection that had points before. What a comparison then
 * finds on the target alone may be its own; only what was copied, and is not on the source any more, was
 * deleted there meanwhile. Kept in memory, as few bytes as their kind allows, up to a bound.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import { comparePointIds } from '../clients/engine/points.ts'

/** As many as 30 million numbers in a row, or two million UUIDs. */
export const MAX_ID_BYTES = 32 * 1024 * 1024
/** Of each page besides its ids: two of them as text, and the objects around. */
const RUN_OVERHEAD_BYTES = 400
const UUID_BYTES = 16
const SEVEN_BITS = 0x7f
const CONTINUATION_BIT = 0x80

/** Ids of one page, in ascending order. */
interface Run {
  first: string
  last: string
  ids: Packed
}

type Packed =
  | { encoding: 'numbers'; bytes: Buffer }
  | { encoding: 'uuids'; bytes: Buffer }
  | { encoding: 'text'; text: string }

/** Ids, as JSON: from one on, and before another. */
export interface IdRange {
  shardKey?: ShardKey | undefined
  from?: string | undefined
  until?: string | undefined
}

export class CopiedIds {
  readonly #runs = new Map<ShardKey | undefined, Run[]>()
  #bytesLeft: number
  #isComplete: boolean
  /** Runs come in the order of their lanes; they are sorted once they are asked for. */
  #isSorted = true

  /** `isComplete`: none was copied before, by another pod. */
  constructor(isComplete: boolean, maxBytes = MAX_ID_BYTES) {
    this.#isComplete = isComplete
    this.#bytesLeft = maxBytes
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
    this.#bytesLeft -= RUN_OVERHEAD_BYTES + byteSize(packed)
    if (this.#bytesLeft < 0) {
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
  *between({ shardKey, from, until }: IdRange): Generator<string> {
    this.#sort()
    const runs = this.#runs.get(shardKey) ?? []
    for (let n = findFirstRun(runs, from); n < runs.length; n += 1) {
      const run = runs[n]
      if (run === undefined || (until !== undefined && comparePointIds(run.first, until) >= 0))
        return
      for (const id of unpack(run.ids)) {
        if (from !== undefined && comparePointIds(id, from) < 0) continue
        if (until !== undefined && comparePointIds(id, until) >= 0) return
        yield id
      }
    }
  }

  #sort(): void {
    if (this.#isSorted) return
    this.#isSorted = true
    for (const runs of this.#runs.values()) {
      runs.sort((left, right) => comparePointIds(left.first, right.first))
    }
  }
}

/** Of the first run that does not end before an id. Lanes do not overlap, and so neither do runs. */
function findFirstRun(runs: readonly Run[], from: string | undefined): number {
  if (from === undefined) return 0
  let [low, high] = [0, runs.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (comparePointIds(runs[middle]?.last ?? '', from) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function pack(ids: readonly string[]): Packed {
  const numbers = ids.map(Number)
  const isAscending = numbers.every((id, n) => n === 0 || (numbers[n - 1] ?? 0) < id)
  if (isAscending && numbers.every((id) => Number.isSafeInteger(id))) {
    return { encoding: 'numbers', bytes: packNumbers(numbers) }
  }
  if (ids.every((id) => id.length === UUID_BYTES * 2 + 6 && id.startsWith('"'))) {
    const digits = ids.map((id) => id.replaceAll(/["-]/g, '')).join('')
    const bytes = Buffer.from(digits, 'hex')
    if (bytes.length === ids.length * UUID_BYTES) return { encoding: 'uuids', bytes }
  }
  return { encoding: 'text', text: ids.join('\n') }
}

function byteSize(packed: Packed): number {
  return packed.encoding === 'text' ? packed.text.length : packed.bytes.length
}

function* unpack(packed: Packed): Generator<string> {
  switch (packed.encoding) {
    case 'numbers':
      yield* unpackNumbers(packed.bytes)
      return
    case 'uuids':
      for (let offset = 0; offset < packed.bytes.length; offset += UUID_BYTES)
        yield uuidAt(packed.bytes, offset)
      return
    case 'text':
      yield* packed.text.split('\n')
  }
}

function uuidAt(bytes: Buffer, offset: number): string {
  const digits = bytes.toString('hex', offset, offset + UUID_BYTES)
  const offsets = [0, 8, 12, 16, 20, 32]
  return `"${offsets
    .slice(1)
    .map((end, n) => digits.slice(offsets[n], end))
    .join('-')}"`
}

/** By how much each is larger than the one before, seven bits to a byte. */
function packNumbers(ids: readonly number[]): Buffer {
  const bytes: number[] = []
  let previous = 0
  for (const id of ids) {
    let step = id - previous
    previous = id
    for (; step > SEVEN_BITS; step = Math.floor(step / CONTINUATION_BIT))
      bytes.push((step % CONTINUATION_BIT) + CONTINUATION_BIT)
    bytes.push(step)
  }
  return Buffer.from(bytes)
}

function* unpackNumbers(bytes: Buffer): Generator<string> {
  let [id, step, weight] = [0, 0, 1]
  for (const byte of bytes) {
    step += (byte & SEVEN_BITS) * weight
    weight *= CONTINUATION_BIT
    if (byte >= CONTINUATION_BIT) continue
    id += step
    yield String(id)
    step = 0
    weight = 1
  }
}
