/**
 * Each shard on the one node that takes its snapshot, before any is taken: the engine spreads new shards
 * by their number, and what stands there already may have more copies than one.
 */
import { recoveryOn, type Work } from './work.ts'
import type { ShardWanted } from './wanted.ts'
import { arranged, tryToStart } from './moving.ts'
import type { Places } from './places.ts'
import { firstCopies, type Copies, type Sight } from './sight.ts'

/** Costs little where the collection was just made: there is nothing in its shards. */
export async function placeShards({ name }: ShardWanted, work: Work): Promise<void> {
  const places = work.places.get(name) ?? new Map<number, number[]>()
  work.tally.step('places its shards')
  await arranged(
    name,
    {
      lacking: (copies) => strayed(places, copies),
      start: (sight) => start(name, changesOf(places, sight), work),
    },
    work,
  )
}

/** A way to the node that is to have it, or a copy that is dropped: by peer ids. */
export type Change = { shard: number; from: number; to: number } | { shard: number; drop: number }

/** What is still to be done; a copy beside one that is on its way is dropped once that has arrived. */
export function changesOf(places: Places, sight: Sight): Change[] {
  const peer = (ordinal: number) => sight.peers[ordinal] ?? ordinal
  return [...firstCopies(sight)].flatMap(([shard, states]): Change[] => {
    const [home] = places.get(shard) ?? []
    const [holder, ...others] = [...states.keys()]
    if (home === undefined || holder === undefined) return []
    if (!states.has(home)) return [{ shard, from: peer(holder), to: peer(home) }]
    return [holder, ...others]
      .filter((ordinal) => ordinal !== home)
      .map((ordinal) => ({ shard, drop: peer(ordinal) }))
  })
}

/** The first shard that is not alone on the node that takes its snapshot. */
export function strayed(places: Places, copies: Copies): string | undefined {
  for (const [shard, [home]] of places) {
    const holders = [...(copies.get(shard)?.keys() ?? [])]
    if (home === undefined || (holders.length === 1 && holders[0] === home)) continue
    return `shard ${shard} is on nodes ${holders.join(', ')}, not on node ${home} alone`
  }
  return undefined
}

async function start(name: string, changes: Change[], work: Work): Promise<void> {
  const engine = recoveryOn(work, 0)
  const { signal } = work.tools
  for (const change of changes) {
    const { shard: shard_id } = change
    const call = () =>
      'drop' in change
        ? engine.dropReplica(name, { shard_id, peer_id: change.drop }, signal)
        : engine.moveShard(
            name,
            { shard_id, from_peer_id: change.from, to_peer_id: change.to },
            signal,
          )
    await tryToStart({ collection: name, shard: shard_id }, call, work)
  }
}
