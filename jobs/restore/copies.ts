/**
 * The other copies of each shard: made where the backup recorded them, or where there is room for as many
 * as are wanted (facts 6.4, step 6).
 */
import { patiently } from '../patience.ts'
import { keepsNewFactor } from './factor.ts'
import { arranged, tryToStart } from './moving.ts'
import { factorOf, placesOf, recordedFactor, type Places } from './places.ts'
import { settled } from './settled.ts'
import { firstCopies, type Copies, type Sight } from './sight.ts'
import { collectionsOn, recoveryOn, targetOf, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

export async function makeCopies(wanted: Wanted, work: Work): Promise<void> {
  const { name } = wanted
  const target = targetOf(work)
  const factor = factorOf(wanted, target)
  tellFewer(wanted, factor, work)
  if (factor > 1) {
    const body = { params: { replication_factor: factor } }
    const { signal } = work.tools
    await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, signal))
  }
  keepsNewFactor(name, work)
  const sight = await settled(name, work)
  const places = placesOf(wanted, { sight, planned: work.places.get(name) }, target)
  if ([...places.values()].every((nodes) => nodes.length <= 1)) return
  work.tally.step('makes the other copies of its shards')
  await arranged(
    name,
    {
      lacking: (copies) => lacking(places, copies),
      start: (seen) => replicate(name, missingCopies(places, seen), work),
    },
    work,
  )
}

/** Fewer nodes than copies are wanted: what there is room for is made. */
function tellFewer(wanted: Wanted, factor: number, { replicationFactor, tally }: Work): void {
  const asked = replicationFactor ?? recordedFactor(wanted)
  if (factor >= asked) return
  const { name } = wanted
  tally.note(`${name} has ${factor} copies of each shard, not ${asked}: there are ${factor} nodes`)
}

interface Move {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
}

/** From a node that holds the shard to each that is to hold it too. */
export function missingCopies(places: Places, sight: Sight): Move[] {
  const copies = firstCopies(sight)
  return [...places].flatMap(([shardId, nodes]) => {
    const holders = copies.get(shardId) ?? new Map<number, string>()
    const [holder] = holders.keys()
    const from = holder === undefined ? undefined : sight.peers[holder]
    return nodes.flatMap((node) => {
      const to = sight.peers[node]
      if (holders.has(node) || from === undefined || to === undefined) return []
      return [{ shard_id: shardId, from_peer_id: from, to_peer_id: to }]
    })
  })
}

/** The first copy that is not where it is to be. */
export function lacking(places: Places, copies: Copies): string | undefined {
  for (const [shardId, nodes] of places) {
    const node = nodes.find((ordinal) => !(copies.get(shardId)?.has(ordinal) ?? false))
    if (node !== undefined) return `shard ${shardId} has no copy on node ${node}`
  }
  return undefined
}

async function replicate(name: string, moves: Move[], work: Work): Promise<void> {
  for (const move of moves) {
    const start = () => recoveryOn(work, 0).replicateShard(name, move, work.tools.signal)
    await tryToStart({ collection: name, shard: move.shard_id }, start, work)
  }
}
