/** The other copies of each shard: made where the backup recorded them (facts 6.4, step 6). */
import { EngineError } from '../../crds/errors.ts'
import type { ManifestCollection } from '../../crds/manifest.ts'
import { isPassing, patiently } from '../patience.ts'
import { firstCopies, settled, type Copies, type Sight } from './settled.ts'
import { collectionsOn, recoveryOn, type Wanted, type Work } from './work.ts'

/** A copy that fails on its way is started again. */
const ROUNDS = 3

export async function makeCopies({ source, name }: Wanted, work: Work): Promise<void> {
  const factor = source.config.params['replication_factor']
  if (typeof factor !== 'number' || factor <= 1) return
  work.tally.step('makes the other copies of its shards')
  const body = { params: { replication_factor: factor } }
  await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, work.tools.signal))
  for (let round = 1; ; round += 1) {
    const sight = await settled(name, work)
    const moves = missingCopies(source, sight)
    for (const move of moves) await replicate(name, move, work)
    try {
      await settled(name, work, (copies) => lacking(source, copies))
      return
    } catch (error) {
      if (!isPassing(error) || round === ROUNDS) throw error
      work.tools.log.warn({ collection: name, round, reason: error.message }, 'copies again')
    }
  }
}

interface Move {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
}

/** From a node that holds the shard to each that held it when it was backed up. */
export function missingCopies(
  { shards }: Pick<ManifestCollection, 'shards'>,
  sight: Sight,
): Move[] {
  const copies = firstCopies(sight)
  return shards.flatMap(({ shardId, nodes }) => {
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

/** The first copy that is not where it was. */
export function lacking(
  { shards }: Pick<ManifestCollection, 'shards'>,
  copies: Copies,
): string | undefined {
  for (const { shardId, nodes } of shards) {
    const node = nodes.find((ordinal) => !(copies.get(shardId)?.has(ordinal) ?? false))
    if (node !== undefined) return `shard ${shardId} has no copy on node ${node}`
  }
  return undefined
}

async function replicate(name: string, move: Move, work: Work): Promise<void> {
  const { log, signal } = work.tools
  try {
    await recoveryOn(work, 0).replicateShard(name, move, signal)
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    // It may be on its way already, or be started in the next round.
    log.info({ collection: name, shard: move.shard_id, reason: error.message }, 'copy not started')
  }
}
