/**
 * Both sides of a collection, read whole and side by side in the order of their ids, and what differs
 * copied again. Pages that are equal byte by byte, as nearly all are, are never parsed.
 */
import { idAt, type Page } from '../clients/page.ts'
import { orderOfIds } from '../clients/ids.ts'
import { giveBack } from '../clients/own-bytes.ts'
import { itemsOf } from '../clients/raw-json.ts'
import { inLanes } from '../lanes.ts'
import type { CopiedIds } from './copied-ids.ts'
import { until } from './copy.ts'
import type { Differences } from './differences.ts'
import { IN_FLIGHT_BYTES, InFlight } from './in-flight.ts'
import { MAX_LANES, freshLanes, type Load } from './lanes.ts'
import { isTooLarge, paced } from './pace.ts'
import { PageSize, type Lane, type Place } from './pages.ts'
import { samePoint, type Tolerances } from './same-point.ts'
import type { Side, Work } from './work.ts'
import { Room, writeNow, type Shared } from './writes.ts'

/** Two of them are in memory for each lane. */
const PAGE_BYTES = 2 * 1024 * 1024

export interface Comparison {
  load: Load
  tolerances: Tolerances
  /** The target was empty before: whatever else it has is told. Otherwise only points of the source are asked for. */
  isWhole: boolean
  /** Otherwise: what was copied. Of that, what the source has no more is looked for on the target. */
  copied: CopiedIds | undefined
  /** Whether a write is awaited until it is applied. */
  wait: boolean
}

/** What was read for a comparison. */
export interface Amount {
  /** Of the source. */
  points: number
  /** Of both sides. */
  bytes: number
}

interface Comparing extends Shared {
  comparison: Comparison
  found: Differences
  amount: Amount
}

/** A point of a page. */
export interface Item {
  id: string
  json: Buffer
}

/** Compares all that the places hold, copies again what differs, and adds it to `found`. */
export async function compareAll(
  comparison: Comparison,
  found: Differences,
  work: Work,
): Promise<Amount> {
  const { load, wait } = comparison
  const { open, waiting } = await freshLanes(load, work)
  const stop = new AbortController()
  const comparing: Comparing = {
    ...{ comparison, found, wait, amount: { points: 0, bytes: 0 } },
    room: new Room(),
    size: new PageSize(load.most, PAGE_BYTES),
    inFlight: new InFlight(),
    work: until(stop, work),
  }
  await inLanes(
    [...open, ...waiting].map((lane) => [lane]),
    MAX_LANES,
    async (lane) => {
      try {
        await compareLane(lane, comparing)
      } catch (error) {
        // What fails one lane fails the comparison: the others need not come to their end.
        stop.abort(error)
        throw error
      }
    },
  )
  return comparing.amount
}

async function compareLane(lane: Lane, comparing: Comparing): Promise<void> {
  const { amount, work } = comparing
  for (let { offset } = lane; ;) {
    const pair = await readPair(lane, offset, comparing)
    try {
      const points = await comparePair(pair, lane, comparing)
      await findDeleted(pair, { ...lane, from: offset }, comparing)
      amount.points += points
      amount.bytes += pair.source.bytes + pair.target.bytes
      work.tally.compared(amount)
    } finally {
      for (const piece of [...pair.source.points, ...pair.target.points]) giveBack(piece)
      pair.release()
    }
    if (pair.next === undefined) return
    offset = pair.next
  }
}

interface Pair {
  source: Page
  target: Page
  /** Id from which on one of the sides was not read yet. */
  next: string | undefined
  release: () => void
}

/** A page of each side; smaller ones are asked for until both give one. */
async function readPair(
  lane: Lane,
  offset: string | undefined,
  comparing: Comparing,
): Promise<Pair> {
  const { size, inFlight, work } = comparing
  for (;;) {
    const { limit, room } = size
    // For both at once: a lane that holds one page and waits for the other could wait for ever.
    const hold = await inFlight.take(2 * room, work.tools.signal)
    try {
      const maxBytes = limit === 1 && room === IN_FLIGHT_BYTES ? Infinity : room
      const wanted = { limit, offset, until: lane.until, shardKey: lane.shardKey, maxBytes }
      const { source, target } = await readBoth(lane, wanted, comparing)
      size.took(source.bytes < target.bytes ? target : source)
      hold.settle(source.bytes + target.bytes)
      return { source, target, next: earlier(source.next, target.next), release: hold.release }
    } catch (error) {
      hold.release()
      if (!isTooLarge(error) || !size.refused({ limit, room })) throw error
    }
  }
}

type Wanted = Parameters<Side['points']['scroll']>[1] & { maxBytes: number }

async function readBoth({ name, targetName }: Place, wanted: Wanted, comparing: Comparing) {
  const { comparison, work } = comparing
  const { source, target, tools } = work
  const read = (side: Side, collection: string) =>
    paced(work, () => side.points.scroll(collection, wanted, tools.signal))
  if (comparison.isWhole) {
    const both = await Promise.allSettled([read(source, name), read(target, targetName)])
    const [one, other] = both.map(valueOf)
    if (one === undefined || other === undefined) throw new TypeError('two pages were asked for')
    return { source: one, target: other }
  }
  const page = await read(source, name)
  return { source: page, target: await namesakes(page, targetName, wanted, work) }
}

