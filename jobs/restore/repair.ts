/**
 * Nodes that disagree for good about who holds a copy, as a hasty restore leaves them: the copy that
 * only some of them know of is dropped, through one of those that do (facts 6.4, the first table).
 */
import { EngineError } from '../../crds/errors.ts'
import type { Sight } from './sight.ts'
import { recoveryOn, type Work } from './work.ts'

/** A copy that not all nodes know of, and a node that does. */
export interface Phantom {
  shard: number
  /** Node that is said to hold it. */
  ordinal: number
  /** Node that says so. */
  through: number
}

export async function repair(collection: string, sight: Sight, work: Work): Promise<void> {
  const { log, signal } = work.tools
  for (const { shard, ordinal, through } of phantoms(sight)) {
    const peer_id = sight.peers[ordinal] ?? ordinal
    const said = `nodes disagreed about a copy of shard ${shard} of ${collection} on node ${ordinal}: dropped`
    try {
      await recoveryOn(work, through).dropReplica(collection, { shard_id: shard, peer_id }, signal)
      log.warn({ collection, shard, node: ordinal, through }, said)
      work.tally.note(said)
    } catch (error) {
      // It may be the last Active one, or have gone meanwhile: the next look tells.
      if (!(error instanceof EngineError)) throw error
      log.warn({ collection, shard, node: ordinal, reason: error.message }, 'not dropped')
    }
  }
}

/** Of each shard only copies beside one that all agree on: the last one is never dropped. */
export function phantoms({ copies }: Pick<Sight, 'copies'>): Phantom[] {
  const shards = new Set(copies.flatMap((known) => [...known.keys()]))
  return [...shards].flatMap((shard) => {
    const said = copies.map((known) => new Set(known.get(shard)?.keys() ?? []))
    const all = new Set(said.flatMap((holders) => [...holders]))
    const agreed = [...all].filter((ordinal) => said.every((holders) => holders.has(ordinal)))
    if (agreed.length === 0) return []
    return [...all]
      .filter((ordinal) => !agreed.includes(ordinal))
      .map((ordinal) => ({
        shard,
        ordinal,
        through: said.findIndex((holders) => holders.has(ordinal)),
      }))
  })
}
