/**
 * Writes batches of points, with a limit on concurrent writes across all partitions of a
 * collection. Batches of a partition are reported in the order in which they were read, so that all
 * points before its offset are written. All points of a batch have the shard key of its partition.
 * A batch that the target rejects for its size or rate is written in halves.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { Page } from '../clients/engine/points.ts'
import { freeBuffer } from '../clients/http/body.ts'
import { arraySpans } from '../clients/engine/json-scanner.ts'
import { isRateLimited, isTooLarge, withBackoff } from './backoff.ts'
import type { ReservedPage, CopyScope, ReaderContext } from './page-reader.ts'
import { mayBeApplied } from './unanswered-upserts.ts'

const MAX_WRITES = 2

/** How often a batch waits for a rate limit before it is written in halves. */
const RATE_LIMITS_BEFORE_SPLIT = 2

/** Shared by all partitions of a collection. */
export interface CopyContext extends ReaderContext {
  writeSlots: Semaphore
  /**
   * Whether the target responds only after it applies a write. False if the target defers points
   * until they are indexed, because the response would take hours.
   */
  wait: boolean
}

/** Limits the number of concurrent writes. */
export class Semaphore {
  #active = 0
  readonly #waiters: (() => void)[] = []

  /** Waits for a free slot and takes it. */
  async acquire(signal: AbortSignal): Promise<void> {
    while (this.#active >= MAX_WRITES) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve))
      signal.throwIfAborted()
    }
    this.#active += 1
  }

  release(): void {
    this.#active -= 1
    for (const resume of this.#waiters.splice(0)) resume()
  }
}

interface Batch {
  page: Page
  isWritten: boolean
}

/** Writes the batches of one partition. */
export class BatchWriter {
  readonly #scope: CopyScope
  readonly #shared: CopyContext
  readonly #onWritten: (page: Page) => void
  readonly #batches: Batch[] = []
  readonly #running = new Set<Promise<void>>()
  #failure: { error: unknown } | undefined

  /** Calls `onWritten` for each page, in the order of the pages. */
  constructor(scope: CopyScope, shared: CopyContext, onWritten: (page: Page) => void) {
    this.#scope = scope
    this.#shared = shared
    this.#onWritten = onWritten
  }

  /** Writes a page; the caller has acquired a write slot. */
  start(page: ReservedPage): void {
    const batch: Batch = { page, isWritten: false }
    this.#batches.push(batch)
    const running = writePage(page, this.#scope, this.#shared)
      .then(() => {
        batch.isWritten = true
        this.#reportWritten()
      })
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#running.delete(running)
        page.release()
        this.#shared.writeSlots.release()
      })
    this.#running.add(running)
  }

  /** Waits until every write has ended; throws if one failed. */
  async drain(): Promise<void> {
    await Promise.all(this.#running)
    this.throwIfFailed()
  }

  /** Throws the error of the first failed write. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #reportWritten(): void {
    for (let [first] = this.#batches; first?.isWritten === true; [first] = this.#batches) {
      this.#batches.shift()
      this.#onWritten(first.page)
    }
  }
}

/** Writes one page and waits for it, for callers that do not read ahead. */
export async function writePoints(
  page: Page,
  scope: CopyScope,
  shared: CopyContext,
): Promise<void> {
  if (page.count === 0) return
  await shared.writeSlots.acquire(shared.context.tools.signal)
  try {
    await writePage(page, scope, shared)
  } finally {
    shared.writeSlots.release()
  }
}

/** Writes a page in one request, or in halves if the target rejects it. */
async function writePage(page: Page, scope: CopyScope, shared: CopyContext): Promise<void> {
  const { size, context } = shared
  const { points, bytes, count } = page
  if (count === 0) return
  try {
    await write(points, scope, shared, count)
    for (const chunk of points) freeBuffer(chunk)
  } catch (error) {
    if (!isDivisible(error, bytes, count)) throw error
    if (count === 1) throw pointTooLarge(Buffer.concat(points), error)
    size.halve()
    await writeInHalves(Buffer.concat(points), scope, shared)
  }
  context.progress.addWritten({ points: count, bytes })
}

/** Writes the points of an array in halves, and halves of halves. */
async function writeInHalves(points: Buffer, scope: CopyScope, shared: CopyContext): Promise<void> {
  const spans = arraySpans(points)
  const ranges: [from: number, to: number][] = [[0, spans.length]]
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const [from, to] = range
    const middle = Math.ceil((from + to) / 2)
    const bytes = points.subarray(spans[from]?.start, spans[to - 1]?.end)
    const isSingle = to - from === 1
    try {
      await write([OPENING, bytes, CLOSING], scope, shared, to - from)
    } catch (error) {
      if (!isDivisible(error, bytes.length, to - from)) throw error
      if (isSingle) throw pointTooLarge(bytes, error)
      ranges.push([middle, to], [from, middle])
    }
  }
}

const OPENING = Buffer.from('[')
const CLOSING = Buffer.from(']')

/** Whether half of the points may be accepted: the request is too large or exceeds a rate limit. */
function isDivisible(error: unknown, bytes: number, count: number): error is EngineError {
  return isTooLarge(error, bytes) || (count > 1 && isRateLimited(error))
}

async function write(
  points: readonly Uint8Array[],
  { targetName, shardKey }: CopyScope,
  { context, wait }: CopyContext,
  count: number,
): Promise<void> {
  const { target, tools } = context
  const call = async () => {
    // The pod that replaced this one may be done: clients then write to the target, and what the source had
    // must not replace it.
    await tools.reporter.verifyRecentOwnership()
    await context.targetWatch.requireSame(targetName, context)
    try {
      await target.points.upsert(targetName, points, { shardKey, wait }, tools.signal)
    } catch (error) {
      if (mayBeApplied(error)) context.unansweredUpserts.add()
      throw error
    }
  }
  await (count > 1
    ? withBackoff(context, call, RATE_LIMITS_BEFORE_SPLIT)
    : withBackoff(context, call))
}

function pointTooLarge(point: Buffer, cause: EngineError): EngineError {
  const id = /"id":("[^"]*"|\d+)/.exec(point.toString('utf8', 0, 256))?.[1] ?? 'unknown'
  const message = `the point ${id} has ${point.length} bytes, more than the target takes at once (${cause.message})`
  return new EngineError(message, { cause, status: cause.status ?? 413 })
}
