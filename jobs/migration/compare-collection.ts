/**
 * Compares both sides of a collection page by page in id order, whole points, and copies differing
 * points again. Nearly all pages are equal byte for byte and are compared without parsing.
 */
import { arraySpans } from '../clients/engine/json-scanner.ts'
import { comparePointIds, readId, type Page } from '../clients/engine/points.ts'
import { freeBuffer } from '../clients/http/body.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import { Semaphore, writePoints, type CopyContext } from './batch-writer.ts'
import { pointsEqual, type Tolerances, type Differences } from './compare-points.ts'
import type { Endpoint, RunContext } from './context.ts'
import type { CopiedIds } from './copied-ids.ts'
import { withAbort } from './copy.ts'
import { ByteBudget, PageSizer, type CopyScope, type Partition } from './page-reader.ts'
import { MAX_PARTITIONS, planPartitions, type CopyInput } from './partitions.ts'

/** Each partition has two of these pages in memory. */
const PAGE_BYTES = 2 * 1024 * 1024

export interface Comparison {
  input: CopyInput
  tolerances: Tolerances
  /**
   * True if the target was empty before: every other point on the target is reported as extra.
   * False: only points with ids of the source are read from the target.
   */
  includesExtra: boolean
  /**
   * Set if the target had points before: the ids that were copied. Those that are no longer on the
   * source are looked up on the target.
   */
  copiedIds: CopiedIds | undefined
  /** Whether the target responds only after it applies a write. */
  wait: boolean
}

/** What a comparison has read. */
export interface ReadVolume {
  /** Points of the source. */
  points: number
  /** Bytes of both sides. */
  bytes: number
}

interface ComparisonContext extends CopyContext {
  comparison: Comparison
  differences: Differences
  volume: ReadVolume
}

/** A point of a page. */
export interface Item {
  id: string
  json: Buffer
}

/**
 * Compares all points of the scopes, copies differing points again and adds them to `differences`.
 */
export async function compareScopes(
  comparison: Comparison,
  differences: Differences,
  context: RunContext,
): Promise<ReadVolume> {
  const { input, wait } = comparison
  const { active, queued } = await planPartitions(input, context)
  const abort = new AbortController()
  const comparisonContext: ComparisonContext = {
    ...{ comparison, differences, wait, volume: { points: 0, bytes: 0 } },
    writeSlots: new Semaphore(),
    size: new PageSizer(input.pageSize, PAGE_BYTES),
    budget: new ByteBudget(),
    context: withAbort(abort, context),
  }
  await runGroupsConcurrently(
    [...active, ...queued].map((partition) => [partition]),
    MAX_PARTITIONS,
    async (partition) => {
      try {
        await comparePartition(partition, comparisonContext)
      } catch (error) {
        // One failed partition fails the comparison: stop the others early.
        abort.abort(error)
        throw error
      }
    },
  )
  return comparisonContext.volume
}

async function comparePartition(
  partition: Partition,
  comparisonContext: ComparisonContext,
): Promise<void> {
  const { volume, context } = comparisonContext
  for (let { offset } = partition; ;) {
    const pair = await readPair(partition, offset, comparisonContext)
    try {
      const points = await comparePair(pair, partition, comparisonContext)
      await findDeleted(pair, { ...partition, from: offset }, comparisonContext)
      volume.points += points
      volume.bytes += pair.source.bytes + pair.target.bytes
      context.progress.setCompared(volume)
    } finally {
      for (const chunk of [...pair.source.points, ...pair.target.points]) freeBuffer(chunk)
      pair.release()
    }
    if (pair.next === undefined) return
    offset = pair.next
  }
}

interface PagePair {
  source: Page
  target: Page
  /** The first id that one of the sides has not read yet. */
  next: string | undefined
  release: () => void
}

