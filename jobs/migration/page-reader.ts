/**
 * Reads pages of points and determines the size of the next page. Points can have any size, so a
 * page is limited by its number of points, by what the engines accept, and by a memory budget.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { Page } from '../clients/engine/points.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import type { RunContext } from './context.ts'

/**
 * Target size of a page, at which the overhead of its two requests is negligible. A page that turns
 * out twice as large is requested again with fewer points.
 */
const PAGE_BYTES = 4 * 1024 * 1024
/** The size of the first point is unknown. */
const INITIAL_LIMIT = 1
const GROWTH_FACTOR = 4

export class PageSizer {
  readonly #maxPoints: number
  readonly #targetBytes: number
  #limit: number
  #byteLimit: number

  /** Limits a page to `maxPoints`, and to approximately `bytes`. */
  constructor(maxPoints: number, bytes = PAGE_BYTES) {
    this.#maxPoints = maxPoints
    this.#targetBytes = bytes
    this.#byteLimit = 2 * bytes
    this.#limit = Math.min(maxPoints, INITIAL_LIMIT)
  }

  get limit(): number {
    return this.#limit
  }

  /** Maximum size of the next page in bytes. */
  get byteLimit(): number {
    return this.#byteLimit
  }

  /**
   * Maximum number of bytes to accept for the next page. A single point with the whole budget is
   * read whatever its size: no smaller page exists.
   */
  get maxBytes(): number {
    const hasWholeBudget = this.#limit === 1 && this.#byteLimit === MAX_BUFFERED_BYTES
    return hasWholeBudget ? Infinity : this.#byteLimit
  }

  /**
   * Adjusts the limits to a page that was read: the next one may be larger if this one was small.
   */
  observe({ count, bytes }: Page): void {
    if (count === 0) return
    // A point that is larger than the target size of a page is rarely the only one.
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

  /**
   * Changes the limits after a page was too large: fewer points, or the whole budget for a single
   * point. Returns false if nothing is left to try.
   */
  onTooLarge({ limit, byteLimit }: Pick<PageSizer, 'limit' | 'byteLimit'>): boolean {
    // Another partition may have already reduced the limit for the same reason.
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

/** Points of a scope that are copied in order. */
export interface Partition extends CopyScope {
  /** First id, as JSON; absent: the first id of the scope. */
  offset?: string | undefined
  /** First id of the next partition, as JSON; absent: up to the last id of the scope. */
  until?: string | undefined
}

/** A page that uses the memory budget until it is written. */
export interface ReservedPage extends Page {
  release: () => void
}

/** Shared by the partitions of a collection when they read: their points have similar sizes. */
export interface ReaderContext {
  size: PageSizer
  budget: ByteBudget
  context: RunContext
}

/** Reads the page that starts at `offset`; adjusts its limits until the source returns one. */
export async function readPage(
  { name, shardKey, until }: Partition,
  offset: string | undefined,
  { size, budget, context }: ReaderContext,
): Promise<ReservedPage> {
  const { source, tools } = context
  for (;;) {
    const { limit, byteLimit, maxBytes } = size
    const reservation = await budget.acquire(byteLimit, tools.signal)
    try {
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

/** Together with the process itself and uncollected garbage this stays below 256 MiB. */
export const MAX_BUFFERED_BYTES = 40 * 1024 * 1024

/** A part of the memory budget, for one page. */
export interface Reservation {
  /** Sets the actual size once the page is read. */
  resize: (bytes: number) => void
  /** Called when the page is written or abandoned. */
  release: () => void
}

interface Waiter {
  bytes: number
  grant: () => void
}

export class ByteBudget {
  #reservedBytes = 0
  readonly #queue: Waiter[] = []

  /** Grants requests in order of arrival; a request above the whole budget is granted alone. */
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

  /**
   * Grants requests strictly in order: if small requests could overtake a large one, it would never
   * be granted.
   */
  #admit(): void {
    for (let [first] = this.#queue; first !== undefined; [first] = this.#queue) {
      if (this.#reservedBytes > 0 && this.#reservedBytes + first.bytes > MAX_BUFFERED_BYTES) return
      this.#queue.shift()
      this.#reservedBytes += first.bytes
      first.grant()
    }
  }
}
