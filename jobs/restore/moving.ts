/** Shards on their way between nodes: started, awaited, and started again where one did not arrive. */
import { EngineError } from '../../crds/errors.ts'
import { isPassing } from '../patience.ts'
import { settled } from './settled.ts'
import { firstCopies, type Copies, type Sight } from './sight.ts'
import type { Work } from './work.ts'

/** A copy that fails on its way is started again. */
const ROUNDS = 3

export interface Arrangement {
  /** The first thing that is not as it should be. */
  lacking: (copies: Copies) => string | undefined
  /** Starts all that is missing. */
  start: (sight: Sight) => Promise<void>
}

/** Until nothing is lacking, and all nodes agree on that. */
export async function arranged(
  name: string,
  { lacking, start }: Arrangement,
  work: Work,
): Promise<void> {
  for (let round = 1; ; round += 1) {
    const sight = await settled(name, work)
    if (lacking(firstCopies(sight)) === undefined) return
    await start(sight)
    try {
      await settled(name, work, lacking)
      return
    } catch (error) {
      if (!isPassing(error) || round === ROUNDS) throw error
      work.tools.log.warn({ collection: name, round, reason: error.message }, 'copies again')
    }
  }
}

/** What does not start may be on its way already, or is started in the next round. */
export async function tryToStart(
  { collection, shard }: { collection: string; shard: number },
  call: () => Promise<void>,
  { tools }: Pick<Work, 'tools'>,
): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    tools.log.info({ collection, shard, reason: error.message }, 'copy not started')
  }
}
