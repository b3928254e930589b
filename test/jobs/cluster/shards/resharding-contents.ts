/** What the replicas of the collection docs have before and after a resharding. */
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { ownerOf, pointsOn } from '../../../doubles/engine/shard-points.ts'
import type { ShardsWorld } from './shards-world.ts'

export const POINTS = 60

export function fill({ engine }: ShardsWorld, count = POINTS): void {
  const collection = engine.find('docs')
  if (collection === undefined) throw new Error('there is no collection')
  collection.points = Array.from({ length: count }, (_, id) => ({
    id,
    vector: [id],
    payload: { id },
  }))
}

/** Ids on each replica, and what is wrong with them. */
export function contents({ engine }: ShardsWorld) {
  const collection = engine.find('docs')
  if (collection === undefined) throw new Error('there is no collection')
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

export function numbers(shards: number, source?: { namespace: string; name: string }) {
  const number = { collection: 'docs', shards, ...(source && { source }) }
  return {
    resharding: { numbers: [number], mayStart: true },
  } satisfies Partial<ShardsPlan>
}
