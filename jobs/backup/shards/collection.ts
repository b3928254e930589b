/** One collection by shard: each of its shards once, wherever it is while the backup runs. */
import { isDeepStrictEqual } from 'node:util'
import { EngineError } from '../../../crds/errors.ts'
import { ShardCollection } from '../../../crds/manifest.ts'
import { patiently } from '../../patience.ts'
import { countsBetween, readAfter, readBefore } from '../counting.ts'
import { finish, finishedEarlier } from '../finished.ts'
import { settledShape, shardPrint, type Shape } from '../shape.ts'
import { refuseUnknown } from '../source.ts'
import { ROUNDS, snapshotsOn, type Work } from '../work.ts'
import { removeStrays } from './part.ts'
import { shardsIn, sightOf } from './sight.ts'
import { takeShards } from './take.ts'

export async function backUpByShard(name: string, work: Work): Promise<ShardCollection> {
  const finished = await finishedEarlier(ShardCollection, name, work)
  if (finished !== undefined) return finished
  await refuseUnknown(name, work)
  for (let round = 1; round <= ROUNDS; round += 1) {
    const shape = await settledShape(name, work)
    work.tally.follows(shape.shards.length)
    const before = await readBefore(name, shape.described, work)
    const snapshots = await takeShards(name, shape, work)
    if (snapshots.length === shape.shards.length && (await isSame(shape, name, work))) {
      await removeStrays(name, shape.shards, work)
      const after = await readAfter(name, shape.described, work)
      const counts = countsBetween(shape.described, before, after)
      return finish({ name, ...describedBy(shape), ...counts, snapshots }, work)
    }
    work.tools.log.warn({ collection: name, round }, 'changed under way: looks again')
  }
  throw new EngineError(
    `collection ${name}: its shards, or its vectors, changed ${ROUNDS} times while it was backed up`,
  )
}

/** Where a shard is does not matter: only which ones there are, and what fits into them. */
async function isSame(shape: Shape, name: string, work: Work): Promise<boolean> {
  // The node that was seen may be gone when it is asked: then another one is looked for.
  const { sight, now } = await patiently(work, async () => {
    const sight = await sightOf(name, work)
    const [node = 0] = sight.keys()
    return { sight, now: await snapshotsOn(work, node).collection(name, work.tools.signal) }
  })
  const then = shape.shards.map((shard) => shardPrint(shard, shape.described))
  const is = shardsIn(sight).map((shard) => shardPrint(shard, now))
  return isDeepStrictEqual(then.sort(), is.sort())
}

function describedBy({ described }: Shape) {
  const { replication_factor: factor } = described.config.params
  return { ...described, replicationFactor: typeof factor === 'number' ? factor : 1 }
}
