/** What a collection of the source is: its configuration, its shard keys, and what it lets us read. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import type { Plain } from '../../crds/rules/objects.ts'
import type { ShardKeyShards } from '../clients/engine-points.ts'
import { isDeferring } from './deferred.ts'
import { methodOf } from './fit.ts'
import { paced } from './pace.ts'
import type { Place } from './pages.ts'
import { targetNameOf, type Side, type Work } from './work.ts'

export interface Shape {
  name: string
  info: CollectionInfo
  /** Under custom sharding; else empty. In an order that stays. */
  keys: ShardKeyShards[]
}

export async function readShape(name: string, work: Work): Promise<Shape> {
  const { source, tools } = work
  const info = await paced(work, () => source.collections.collectionInfo(name, tools.signal))
  if (info === undefined) throw deleted(name, source)
  if (methodOf(info.config.params) !== 'custom') return { name, info, keys: [] }
  const keys = await paced(work, () => source.points.shardKeys(name, tools.signal))
  for (const { key } of keys) refuseUnsafe(key)
  return { name, info, keys: keys.toSorted((one, other) => orderOfKeys(one.key, other.key)) }
}

/** Where points are copied from and to: one place for each shard key. */
export function placesOf({ name, info, keys }: Shape, work: Work): Place[] {
  const place = { name, targetName: targetNameOf(name, work.order) }
  if (methodOf(info.config.params) !== 'custom') return [place]
  return keys.map(({ key }) => ({ ...place, shardKey: key }))
}

/** How much is read and written at once: as the spec says, or less where an engine allows less. */
export interface Limits {
  /** Points of a page that is written as it came. */
  copied: number
  /** Points of a page that is read from both sides. */
  compared: number
  /** Whether a write is answered once it is applied: what the target defers would take until it is indexed. */
  wait: boolean
}

export async function limitsOf(shape: Shape, work: Work): Promise<Limits> {
  const { target, tools, order } = work
  const name = targetNameOf(shape.name, order)
  const live = await paced(work, () => target.collections.collectionInfo(name, tools.signal))
  const pages = [shape.info, live].map((info) => limitOf(info, 'max_query_limit'))
  const most = (...limits: number[]) => Math.max(1, Math.min(order.batchSize, ...limits))
  return {
    copied: most(limitOf(shape.info, 'max_query_limit'), limitOf(live, 'upsert_max_batchsize')),
    compared: most(...pages),
    wait: live === undefined || !isDeferring(live),
  }
}

/** A 404 under way is for good where a collection that was seen on a side is not listed there any more. */
export async function refuseDeleted(
  error: unknown,
  { side, name }: { side: Side; name: string },
  work: Work,
): Promise<void> {
  if (!(error instanceof EngineError) || error.status !== 404) return
  const names = await paced(work, () => side.engine.collections(work.tools.signal))
  if (!names.includes(name)) throw deleted(name, side)
}

/** The source or target has it no more. */
export function deleted(name: string, { called }: Side): Rejected {
  return new Rejected(`collection ${name} was deleted at the ${called} during the migration`)
}

function limitOf(info: CollectionInfo | undefined, field: string): number {
  const strict: Plain = info?.config.strict_mode_config ?? {}
  const limit = strict[field]
  return strict['enabled'] === true && typeof limit === 'number' ? limit : Infinity
}

function refuseUnsafe(key: ShardKey): void {
  if (typeof key !== 'number' || Number.isSafeInteger(key)) return
  throw new Rejected(`shard key ${key} is above 2^53, which cannot be read for sure`)
}

/** Numbers first; a pod that comes after a killed one must find the same order. */
export function orderOfKeys(one: ShardKey, other: ShardKey): number {
  if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1
  return one < other ? -1 : one > other ? 1 : 0
}
