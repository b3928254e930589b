/**
 * Both sides of a collection, read whole and side by side in the order of their ids, and what differs
 * copied again. Pages that are equal byte by byte, as nearly all are, are never parsed.
 */
import { arraySpans } from '../clients/engine/json-scanner.ts'
import { comparePointIds, readId, type Page } from '../clients/engine/points.ts'
import { freeBuffer } from '../clients/http/body.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import { Semaphore, writePoints, type CopyContext } from './batch-writer.ts'
import { pointsEqual, type Tolerances } from './compare-points.ts'
import type { Endpoint, RunContext } from './context.ts'
import type { CopiedIds } from './copied-ids.ts'
import { withAbort } from './copy.ts'
import type { Differences } from './differences.ts'
import {
  ByteBudget,
  MAX_BUFFERED_BYTES,
  PageSizer,
  type CopyScope,
  type Partition,
} from './page-reader.ts'
import { MAX_PARTITIONS, planPartitions, type CopyInput } from './partitions.ts'

/** Two of them are in memory for each lane. */
const PAGE_BYTES = 2 * 1024 * 1024

export interface Comparison {
  input: CopyInput
  tolerances: Tolerances
  /** The target was empty before: whatever else it has is told. Otherwise only points of the source are asked for. */
  includesExtra: boolean
  /** Otherwise: what was copied. Of that, what the source has no more is looked for on the target. */
  copiedIds: CopiedIds | undefined
  /** Whether a write is awaited until it is applied. */
  wait: boolean
}

/** What was read for a comparison. */
export interface ReadVolume {
  /** Of the source. */
  points: number
  /** Of both sides. */
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

/** Compares all that the places hold, copies again what differs, and adds it to `found`. */
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
        // What fails one lane fails the comparison: the others need not come to their end.
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
  /** Id from which on one of the sides was not read yet. */
  next: string | undefined
  release: () => void
}

/** A page of each side; smaller ones are asked for until both give one. */
async function readPair(
  partition: Partition,
  offset: string | undefined,
  comparisonContext: ComparisonContext,
): Promise<PagePair> {
  const { size, budget, context } = comparisonContext
  for (;;) {
    const { limit, byteLimit } = size
    // For both at once: a lane that holds one page and waits for the other could wait for ever.
    const reservation = await budget.acquire(2 * byteLimit, context.tools.signal)
    try {
      const maxBytes = limit === 1 && byteLimit === MAX_BUFFERED_BYTES ? Infinity : byteLimit
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

/** Neither is left alone in memory while the other has failed. */
function unwrap<Value>(result: PromiseSettledResult<Value>): Value {
  if (result.status === 'rejected') throw result.reason as Error
  return result.value
}

/** The points of the target with the ids of a page. */
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

/** Compares two pages up to where both were read. Answers how many points of the source that are. */
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

/** So many ids are asked for at once. */
const MAX_IDS = 1000

/** Copied points of the range of a pair that the source has no more, as far as the target still has them. */
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

/** What is wrong with a point; undefined where nothing is. */
export function differenceKind(
  sourceItem: Item | undefined,
  targetItem: Item | undefined,
  tolerances: Tolerances,
): 'missing' | 'different' | 'extra' | undefined {
  if (sourceItem === undefined) return targetItem === undefined ? undefined : 'extra'
  if (targetItem === undefined) return 'missing'
  return pointsEqual(sourceItem.json, targetItem.json, tolerances) ? undefined : 'different'
}

/** Points of two lists in the order of their ids, those of one id together. */
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

/** Points as one array. */
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
