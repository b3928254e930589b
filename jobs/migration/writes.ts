/**
 * The batches that are being written: so many at a time of all lanes together, and those of a lane told
 * done in the order they were read, so that what is behind its offset is written for sure.
 */
import { EngineError } from '../../crds/errors.ts'
import type { Page } from '../clients/page.ts'
import { giveBack } from '../clients/own-bytes.ts'
import { itemsOf } from '../clients/raw-json.ts'
import { isHeldUp, isTooLarge, paced } from './pace.ts'
import type { HeldPage, Place, Reading } from './pages.ts'

const MAX_WRITES = 2

/** So often a batch waits for a limited rate before it is tried in halves. */
const HELD_UP_BEFORE_HALVES = 2

/** What all lanes of a collection share. */
export interface Shared extends Reading {
  room: Room
  /** Whether a write is answered once it is applied: what is deferred until it is indexed would take hours. */
  wait: boolean
}

/** Room for what is written at once. */
export class Room {
  #writes = 0
  readonly #waiting: (() => void)[] = []

  /** Waits until there is some, and takes it. */
  async enter(signal: AbortSignal): Promise<void> {
    while (this.#writes >= MAX_WRITES) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      signal.throwIfAborted()
    }
    this.#writes += 1
  }

  leave(): void {
    this.#writes -= 1
    for (const wake of this.#waiting.splice(0)) wake()
  }
}

interface Batch {
  page: Page
  isDone: boolean
}

/** The batches of one lane. */
export class Writes {
  readonly #place: Place
  readonly #shared: Shared
  readonly #wrote: (page: Page) => void
  readonly #batches: Batch[] = []
  readonly #running = new Set<Promise<void>>()
  #failure: { error: unknown } | undefined

  /** `wrote` is called page by page, in their order. */
  constructor(place: Place, shared: Shared, wrote: (page: Page) => void) {
    this.#place = place
    this.#shared = shared
    this.#wrote = wrote
  }

  /** Writes a page for which there is room. */
  start(page: HeldPage): void {
    const batch: Batch = { page, isDone: false }
    this.#batches.push(batch)
    const running = writePage(page, this.#place, this.#shared)
      .then(() => {
        batch.isDone = true
        this.#tellDone()
      })
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#running.delete(running)
        page.release()
        this.#shared.room.leave()
      })
    this.#running.add(running)
  }

  /** Waits until all is written, or cannot be. */
  async settled(): Promise<void> {
    await Promise.all(this.#running)
    this.check()
  }

  /** Throws what one of them ended with. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #tellDone(): void {
    for (let [first] = this.#batches; first?.isDone === true; [first] = this.#batches) {
      this.#batches.shift()
      this.#wrote(first.page)
    }
  }
}

/** Writes points that nobody reads on behind. */
export async function writeNow(page: Page, place: Place, shared: Shared): Promise<void> {
  if (page.count === 0) return
  await shared.room.enter(shared.work.tools.signal)
  try {
    await writePage(page, place, shared)
  } finally {
    shared.room.leave()
  }
}

/** In as many calls as the target makes necessary. */
async function writePage(page: Page, place: Place, shared: Shared): Promise<void> {
  const { size, work } = shared
  const { points, bytes, count } = page
  if (count === 0) return
  try {
    await write(points, place, shared, count)
    for (const piece of points) giveBack(piece)
  } catch (error) {
    if (!isDivisible(error, bytes, count)) throw error
    if (count === 1) throw tooLarge(Buffer.concat(points), error)
    size.halve()
    await writeParts(Buffer.concat(points), place, shared)
  }
  work.tally.wrote({ points: count, bytes })
}

/** The points of an array, in halves of halves. */
async function writeParts(points: Buffer, place: Place, shared: Shared): Promise<void> {
  const items = itemsOf(points)
  const parts: [from: number, to: number][] = [[0, items.length]]
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const [from, to] = part
    const middle = Math.ceil((from + to) / 2)
    const bytes = points.subarray(items[from]?.start, items[to - 1]?.end)
    const isOne = to - from === 1
    try {
      await write([OPENING, bytes, CLOSING], place, shared, to - from)
    } catch (error) {
      if (!isDivisible(error, bytes.length, to - from)) throw error
      if (isOne) throw tooLarge(bytes, error)
      parts.push([middle, to], [from, middle])
    }
  }
}

const OPENING = Buffer.from('[')
const CLOSING = Buffer.from(']')

/** Whether half of it may be taken: it is too large, or too much for a rate that is limited. */
function isDivisible(error: unknown, bytes: number, count: number): boolean {
  return isTooLarge(error, bytes) || (count > 1 && isHeldUp(error))
}

async function write(
  points: readonly Uint8Array[],
  { targetName, shardKey }: Place,
  { work, wait }: Shared,
  count: number,
): Promise<void> {
  const { target, tools } = work
  const call = () => target.points.upsert(targetName, points, { shardKey, wait }, tools.signal)
  await (count > 1 ? paced(work, call, HELD_UP_BEFORE_HALVES) : paced(work, call))
}

function tooLarge(point: Buffer, cause: unknown): unknown {
  if (!(cause instanceof EngineError)) return cause
  const id = /"id":("[^"]*"|\d+)/.exec(point.toString('utf8', 0, 256))?.[1] ?? 'unknown'
  const message = `the point ${id} has ${point.length} bytes, more than the target takes at once (${cause.message})`
  return new EngineError(message, { cause, status: cause.status ?? 413 })
}
