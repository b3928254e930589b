/**
 * The points of one collection, shard key by shard key: the next page is read while the last two are
 * written, and each is written as the bytes it came in.
 */
import type { MigrationPosition } from '../../crds/migration-command.ts'
import type { Page } from '../clients/page.ts'
import { PageSize, readPage, type Place } from './pages.ts'
import type { Work } from './work.ts'
import { Writes } from './writes.ts'

/**
 * Copies what is left of a collection from a position on, of the keys from that position's on. Answers
 * how many points are copied.
 */
export async function copyPoints(
  position: MigrationPosition,
  { places, most }: { places: readonly Place[]; most: number },
  work: Work,
): Promise<number> {
  let at = position
  // One for all keys: points of one collection are much alike.
  const size = new PageSize(most)
  const first = Math.max(
    0,
    places.findIndex(({ shardKey }) => shardKey === position.shardKey),
  )
  for (const place of places.slice(first)) {
    const { offset, ...rest } = at
    const isResumed = offset !== undefined && at.shardKey === place.shardKey
    at = {
      ...rest,
      ...(place.shardKey !== undefined && { shardKey: place.shardKey }),
      ...(isResumed && { offset }),
    }
    at = await copyPlace(at, place, size, work)
  }
  return at.copied
}

/** Under one shard key, or of a collection without them; answers with where it ended. */
async function copyPlace(
  position: MigrationPosition,
  place: Place,
  size: PageSize,
  work: Work,
): Promise<MigrationPosition> {
  const { tally } = work
  let at = position
  const writes = new Writes(place, size, work, ({ count, next }) => {
    at = { ...at, copied: at.copied + count, ...(next !== undefined && { offset: next }) }
    // Nothing says where to go on behind the last page: who comes after us writes it once more.
    if (next !== undefined) tally.reached(at)
  })
  try {
    for await (const page of pagesOf(place, position.offset, { size, writes, work })) {
      writes.start(page)
    }
  } finally {
    // What is under way is written, or has failed, before anything else is done.
    await writes.settled()
  }
  return at
}

/** Each page, as soon as it may be written; the next one is on its way by then. */
async function* pagesOf(
  place: Place,
  offset: string | undefined,
  { size, writes, work }: { size: PageSize; writes: Writes; work: Work },
): AsyncGenerator<Page> {
  let next = readPage(place, offset, size, work)
  for (;;) {
    const page = await next
    await writes.room()
    if (page.next !== undefined) {
      next = readPage(place, page.next, size, work)
      // It is awaited in the next round, or never when a write fails meanwhile.
      next.catch(() => undefined)
    }
    yield page
    if (page.next === undefined) return
  }
}
