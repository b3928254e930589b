/**
 * The ids of points that were copied into a collection that had points before. Other points that
 * only the target has may be its own; a copied point that is no longer on the source was deleted
 * there during the migration. The ids are held in memory, in a compact encoding and up to a limit.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import { comparePointIds } from '../clients/engine/points.ts'

/** Enough for 30 million consecutive numbers or two million UUIDs. */
export const MAX_ID_BYTES = 32 * 1024 * 1024
/** Memory per page in addition to its ids: two ids as text, and the objects that contain them. */
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

/** A range of ids, as JSON: `from` is inclusive, `until` is exclusive. */
export interface IdRange {
  shardKey?: ShardKey | undefined
  from?: string | undefined
  until?: string | undefined
}

export class CopiedIds {
  readonly #runs = new Map<ShardKey | undefined, Run[]>()
  #bytesLeft: number
  #isComplete: boolean
  /** Partitions add their runs in any order; the runs are sorted before they are read. */
  #isSorted = true

  /** `isComplete` is false if an earlier pod has already copied points. */
  constructor(isComplete: boolean, maxBytes = MAX_ID_BYTES) {
    this.#isComplete = isComplete
    this.#bytesLeft = maxBytes
  }

  /** Whether it contains every id that was copied. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  get shardKeys(): (ShardKey | undefined)[] {
    return [...this.#runs.keys()]
  }

  /** Adds the ids of a page. Above the memory limit all ids are discarded. */
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

  /** The ids of a range, in ascending order. */
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

/**
 * Index of the first run that does not end before an id. Partitions do not overlap, so runs do not
 * overlap either.
 */
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

/** Encodes each id as its difference to the previous one, with seven bits per byte. */
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
