/**
 * Pages of points: how many points the next one may have, and reading it. Bounded by count, by what
 * the engines allow, and by bytes, for points are of any size.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { Page } from '../clients/engine/points.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import type { RunContext } from './context.ts'

/**
 * A page of this many bytes costs two calls hardly more than their bytes; one that turns out twice as large
 * is asked for again, with fewer points.
 */
const PAGE_BYTES = 4 * 1024 * 1024
/** Nothing is known of the size of the first point. */
const INITIAL_LIMIT = 1
const GROWTH_FACTOR = 4

export class PageSizer {
  readonly #maxPoints: number
  readonly #targetBytes: number
  #limit: number
  #byteLimit: number

  /** At most so many points, and about so many bytes. */
  constructor(maxPoints: number, bytes = PAGE_BYTES) {
    this.#maxPoints = maxPoints
    this.#targetBytes = bytes
    this.#byteLimit = 2 * bytes
    this.#limit = Math.min(maxPoints, INITIAL_LIMIT)
  }

  get limit(): number {
    return this.#limit
  }

  /** Bytes the next page may have. */
  get byteLimit(): number {
    return this.#byteLimit
  }

  /** A page came: the next may be larger when this one was small. */
  observe({ count, bytes }: Page): void {
    if (count === 0) return
    // A point that is larger than a page is to be is seldom alone.
    this.#byteLimit = Math.min(
      Math.max(2 * this.#targetBytes, 2 * (bytes / count)),
      MAX_BUFFERED_BYTES,
    )
    const fittingPoints = Math.floor((this.#targetBytes * count) / bytes)
    this.#limit = clamp(Math.min(fittingPoints, this.#limit * GROWTH_FACTOR), this.#maxPoints)
  }

  halve(): void {
    this.#limit = clamp(Math.floor(this.#limit / 2), this.#maxPoints)
  }

  /** A page with this limit and room was too large; answers whether another may be asked for. */
  onTooLarge({ limit, byteLimit }: Pick<PageSizer, 'limit' | 'byteLimit'>): boolean {
    // Another lane may have been refused the same before.
    if (limit > 1)
      this.#limit = Math.min(this.#limit, clamp(Math.floor(limit / 2), this.#maxPoints))
    else if (byteLimit < MAX_BUFFERED_BYTES) this.#byteLimit = MAX_BUFFERED_BYTES
    else return false
    return true
  }
}

export interface CopyScope {
  /** Name at the source. */
  name: string
  targetName: string
  shardKey?: ShardKey | undefined
}

/** Points of a place that are copied one after the other. */
export interface Partition extends CopyScope {
  /** Id it begins with, as JSON; absent: the first there is. */
  offset?: string | undefined
  /** Id that belongs to the next lane, as JSON; absent: to the last there is. */
  until?: string | undefined
}

/** A page that takes up room until it is written. */
export interface ReservedPage extends Page {
  release: () => void
}

/** What the lanes of a collection share to read: their points are much alike. */
export interface ReaderContext {
  size: PageSizer
  budget: ByteBudget
  context: RunContext
}

/** The page that begins with this id; smaller ones are asked for until the source gives one. */
export async function readPage(
  { name, shardKey, until }: Partition,
  offset: string | undefined,
  { size, budget, context }: ReaderContext,
): Promise<ReservedPage> {
  const { source, tools } = context
  for (;;) {
    const { limit, byteLimit } = size
    const reservation = await budget.acquire(byteLimit, tools.signal)
    try {
      // One point that has all the room is read whatever its size: there is nothing smaller.
      const maxBytes = limit === 1 && byteLimit === MAX_BUFFERED_BYTES ? Infinity : byteLimit
      const request = { limit, offset, endId: until, shardKey, maxBytes }
      const page = await withBackoff(context, () =>
        source.points.scroll(name, request, tools.signal),
      )
      size.observe(page)
      reservation.resize(page.bytes)
      return { ...page, release: reservation.release }
    } catch (error) {
      reservation.release()
      if (!isTooLarge(error) || !size.onTooLarge({ limit, byteLimit })) throw error
    }
  }
}

function clamp(limit: number, max: number): number {
  return Math.max(1, Math.min(limit, max))
}

/** With the process itself, and with what is not collected yet, that stays under 256 MiB. */
export const MAX_BUFFERED_BYTES = 40 * 1024 * 1024

/** Room that was taken for one page. */
export interface Reservation {
  /** The page came: it needs so much, and no more. */
  resize: (bytes: number) => void
  /** The page is written, or will never be. */
  release: () => void
}

interface Waiter {
  bytes: number
  grant: () => void
}

export class ByteBudget {
  #reservedBytes = 0
  readonly #queue: Waiter[] = []

  /** Each in its turn; what is larger than all the room there is gets in alone. */
  async acquire(bytes: number, signal: AbortSignal): Promise<Reservation> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const onAbort = () => {
      reject(signal.reason as Error)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#queue.push({ bytes, grant: () => resolve(undefined) })
    this.#admit()
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
    return this.#reserve(bytes)
  }

  #reserve(acquired: number): Reservation {
    let size = acquired
    const resize = (bytes: number) => {
      this.#reservedBytes += bytes - size
      size = bytes
      this.#admit()
    }
    return { resize, release: () => resize(0) }
  }

  /** From the first that waits on: a large one would never find room beside small ones that pass it. */
  #admit(): void {
    for (let [first] = this.#queue; first !== undefined; [first] = this.#queue) {
      if (this.#reservedBytes > 0 && this.#reservedBytes + first.bytes > MAX_BUFFERED_BYTES) return
      this.#queue.shift()
      this.#reservedBytes += first.bytes
      first.grant()
    }
  }
}
