/**
 * How a collection is divided into lanes that are copied side by side: by its shard keys, and where these
 * are fewer than the lanes there may be, by ids, which the engine gives in ascending order.
 */
import type { ShardKey } from '../../crds/manifest.ts'
import type { MigrationPosition } from '../../crds/migration-command.ts'
import { isId, orderOfIds } from '../clients/ids.ts'
import type { Lane, Place } from './pages.ts'
import { sampleIds } from './sample.ts'
import { orderOfKeys } from './shape.ts'
import type { Work } from './work.ts'

/** Each has a page of its own in memory; what is written at once is bounded for all together. */
export const MAX_LANES = 4
/** A lane that has fewer pages is over before it has gained anything. */
const LEAST_PAGES = 16
/** Ids from which it is told where a collection is divided: with so many, parts differ by a few hundredths. */
const SAMPLE = 1000
/** As many as strict mode lets us have may do. */
const LEAST_SAMPLE = 50

/** What is copied, and of how many points each page is at most. */
export interface Load {
  places: readonly Place[]
  /** As the source counts them, approximately. */
  points: number
  most: number
  /** Whether a write is answered once it is applied. */
  wait: boolean
}

export interface Lanes {
  /** At work from the first moment on. */
  open: Lane[]
  /** They take the turn of those that come to their end. */
  waiting: Lane[]
}

/** The lanes of a collection that is begun, or of what a pod before this one left. */
export async function lanesFrom(
  position: MigrationPosition,
  load: Load,
  work: Work,
): Promise<Lanes> {
  const { places } = load
  const { lanes, begun } = recorded(position)
  if (lanes === undefined) return freshLanes(load, work)
  // A key that was deleted meanwhile has no points any more.
  const open = places.flatMap((place) =>
    lanes
      .filter(({ shardKey }) => shardKey === place.shardKey)
      .map(({ offset, until }) => ({ ...place, offset, until })),
  )
  const waiting = places.filter(
    ({ shardKey }) =>
      shardKey !== undefined && begun !== undefined && orderOfKeys(shardKey, begun) > 0,
  )
  return { open, waiting }
}

interface Recorded {
  lanes?: Pick<Lane, 'shardKey' | 'offset' | 'until'>[] | undefined
  begun?: ShardKey | undefined
}

function recorded({ lanes, begun, shardKey, offset }: MigrationPosition): Recorded {
  const isOlder = lanes === undefined && (shardKey ?? offset) !== undefined
  return isOlder ? { lanes: [{ shardKey, offset }], begun: shardKey } : { lanes, begun }
}

/** All of what the places hold. */
export async function freshLanes({ places, points, most }: Load, work: Work): Promise<Lanes> {
  const pages = points / most / Math.max(1, places.length)
  const parts = Math.min(Math.floor(MAX_LANES / places.length), Math.floor(pages / LEAST_PAGES))
  if (parts < 2) return { open: [], waiting: [...places] }
  const open: Lane[] = []
  for (const place of places) open.push(...(await partsOf(place, parts, work)))
  return { open, waiting: [] }
}

/** A place in parts with about as many points each. */
async function partsOf(place: Place, parts: number, work: Work): Promise<Lane[]> {
  const ids = await sampleIds(place, SAMPLE, work)
  if (ids.length < LEAST_SAMPLE || !ids.every(isId)) return [place]
  const sorted = ids.toSorted(orderOfIds)
  const bounds = Array.from(
    { length: parts - 1 },
    (_, n) => sorted[Math.floor(((n + 1) * sorted.length) / parts)],
  )
  return [undefined, ...bounds].map((offset, n) => ({ ...place, offset, until: bounds[n] }))
}
