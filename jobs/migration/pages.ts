/**
 * Pages of points: how many points the next one may have, and reading it. Bounded by count, by what
 * the engines allow, and by bytes, for points are of any size.
 */
import type { ShardKey } from '../../crds/manifest.ts'
import type { Page } from '../clients/page.ts'
import { isTooLarge, paced } from './pace.ts'
import type { Work } from './work.ts'

/** A page of this many bytes costs two calls hardly more than their bytes. */
const PAGE_BYTES = 4 * 1024 * 1024
/** Nothing is known of the size of the first point. */
const FIRST_LIMIT = 1
const GROWTH = 4

export class PageSize {
  readonly #most: number
  #limit: number

  /** At most so many points. */
  constructor(most: number) {
    this.#most = most
    this.#limit = Math.min(most, FIRST_LIMIT)
  }

  get limit(): number {
    return this.#limit
  }

  /** A page came: the next may be larger when this one was small. */
  took({ count, bytes }: Page): void {
    if (count === 0) return
    const fitting = Math.floor((PAGE_BYTES * count) / bytes)
    this.#limit = clamp(Math.min(fitting, this.#limit * GROWTH), this.#most)
  }

  halve(): void {
    this.#limit = clamp(Math.floor(this.#limit / 2), this.#most)
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

/** The page that begins with this id; smaller ones are asked for until the source gives one. */
export async function readPage(
  { name, shardKey, until }: Lane,
  offset: string | undefined,
  size: PageSize,
  work: Work,
): Promise<Page> {
  const { source, tools } = work
  for (;;) {
    const { limit } = size
    try {
      const wanted = { limit, offset, until, shardKey }
      const page = await paced(work, () => source.points.scroll(name, wanted, tools.signal))
      size.took(page)
      return page
    } catch (error) {
      if (limit === 1 || !isTooLarge(error)) throw error
      size.halve()
    }
  }
}

function clamp(limit: number, most: number): number {
  return Math.max(1, Math.min(limit, most))
}
