/**
 * The batches that are being written: so many at a time of all lanes together, and those of a lane told
 * done in the order they were read, so that what is behind its offset is written for sure.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { Page } from '../clients/engine/points.ts'
import { freeBuffer } from '../clients/http/body.ts'
import { arraySpans } from '../clients/engine/json-scanner.ts'
import { isRateLimited, isTooLarge, withBackoff } from './backoff.ts'
import type { ReservedPage, CopyScope, ReaderContext } from './page-reader.ts'

const MAX_WRITES = 2

/** So often a batch waits for a limited rate before it is tried in halves. */
const RATE_LIMITS_BEFORE_SPLIT = 2

/** What all lanes of a collection share. */
export interface CopyContext extends ReaderContext {
  writeSlots: Semaphore
  /** Whether a write is answered once it is applied: what is deferred until it is indexed would take hours. */
  wait: boolean
}

/** Room for what is written at once. */
export class Semaphore {
  #active = 0
  readonly #waiters: (() => void)[] = []

  /** Waits until there is some, and takes it. */
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

/** The batches of one lane. */
export class BatchWriter {
  readonly #scope: CopyScope
  readonly #shared: CopyContext
  readonly #onWritten: (page: Page) => void
  readonly #batches: Batch[] = []
  readonly #running = new Set<Promise<void>>()
  #failure: { error: unknown } | undefined

  /** `wrote` is called page by page, in their order. */
  constructor(scope: CopyScope, shared: CopyContext, onWritten: (page: Page) => void) {
    this.#scope = scope
    this.#shared = shared
    this.#onWritten = onWritten
  }

  /** Writes a page for which there is room. */
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

  /** Waits until all is written, or cannot be. */
  async drain(): Promise<void> {
    await Promise.all(this.#running)
    this.throwIfFailed()
  }

  /** Throws what one of them ended with. */
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

/** Writes points that nobody reads on behind. */
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

/** In as many calls as the target makes necessary. */
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

/** The points of an array, in halves of halves. */
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

/** Whether half of it may be taken: it is too large, or too much for a rate that is limited. */
function isDivisible(error: unknown, bytes: number, count: number): boolean {
  return isTooLarge(error, bytes) || (count > 1 && isRateLimited(error))
}

async function write(
  points: readonly Uint8Array[],
  { targetName, shardKey }: CopyScope,
  { context, wait }: CopyContext,
  count: number,
): Promise<void> {
  const { target, tools } = context
  const call = () => target.points.upsert(targetName, points, { shardKey, wait }, tools.signal)
  await (count > 1
    ? withBackoff(context, call, RATE_LIMITS_BEFORE_SPLIT)
    : withBackoff(context, call))
}

function pointTooLarge(point: Buffer, cause: unknown): unknown {
  if (!(cause instanceof EngineError)) return cause
  const id = /"id":("[^"]*"|\d+)/.exec(point.toString('utf8', 0, 256))?.[1] ?? 'unknown'
  const message = `the point ${id} has ${point.length} bytes, more than the target takes at once (${cause.message})`
  return new EngineError(message, { cause, status: cause.status ?? 413 })
}
