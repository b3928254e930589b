/**
 * Pages of points: how many points the next one may have, and reading it. Bounded by count, by what
 * the engines allow, and by bytes, for points are of any size.
 */
import type { ShardKey } from '../../crds/manifest.ts'
import type { Page } from '../clients/page.ts'
import { IN_FLIGHT_BYTES, type InFlight } from './in-flight.ts'
import { isTooLarge, paced } from './pace.ts'
import type { Work } from './work.ts'

/**
 * A page of this many bytes costs two calls hardly more than their bytes; one that turns out twice as large
 * is asked for again, with fewer points.
 */
const PAGE_BYTES = 4 * 1024 * 1024
/** Nothing is known of the size of the first point. */
const FIRST_LIMIT = 1
const GROWTH = 4

export class PageSize {
  readonly #most: number
  readonly #bytes: number
  #limit: number
  #room: number

  /** At most so many points, and about so many bytes. */
  constructor(most: number, bytes = PAGE_BYTES) {
    this.#most = most
    this.#bytes = bytes
    this.#room = 2 * bytes
    this.#limit = Math.min(most, FIRST_LIMIT)
  }

  get limit(): number {
    return this.#limit
  }

  /** Bytes the next page may have. */
  get room(): number {
    return this.#room
  }

  /** A page came: the next may be larger when this one was small. */
  took({ count, bytes }: Page): void {
    if (count === 0) return
    // A point that is larger than a page is to be is seldom alone.
    this.#room = Math.min(Math.max(2 * this.#bytes, 2 * (bytes / count)), IN_FLIGHT_BYTES)
    const fitting = Math.floor((this.#bytes * count) / bytes)
    this.#limit = clamp(Math.min(fitting, this.#limit * GROWTH), this.#most)
  }

  halve(): void {
    this.#limit = clamp(Math.floor(this.#limit / 2), this.#most)
  }

  /** A page with this limit and room was too large; answers whether another may be asked for. */
  refused({ limit, room }: Pick<PageSize, 'limit' | 'room'>): boolean {
    // Another lane may have been refused the same before.
    if (limit > 1) this.#limit = Math.min(this.#limit, clamp(Math.floor(limit / 2), this.#most))
    else if (room < IN_FLIGHT_BYTES) this.#room = IN_FLIGHT_BYTES
    else return false
    return true
  }
}

export interface Place {
  /** Name at the source. */
  name: string
  targetName: string
  shardKey?: ShardKey | undefined
}

/** Points of a place that are copied one after the other. */
export interface Lane extends Place {
  /** Id it begins with, as JSON; absent: the first there is. */
  offset?: string | undefined
  /** Id that belongs to the next lane, as JSON; absent: to the last there is. */
  until?: string | undefined
}

/** A page that takes up room until it is written. */
export interface HeldPage extends Page {
  release: () => void
}

/** What the lanes of a collection share to read: their points are much alike. */
export interface Reading {
  size: PageSize
  inFlight: InFlight
  work: Work
}

/** The page that begins with this id; smaller ones are asked for until the source gives one. */
export async function readPage(
  { name, shardKey, until }: Lane,
  offset: string | undefined,
  { size, inFlight, work }: Reading,
): Promise<HeldPage> {
  const { source, tools } = work
  for (;;) {
    const { limit, room } = size
    const hold = await inFlight.take(room, tools.signal)
    try {
      // One point that has all the room is read whatever its size: there is nothing smaller.
      const maxBytes = limit === 1 && room === IN_FLIGHT_BYTES ? Infinity : room
      const wanted = { limit, offset, until, shardKey, maxBytes }
      const page = await paced(work, () => source.points.scroll(name, wanted, tools.signal))
      size.took(page)
      hold.settle(page.bytes)
      return { ...page, release: hold.release }
    } catch (error) {
      hold.release()
      if (!isTooLarge(error) || !size.refused({ limit, room })) throw error
    }
  }
}

function clamp(limit: number, most: number): number {
  return Math.max(1, Math.min(limit, most))
}
