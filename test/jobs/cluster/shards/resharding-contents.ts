/** What the replicas of a collection have before and after a resharding. */
import { isDeepStrictEqual } from 'node:util'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import type { Collection, Shard } from '../../../doubles/engine/collection.ts'
import type { Point } from '../../../doubles/engine/points.ts'
import { ownerOf, pointsOn } from '../../../doubles/engine/shard-points.ts'
import { transfersOf } from '../../../doubles/engine/transfers.ts'
import type { ShardsWorld } from './shards-world.ts'

export const POINTS = 60

export function pointOf(id: number, value: unknown = id): Point {
  return { id, vector: [id], payload: { id: value } }
}

/** Returns the points. */
export function fill({ engine }: ShardsWorld, count = POINTS, name = 'docs', first = 0): Point[] {
  const collection = found(engine.find(name))
  const points = Array.from({ length: count }, (_, index) => pointOf(first + index))
  collection.points = structuredClone(points)
  return points
}

/** Ids on each replica, and what is wrong with them. */
export function contents({ engine }: ShardsWorld) {
  const collection = found(engine.find('docs'))
  const ring = collection.shards.map(({ id }) => id)
  const wrong: string[] = []
  const seen = new Map<unknown, number>()
  for (const shard of collection.shards) {
    const replicas = shard.peers.map((id) => {
      const ordinal = engine.peers().find((peer) => peer.id === id)?.ordinal ?? -1
      const points = pointsOn(collection, shard, { ordinal, id })
      const strays = points.filter((point) => ownerOf(point, ring) !== shard.id)
      if (strays.length > 0) wrong.push(`${strays.length} strays in ${shard.id} on ${ordinal}`)
      return points.map((point) => point.id).toSorted((a, b) => Number(a) - Number(b))
    })
    for (const ids of replicas) {
      if (String(ids) !== String(replicas[0])) wrong.push(`replicas of ${shard.id} differ`)
    }
    for (const id of replicas[0] ?? []) seen.set(id, (seen.get(id) ?? 0) + 1)
  }
  const twice = [...seen].filter(([, count]) => count > 1).length
  return { shards: ring.length, ids: seen.size, twice, wrong }
}

interface Expected {
  name?: string
  shards: number
  /** Replicas of each shard. */
  factor: number
  /** All of the collection, whole. */
  points: readonly Point[]
}

/**
 * How a collection differs from one that was created with this number of shards: its shards, the nodes and the states
 * of their replicas, and the whole points of each replica and of a read.
 */
export function flaws(
  { engine }: ShardsWorld,
  { name = 'docs', shards, factor, points }: Expected,
): string[] {
  const collection = found(engine.find(name))
  const ring = collection.shards.map(({ id }) => id)
  const flaw: string[] = []
  const { shard_number: number } = collection.config.params
  if (number !== shards) flaw.push(`its number of shards is ${String(number)}`)
  const expectedRing = Array.from({ length: shards }, (_, id) => id)
  if (!isDeepStrictEqual(ring, expectedRing)) flaw.push(`its shards are ${ring.join()}`)
  if (collection.resharding !== undefined) flaw.push('it is being resharded')
  const ordinals = new Map(engine.peers().map(({ id, ordinal }) => [id, ordinal]))
  for (const shard of collection.shards) {
    if (transfersOf(shard).length > 0) flaw.push(`shard ${shard.id} is in a transfer`)
    if (new Set(shard.peers).size !== factor || shard.peers.length !== factor) {
      flaw.push(`shard ${shard.id} has ${shard.peers.length} replicas`)
    }
    const own = points.filter((point) => ownerOf(point, ring) === shard.id)
    for (const peer of shard.peers) {
      const ordinal = ordinals.get(peer)
      const label = `shard ${shard.id} on node ${ordinal ?? 'unknown'}`
      const state = stateOf(shard, peer)
      if (state !== 'Active') flaw.push(`${label} is ${state}`)
      const held = pointsOn(collection, shard, { ordinal: ordinal ?? -1, id: peer })
      const difference = differenceOf(held, own)
      if (difference !== undefined) flaw.push(`${label} ${difference}`)
    }
  }
  const read = differenceOf(collection.points, points)
  if (read !== undefined) flaw.push(`a read ${read}`)
  return flaw
}

export function stateOf({ states }: Shard, peer: number): string {
  return states?.[peer] ?? 'Active'
}

export function numbers(shards: number, source?: { namespace: string; name: string }) {
  const number = { collection: 'docs', shards, ...(source && { source }) }
  return {
    resharding: { numbers: [number], mayStart: true },
  } satisfies Partial<ShardsPlan>
}

/** How the reshardings that a Job reports have ended. */
export async function outcomesOf(world: ShardsWorld): Promise<string[]> {
  const { reshardings = [] } = (await world.progress())?.shards ?? {}
  return reshardings.map(
    ({ collection, direction, shard, stage }) => `${collection} ${direction} ${shard} ${stage}`,
  )
}

/** Undefined if both have the same ids, each once and with the same values. */
function differenceOf(held: readonly Point[], expected: readonly Point[]): string | undefined {
  const missing = expected.filter(({ id }) => !held.some((point) => point.id === id))
  const extra = held.filter(({ id }) => !expected.some((point) => point.id === id))
  const other = held.filter((point) =>
    expected.some(({ id, ...rest }) => {
      const { id: same, ...values } = point
      return id === same && !isDeepStrictEqual(values, rest)
    }),
  )
  const twice = held.length - new Set(held.map(({ id }) => id)).size
  const parts = [
    ...(missing.length > 0 ? [`is without ${idsOf(missing)}`] : []),
    ...(extra.length > 0 ? [`has ${idsOf(extra)} in addition`] : []),
    ...(other.length > 0 ? [`has other values of ${idsOf(other)}`] : []),
    ...(twice > 0 ? [`has ${twice} ids twice`] : []),
  ]
  return parts.length === 0 ? undefined : parts.join(', ')
}

function idsOf(points: readonly Point[]): string {
  return points.map(({ id }) => String(id)).join()
}

function found(collection: Collection | undefined): Collection {
  if (collection === undefined) throw new Error('there is no collection')
  return collection
}