/** Neither is left alone in memory while the other has failed. */
function valueOf<Value>(result: PromiseSettledResult<Value>): Value {
  if (result.status === 'rejected') throw result.reason as Error
  return result.value
}

/** The points of the target with the ids of a page. */
async function namesakes(page: Page, targetName: string, wanted: Wanted, work: Work) {
  const { target, tools } = work
  const { shardKey, maxBytes } = wanted
  const ids = itemsIn(page).map(({ id }) => id)
  const options = { shardKey, maxBytes }
  const found =
    ids.length === 0
      ? new Map<string, Buffer>()
      : await paced(work, () => target.points.retrieve(targetName, ids, options, tools.signal))
  const there = ids.flatMap((id) => found.get(id) ?? [])
  return { ...arrayOf(there), ...(page.next !== undefined && { next: page.next }) }
}

/** Compares two pages up to where both were read. Answers how many points of the source that are. */
async function comparePair(
  { source, target, next }: Pair,
  place: Lane,
  comparing: Comparing,
): Promise<number> {
  if (source.next === target.next && sameBytes(source, target)) return source.count
  const { found, comparison } = comparing
  const stale: Item[] = []
  let count = 0
  for (const [one, other] of merged(itemsBefore(source, next), itemsBefore(target, next))) {
    count += one === undefined ? 0 : 1
    const kind = kindOf(one, other, comparison.tolerances)
    if (kind === undefined) continue
    found.add(kind, place, (one ?? other)?.id ?? '')
    if (one !== undefined) stale.push(one)
  }
  await writeNow(arrayOf(stale.map(({ json }) => json)), place, comparing)
  return count
}

/** So many ids are asked for at once. */
const MAX_IDS = 1000

/** Copied points of the range of a pair that the source has no more, as far as the target still has them. */
async function findDeleted(
  { source, next }: Pair,
  range: Lane & { from: string | undefined },
  { comparison, found, work }: Comparing,
): Promise<void> {
  const { copied } = comparison
  if (copied === undefined) return
  const { shardKey, targetName, from } = range
  const there = new Set(itemsIn(source).map(({ id }) => id))
  const { target, tools } = work
  const report = async (ids: string[]) => {
    const options = { shardKey, bare: true } as const
    const left = await paced(work, () =>
      target.points.retrieve(targetName, ids, options, tools.signal),
    )
    for (const id of left.keys()) found.add('extra', range, id)
  }
  const gone: string[] = []
  for (const id of copied.between({ shardKey, from, until: next ?? range.until })) {
    if (there.has(id)) continue
    gone.push(id)
    if (gone.length === MAX_IDS) await report(gone.splice(0))
  }
  if (gone.length > 0) await report(gone)
}

/** What is wrong with a point; undefined where nothing is. */
export function kindOf(
  one: Item | undefined,
  other: Item | undefined,
  tolerances: Tolerances,
): 'missing' | 'different' | 'extra' | undefined {
  if (one === undefined) return other === undefined ? undefined : 'extra'
  if (other === undefined) return 'missing'
  return samePoint(one.json, other.json, tolerances) ? undefined : 'different'
}

/** Points of two lists in the order of their ids, those of one id together. */
function* merged(
  ones: readonly Item[],
  others: readonly Item[],
): Generator<[one: Item | undefined, other: Item | undefined]> {
  for (let left = 0, right = 0; left < ones.length || right < others.length;) {
    const [one, other] = [ones[left], others[right]]
    const order = one === undefined ? 1 : other === undefined ? -1 : orderOfIds(one.id, other.id)
    yield [order <= 0 ? one : undefined, order >= 0 ? other : undefined]
    left += order <= 0 ? 1 : 0
    right += order >= 0 ? 1 : 0
  }
}

function earlier(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return orderOfIds(one, other) <= 0 ? one : other
}

function itemsBefore(page: Page, next: string | undefined): Item[] {
  const items = itemsIn(page)
  return next === undefined ? items : items.filter(({ id }) => orderOfIds(id, next) < 0)
}

function itemsIn({ points }: Page): Item[] {
  const [only] = points
  const text = points.length === 1 && only !== undefined ? only : Buffer.concat(points)
  return itemsOf(text).map(({ start, end }) => ({
    id: idAt(text, start),
    json: text.subarray(start, end),
  }))
}

const OPENING = Buffer.from('[')
const COMMA = Buffer.from(',')
const CLOSING = Buffer.from(']')

/** Points as one array. */
export function arrayOf(points: readonly Buffer[]): Page {
  const inner = points.flatMap((point, n) => (n === 0 ? [point] : [COMMA, point]))
  const pieces = [OPENING, ...inner, CLOSING]
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  return { points: pieces, bytes, count: points.length }
}

function sameBytes(one: Page, other: Page): boolean {
  return (
    one.bytes === other.bytes &&
    one.points.length === other.points.length &&
    one.points.every((piece, n) => other.points[n]?.equals(piece))
  )
}
