/** Lists by pages: all pages of a list show the objects as they were when the first one was asked for. */
import type { ApiObject } from '../client.ts'
import { ApiFailure, badRequest } from './failure.ts'

export interface ListPage {
  items: ApiObject[]
  revision: number
  /** What the next page is asked for with. */
  next?: string
}

interface Rest {
  items: ApiObject[]
  revision: number
}

/** Lists that are read to their end, or are forgotten: etcd compacts as well. */
const MAX_OPEN = 100
const TOKEN = /^page-\d+$/

export class Pages {
  readonly #open = new Map<string, Rest>()
  #count = 0
  /** Lists that were begun. */
  lists = 0

  first(items: ApiObject[], limit: number, revision: number): ListPage {
    this.lists += 1
    return this.#page({ items, revision }, limit)
  }

  /** A token may be used again, as a client does whose call broke off. */
  next(token: string, limit: number): ListPage {
    const rest = this.#open.get(token)
    if (rest !== undefined) return this.#page(rest, limit)
    if (!TOKEN.test(token)) throw badRequest(`invalid continue token: "${token}"`)
    const message =
      'The provided continue parameter is too old to display a consistent list result.'
    throw new ApiFailure(410, 'Expired', message)
  }

  /** Every token that was given out is too old from now on. */
  compact(): void {
    this.#open.clear()
  }

  #page({ items, revision }: Rest, limit: number): ListPage {
    const page = { items: items.slice(0, limit), revision }
    if (items.length <= limit) return page
    this.#count += 1
    const next = `page-${this.#count}`
    this.#open.set(next, { items: items.slice(limit), revision })
    const [oldest] = this.#open.keys()
    if (this.#open.size > MAX_OPEN && oldest !== undefined) this.#open.delete(oldest)
    return { ...page, next }
  }
}
