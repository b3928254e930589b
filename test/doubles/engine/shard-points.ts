/** Which points are in which shard of a collection. */
import { createHash } from 'node:crypto'
import type { Collection, Shard } from './collection.ts'
import { integerText } from './json.ts'
import { compareIds, type Point } from './points.ts'

export function pointsIn(collection: Collection, shard: Shard): Point[] {
  return collection.points.filter((point) => shardOf(collection, point) === shard)
}

/** Whether a shard takes this point: not if its shard key was deleted. */
export function isPlaced(collection: Collection, point: Point): boolean {
  return shardOf(collection, point) !== undefined
}

/** Numbers a write in each shard that takes part in it. */
export function countWrite(collection: Collection, points: readonly Point[]): void {
  endGrey(collection)
  const written = new Set(points.map((point) => shardOf(collection, point)))
  for (const shard of written) {
    if (shard !== undefined) shard.operations = (shard.operations ?? 0) + 1
  }
}

/** The optimizers of a grey collection start with its next update. */
export function endGrey(collection: Collection): void {
  if (collection.status === 'grey') delete collection.status
  for (const shard of collection.shards) {
    const rest = Object.entries(shard.statusOn ?? {}).filter(([, status]) => status !== 'grey')
    if (shard.statusOn !== undefined) shard.statusOn = Object.fromEntries(rest)
  }
}

/** Points of the copy on one node: without the last ones, where it has lost some. */
export function pointsOn(
  collection: Collection,
  shard: Shard,
  { ordinal, id: peer }: { ordinal: number; id: number },
): Point[] {
  const points = collection.copies?.[`${shard.id}/${peer}`] ?? pointsIn(collection, shard)
  return points.slice(0, Math.max(0, points.length - (shard.lost?.[ordinal] ?? 0)))
}

/** The engine does not check whether the points belong to this shard: see docs/engine-notes.md. */
export function replacePoints(collection: Collection, shard: Shard, points: Point[]): void {
  const others = collection.points.filter((point) => shardOf(collection, point) !== shard)
  const { key } = shard
  // The other nodes fetch the recovered points.
  delete shard.lost
  const taken = points.map((point) => ({
    ...point,
    ...(key !== undefined && { shard_key: key }),
    shard: shard.id,
  }))
  collection.points = [...others, ...taken].sort((one, other) => compareIds(one.id, other.id))
}

/** Where a snapshot put it; else the same on every call, and in every collection with as many shards. */
export function shardOf(
  { shards, hasRing }: Collection,
  { id, shard_key: key, shard }: Pick<Point, 'id' | 'shard_key' | 'shard'>,
): Shard | undefined {
  const placed = shards.find((one) => one.id === shard && one.key === key)
  if (placed !== undefined) return placed
  const choice = shards.filter((one) => one.key === key)
  if (hasRing !== true) return choice[hashOf(id) % Math.max(choice.length, 1)]
  const owner = ownerOf(
    { id },
    choice.map((one) => one.id),
  )
  return choice.find((one) => one.id === owner)
}

/** Another shard takes points from all the others, and from none to another. */
export function ownerOf({ id }: Pick<Point, 'id'>, ring: readonly number[]): number | undefined {
  const hash = hashOf(id)
  const weight = (shard: number) => mixed(hash ^ Math.imul(shard + 1, 0x9e_37_79_b1))
  let [owner] = ring
  for (const shard of ring) if (owner === undefined || weight(shard) > weight(owner)) owner = shard
  return owner
}

function hashOf(id: unknown): number {
  return createHash('sha256')
    .update(integerText(id) ?? String(id))
    .digest()
    .readUInt32BE(0)
}

function mixed(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85_eb_ca_6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2_b2_ae_35)
  return (hash ^ (hash >>> 16)) >>> 0
}
