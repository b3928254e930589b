/**
 * Points that `prevent_unoptimized` hides until they are indexed, as engines do since 1.17.1: with more
 * vectors outside of an index than `indexing_threshold` allows, what is written is deferred.
 */
import type { Collection } from './collection.ts'
import { compareIds, sameId, type Point } from './points.ts'

const BYTES_OF_ELEMENT = 4
const BYTES_IN_KB = 1024

/** Whether writes to it may be deferred. */
export function isDeferring({ config }: Collection): boolean {
  const { prevent_unoptimized: prevent, indexing_threshold: threshold } = config.optimizer_config
  return prevent === true && typeof threshold === 'number' && threshold > 0
}

/** Writes points: those that need no index are visible now, the rest later. */
export function write(collection: Collection, written: Point[]): void {
  const { deferred = [], indexed = 0 } = collection
  const free = isDeferring(collection)
    ? Math.max(0, capacityOf(collection) - (collection.points.length - indexed))
    : Infinity
  put(collection, written.slice(0, free))
  const later = written.slice(free)
  if (deferred.length > 0 || later.length > 0) {
    collection.deferred = [...without(deferred, written), ...later]
  }
}

/** The optimizer has indexed all, or this many, of the points: they become visible. */
export function optimize(collection: Collection, most = Infinity): void {
  const { deferred = [] } = collection
  put(collection, deferred.slice(0, most))
  collection.deferred = deferred.slice(most)
  collection.indexed = collection.points.length
}

/** Deletes what matches, seen or not. */
export function keep(collection: Collection, matches: (point: Point) => boolean): void {
  collection.points = collection.points.filter(matches)
  if (collection.deferred) collection.deferred = collection.deferred.filter(matches)
}

function put(collection: Collection, points: Point[]): void {
  collection.points = [...without(collection.points, points), ...points]
  collection.points.sort((one, other) => compareIds(one.id, other.id))
}

function without(points: Point[], written: Point[]): Point[] {
  return points.filter(
    ({ id, shard_key: key }) =>
      !written.some((other) => other.shard_key === key && sameId(other.id, id)),
  )
}

/** Number of points that the engine leaves without an index, by its own estimate. */
function capacityOf({ config }: Collection): number {
  const { vectors } = config.params
  const size = typeof vectors['size'] === 'number' ? vectors['size'] : 1
  const threshold = Number(config.optimizer_config['indexing_threshold']) * BYTES_IN_KB
  return Math.ceil(threshold / (BYTES_OF_ELEMENT * size))
}
