/**
 * The batches that are being written: two at a time, told done in the order they were read, so that
 * what is behind a position is written for sure.
 */
import { EngineError } from '../../crds/errors.ts'
import type { Page } from '../clients/page.ts'
import { itemsOf } from '../clients/raw-json.ts'
import { isHeldUp, isTooLarge, paced } from './pace.ts'
import type { PageSize, Place } from './pages.ts'
import type { Work } from './work.ts'

const MAX_WRITES = 2
/** Bytes that may be under way before the next page is read. */
const MAX_BYTES = 32 * 1024 * 1024
/** The engine takes no body above 32 MiB; below, it parses as well as ever. */
const MAX_BODY = 16 * 1024 * 1024

/** So often a batch waits for a limited rate before it is tried in halves. */
const HELD_UP_BEFORE_HALVES = 2

interface Batch {
  page: Page
  isDone: boolean
}

export class Writes {
  readonly #place: Place
  readonly #size: PageSize
  readonly #work: Work
  readonly #reached: (page: Page) => void
  readonly #batches: Batch[] = []
  readonly #running = new Set<Promise<void>>()
  #bytes = 0
  #failure: { error: unknown } | undefined

  /** `reached` is called page by page, in their order. */
  constructor(place: Place, size: PageSize, work: Work, reached: (page: Page) => void) {
    this.#place = place
    this.#size = size
    this.#work = work
    this.#reached = reached
  }

  start(page: Page): void {
    const batch: Batch = { page, isDone: false }
    this.#batches.push(batch)
    this.#bytes += page.bytes
    const running = writePage(page, this.#place, this.#size, this.#work)
      .then(() => {
        batch.isDone = true
        this.#tellDone()
      })
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#running.delete(running)
        this.#bytes -= page.bytes
      })
    this.#running.add(running)
  }

  /** Waits until another batch may be under way. */
  async room(): Promise<void> {
    while (this.#running.size >= MAX_WRITES || this.#bytes > MAX_BYTES) {
      await Promise.race(this.#running)
    }
    this.#check()
  }

  /** Waits until all is written, or cannot be. */
  async settled(): Promise<void> {
    await Promise.all(this.#running)
    this.#check()
  }

  #tellDone(): void {
    for (let [first] = this.#batches; first?.isDone === true; [first] = this.#batches) {
      this.#batches.shift()
      this.#reached(first.page)
    }
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

/** In as many calls as the target makes necessary. */
async function writePage(page: Page, place: Place, size: PageSize, work: Work): Promise<void> {
  const { points, bytes, count } = page
  if (count === 0) return
  if (bytes > MAX_BODY && count > 1) {
    await writeParts(Buffer.concat(points), place, work)
  } else {
    try {
      await write(points, place, work, count)
    } catch (error) {
      if (!isDivisible(error, bytes, count)) throw error
      if (count === 1) throw tooLarge(Buffer.concat(points), error)
      size.halve()
      await writeParts(Buffer.concat(points), place, work)
    }
  }
  work.tally.wrote({ points: count, bytes })
}

/** The points of an array, in halves of halves. */
async function writeParts(points: Buffer, place: Place, work: Work): Promise<void> {
  const items = itemsOf(points)
  const parts: [from: number, to: number][] = [[0, items.length]]
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const [from, to] = part
    const middle = Math.ceil((from + to) / 2)
    const bytes = points.subarray(items[from]?.start, items[to - 1]?.end)
    const isOne = to - from === 1
    try {
      if (!isOne && bytes.length > MAX_BODY) throw HALVE
      await write([OPENING, bytes, CLOSING], place, work, to - from)
    } catch (error) {
      if (error !== HALVE && !isDivisible(error, bytes.length, to - from)) throw error
      if (isOne) throw tooLarge(bytes, error)
      parts.push([middle, to], [from, middle])
    }
  }
}

const HALVE = new Error('in halves')
const OPENING = Buffer.from('[')
const CLOSING = Buffer.from(']')

/** Whether half of it may be taken: it is too large, or too much for a rate that is limited. */
function isDivisible(error: unknown, bytes: number, count: number): boolean {
  return isTooLarge(error, bytes) || (count > 1 && isHeldUp(error))
}

async function write(
  points: readonly Uint8Array[],
  { targetName, shardKey }: Place,
  work: Work,
  count: number,
): Promise<void> {
  const { target, tools } = work
  const call = () => target.points.upsert(targetName, points, shardKey, tools.signal)
  await (count > 1 ? paced(work, call, HELD_UP_BEFORE_HALVES) : paced(work, call))
}

function tooLarge(point: Buffer, cause: unknown): unknown {
  if (!(cause instanceof EngineError)) return cause
  const id = /"id":("[^"]*"|\d+)/.exec(point.toString('utf8', 0, 256))?.[1] ?? 'unknown'
  const message = `the point ${id} has ${point.length} bytes, more than the target takes at once (${cause.message})`
  return new EngineError(message, { cause, status: cause.status ?? 413 })
}
