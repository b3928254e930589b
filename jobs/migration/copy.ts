/**
 * The points of one collection, lane by lane, some lanes side by side: in each the next page is read while
 * the one before is written, and all are written as the bytes they came in.
 */
import type { MigrationPosition } from '../../crds/migration-command.ts'
import { idsIn, type Page } from '../clients/page.ts'
import { inLanes } from '../lanes.ts'
import type { CopiedIds } from './copied-ids.ts'
import { Course } from './course.ts'
import { InFlight } from './in-flight.ts'
import { MAX_LANES, lanesFrom, type Load } from './lanes.ts'
import { PageSize, readPage, type HeldPage, type Lane } from './pages.ts'
import type { Work } from './work.ts'
import { Room, Writes, type Shared } from './writes.ts'

/** Copies what is left of a collection from a position on, and notes the ids. Answers how many points are copied. */
export async function copyPoints(
  position: MigrationPosition,
  load: Load & { ids: CopiedIds | undefined },
  work: Work,
): Promise<number> {
  const { open, waiting } = await lanesFrom(position, load, work)
  const course = new Course(position, open, work.tally)
  const stop = new AbortController()
  const shared: Shared = {
    wait: load.wait,
    room: new Room(),
    size: new PageSize(load.most),
    inFlight: new InFlight(),
    work: until(stop, work),
  }
  const lanes = [...open, ...waiting].map((lane) => [lane])
  await inLanes(lanes, MAX_LANES, async (lane) => {
    course.begin(lane)
    try {
      await copyLane(lane, shared, {
        read: (page) => load.ids?.add(lane.shardKey, idsIn(page)),
        wrote: (page) => {
          course.wrote(lane, page)
        },
      })
    } catch (error) {
      // What fails one lane fails the collection: the others need not come to their end.
      stop.abort(error)
      throw error
    }
  })
  return course.copied
}

/** The same work, which also ends where a part of it fails. */
export function until({ signal: stopped }: AbortController, work: Work): Work {
  const { tools } = work
  return { ...work, tools: { ...tools, signal: AbortSignal.any([tools.signal, stopped]) } }
}

interface Watch {
  read: (page: Page) => void
  wrote: (page: Page) => void
}

async function copyLane(lane: Lane, shared: Shared, { read, wrote }: Watch): Promise<void> {
  const writes = new Writes(lane, shared, wrote)
  try {
    for await (const page of pagesOf(lane, shared, writes)) {
      // Its bytes are gone once they are written.
      read(page)
      writes.start(page)
    }
  } finally {
    // What is under way is written, or has failed, before anything else is done.
    await writes.settled()
  }
}

/** Each page, as soon as there is room to write it; the next one is on its way by then. */
async function* pagesOf(lane: Lane, shared: Shared, writes: Writes): AsyncGenerator<HeldPage> {
  let next = readPage(lane, lane.offset, shared)
  for (;;) {
    const page = await next
    writes.check()
    await shared.room.enter(shared.work.tools.signal)
    if (page.next !== undefined) {
      next = readPage(lane, page.next, shared)
      // It is awaited in the next round, or never when a write fails meanwhile.
      next.catch(() => undefined)
    }
    yield page
    if (page.next === undefined) return
  }
}