/** Reads a page of each side; adjusts the limits until both sides return one. */
async function readPair(
  partition: Partition,
  offset: string | undefined,
  comparisonContext: ComparisonContext,
): Promise<PagePair> {
  const { size, budget, context } = comparisonContext
  for (;;) {
    const { limit, byteLimit, maxBytes } = size
    // Reserve memory for both pages at once: partitions that hold one page and wait for the other
    // could deadlock.
    const reservation = await budget.acquire(2 * byteLimit, context.tools.signal)
    try {
      const request = {
        limit,
        offset,
        endId: partition.until,
        shardKey: partition.shardKey,
        maxBytes,
      }
      const { source, target } = await readBoth(partition, request, comparisonContext)
      size.observe(source.bytes < target.bytes ? target : source)
      reservation.resize(source.bytes + target.bytes)
      return {
        source,
        target,
        next: smallerId(source.next, target.next),
        release: reservation.release,
      }
    } catch (error) {
      reservation.release()
      if (!isTooLarge(error) || !size.onTooLarge({ limit, byteLimit })) throw error
    }
  }
}

type BoundedScrollRequest = Parameters<Endpoint['points']['scroll']>[1] & { maxBytes: number }

async function readBoth(
  { name, targetName }: CopyScope,
  request: BoundedScrollRequest,
  comparisonContext: ComparisonContext,
) {
  const { comparison, context } = comparisonContext
  const { source, target, tools } = context
  const read = (endpoint: Endpoint, collection: string) =>
    withBackoff(context, () => endpoint.points.scroll(collection, request, tools.signal))
  if (comparison.includesExtra) {
    const results = await Promise.allSettled([read(source, name), read(target, targetName)])
    const [sourcePage, targetPage] = results.map(unwrap)
    if (sourcePage === undefined || targetPage === undefined)
      throw new TypeError('two pages were asked for')
    return { source: sourcePage, target: targetPage }
  }
  const page = await read(source, name)
  return { source: page, target: await readTargetPage(page, targetName, request, context) }
}

/**
 * Returns the page or throws the error of the read. Both reads have ended by then: a read that is
 * still running would use memory after its reservation is released.
 */
function unwrap<Value>(result: PromiseSettledResult<Value>): Value {
  if (result.status === 'rejected') throw result.reason as Error
  return result.value
}

/** Reads the points of the target that have the ids of a source page. */
async function readTargetPage(
  page: Page,
  targetName: string,
  request: BoundedScrollRequest,
  context: RunContext,
) {
  const { target, tools } = context
  const { shardKey, maxBytes } = request
  const ids = parseItems(page).map(({ id }) => id)
  const options = { shardKey, maxBytes }
  const targetPoints =
    ids.length === 0
      ? new Map<string, Buffer>()
      : await withBackoff(context, () =>
          target.points.retrieve(targetName, ids, options, tools.signal),
        )
  const present = ids.flatMap((id) => targetPoints.get(id) ?? [])
  return { ...toArrayPage(present), ...(page.next !== undefined && { next: page.next }) }
}

/**
 * Compares two pages up to the first id that one side has not read, and copies differing points
 * again. Returns the number of points of the source that were compared.
 */
async function comparePair(
  { source, target, next }: PagePair,
  scope: Partition,
  comparisonContext: ComparisonContext,
): Promise<number> {
  if (source.next === target.next && pageBytesEqual(source, target)) return source.count
  const { differences, comparison } = comparisonContext
  const stale: Item[] = []
  let count = 0
  for (const [sourceItem, targetItem] of mergeById(
    itemsBefore(source, next),
    itemsBefore(target, next),
  )) {
    count += sourceItem === undefined ? 0 : 1
    const kind = differenceKind(sourceItem, targetItem, comparison.tolerances)
    if (kind === undefined) continue
    differences.add(kind, scope, (sourceItem ?? targetItem)?.id ?? '')
    if (sourceItem !== undefined) stale.push(sourceItem)
  }
  await writePoints(toArrayPage(stale.map(({ json }) => json)), scope, comparisonContext)
  return count
}

/** Maximum number of ids in one request. */
const MAX_IDS = 1000

