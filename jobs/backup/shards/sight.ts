/** Who holds which shard now, as the nodes that answer see it: one that is away does not stop the others. */
import { EngineError } from '../../../crds/errors.ts'
import type { LocalShard } from '../../../crds/manifest.ts'
import type { SettlingPlacement } from '../../clients/engine-snapshots.ts'
import { isPassing, patiently } from '../../patience.ts'
import { refuseDeleted } from '../source.ts'
import { ordinals, snapshotsOn, type Work } from '../work.ts'
import type { Holders } from './turns.ts'

/** By the ordinal of the node that says so. */
export type Sight = ReadonlyMap<number, SettlingPlacement>

/** Waits, within bounds, until a node answers. */
export function sightOf(collection: string, work: Work): Promise<Sight> {
  return patiently(work, () => look(collection, work))
}

async function look(collection: string, work: Work): Promise<Sight> {
  const sight = new Map<number, SettlingPlacement>()
  let complaint = new EngineError('there is no node')
  for (const ordinal of ordinals(work)) {
    try {
      const { signal } = work.tools
      sight.set(ordinal, await snapshotsOn(work, ordinal).placement(collection, signal))
    } catch (error) {
      if (error instanceof EngineError && error.status === 404)
        await refuseDeleted(collection, work)
      if (!isPassing(error)) throw error
      complaint = error
    }
  }
  if (sight.size === 0) throw complaint
  return sight
}

/** A copy is one to stream only where its node calls it Active, and nobody calls it anything else. */
export function activeHolders(sight: Sight): Holders {
  const holders = new Map<number, number[]>()
  for (const [ordinal, { peer_id, local_shards }] of sight) {
    for (const { shard_id, state } of local_shards) {
      if (state !== 'Active' || isDoubted(sight, shard_id, peer_id)) continue
      holders.set(shard_id, [...(holders.get(shard_id) ?? []), ordinal])
    }
  }
  return holders
}

/** Points of a copy, as its node counts them. */
export function pointsOn(sight: Sight, node: number, shardId: number): number | undefined {
  const shards = sight.get(node)?.local_shards ?? []
  return shards.find(({ shard_id }) => shard_id === shardId)?.points_count
}

/** Whether any node lists the shard at all. */
export function knows(sight: Sight, shardId: number): boolean {
  return shardsIn(sight).some((shard) => shard.shardId === shardId)
}

/** Every shard that some node lists. */
export function shardsIn(sight: Sight): LocalShard[] {
  const shards = new Map<number, LocalShard>()
  for (const { local_shards, remote_shards } of sight.values()) {
    for (const { shard_id: shardId, shard_key: shardKey } of [...local_shards, ...remote_shards]) {
      shards.set(shardId, { shardId, ...(shardKey != null && { shardKey }) })
    }
  }
  return [...shards.values()]
}

function isDoubted(sight: Sight, shardId: number, peer: number): boolean {
  return [...sight.values()].some(({ remote_shards }) =>
    remote_shards.some(
      ({ shard_id, peer_id, state }) =>
        shard_id === shardId && peer_id === peer && state !== 'Active',
    ),
  )
}