/**
 * Finds copied points in the range of a pair that are no longer on the source but still on the
 * target.
 */
async function findDeleted(
  { source, next }: PagePair,
  range: Partition & { from: string | undefined },
  { comparison, differences, context }: ComparisonContext,
): Promise<void> {
  const { copiedIds } = comparison
  if (copiedIds === undefined) return
  const { shardKey, targetName, from } = range
  const sourceIds = new Set(parseItems(source).map(({ id }) => id))
  const { target, tools } = context
  const addRemaining = async (ids: string[]) => {
    const options = { shardKey, idsOnly: true } as const
    const remaining = await withBackoff(context, () =>
      target.points.retrieve(targetName, ids, options, tools.signal),
    )
    for (const id of remaining.keys()) differences.add('extra', range, id)
  }
  const deletedIds: string[] = []
  for (const id of copiedIds.between({ shardKey, from, until: next ?? range.until })) {
    if (sourceIds.has(id)) continue
    deletedIds.push(id)
    if (deletedIds.length === MAX_IDS) await addRemaining(deletedIds.splice(0))
  }
  if (deletedIds.length > 0) await addRemaining(deletedIds)
}

/** The kind of difference between the two sides of a point; undefined if there is none. */
export function differenceKind(
  sourceItem: Item | undefined,
  targetItem: Item | undefined,
  tolerances: Tolerances,
): 'missing' | 'different' | 'extra' | undefined {
  if (sourceItem === undefined) return targetItem === undefined ? undefined : 'extra'
  if (targetItem === undefined) return 'missing'
  return pointsEqual(sourceItem.json, targetItem.json, tolerances) ? undefined : 'different'
}

/** Merges two lists of points in id order; points with the same id form a pair. */
function* mergeById(
  leftItems: readonly Item[],
  rightItems: readonly Item[],
): Generator<[one: Item | undefined, other: Item | undefined]> {
  for (
    let leftIndex = 0, rightIndex = 0;
    leftIndex < leftItems.length || rightIndex < rightItems.length;
  ) {
    const [leftItem, rightItem] = [leftItems[leftIndex], rightItems[rightIndex]]
    const order =
      leftItem === undefined
        ? 1
        : rightItem === undefined
          ? -1
          : comparePointIds(leftItem.id, rightItem.id)
    yield [order <= 0 ? leftItem : undefined, order >= 0 ? rightItem : undefined]
    leftIndex += order <= 0 ? 1 : 0
    rightIndex += order >= 0 ? 1 : 0
  }
}

function smallerId(left: string | undefined, right: string | undefined): string | undefined {
  if (left === undefined || right === undefined) return left ?? right
  return comparePointIds(left, right) <= 0 ? left : right
}

function itemsBefore(page: Page, next: string | undefined): Item[] {
  const items = parseItems(page)
  return next === undefined ? items : items.filter(({ id }) => comparePointIds(id, next) < 0)
}

function parseItems({ points }: Page): Item[] {
  const [singleChunk] = points
  const text =
    points.length === 1 && singleChunk !== undefined ? singleChunk : Buffer.concat(points)
  return arraySpans(text).map(({ start, end }) => ({
    id: readId(text, start),
    json: text.subarray(start, end),
  }))
}

const OPENING = Buffer.from('[')
const COMMA = Buffer.from(',')
const CLOSING = Buffer.from(']')

/** Joins points into one JSON array. */
export function toArrayPage(points: readonly Buffer[]): Page {
  const separated = points.flatMap((point, n) => (n === 0 ? [point] : [COMMA, point]))
  const chunks = [OPENING, ...separated, CLOSING]
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
  return { points: chunks, bytes, count: points.length }
}

function pageBytesEqual(left: Page, right: Page): boolean {
  return (
    left.bytes === right.bytes &&
    left.points.length === right.points.length &&
    left.points.every((chunk, n) => right.points[n]?.equals(chunk))
  )
}
