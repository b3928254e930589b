/** One collection by shard: each of its shards once, wherever it is while the backup runs. */
import { isDeepStrictEqual } from 'node:util'
import { EngineError } from '../../../crds/errors.ts'
import { ShardCollection } from '../../../crds/manifest.ts'
import { patiently } from '../../patience.ts'
import { countsBetween, readAfter, readBefore, without } from '../counting.ts'
import { finish, finishedEarlier } from '../finished.ts'
import { identityOf, oneUuid, settledShape, shardPrint, type Shape } from '../shape.ts'
import { oneVersion, refuseUnknown } from '../source.ts'
import { ROUNDS, engineOn, snapshotsOn, type Work } from '../work.ts'
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
    const { snapshots, earlier } = await takeShards(name, shape, work)
    if (snapshots.length === shape.shards.length && (await isSame(shape, name, work))) {
      await removeStrays(name, snapshots, work)
      const after = await readAfter(name, shape.described, work)
      const counts = countsBetween(shape.described, without(before, earlier), after)
      return finish({ name, ...describedBy(shape), ...counts, snapshots }, work)
    }
    work.tools.log.warn({ collection: name, round }, 'changed under way: looks again')
  }
  throw new EngineError(
    `collection ${name}: it was created again, or its shards, its configuration or the engine’s version changed ${ROUNDS} times while it was backed up`,
  )
}

/**
 * Where a shard is does not matter: only which ones there are, that the collection is the same one, and
 * what is in its segments.
 */
async function isSame(shape: Shape, name: string, work: Work): Promise<boolean> {
  // A node that was seen may be gone when it is asked: then the others are looked at again.
  const { sight, identity } = await patiently(work, async () => {
    const sight = await sightOf(name, work)
    return { sight, identity: await identityNow(name, [...sight.keys()], work) }
  })
  const then = shape.shards.map((shard) => shardPrint(shard, shape))
  const is = shardsIn(sight).map((shard) => shardPrint(shard, { identity }))
  return isDeepStrictEqual(then.sort(), is.sort())
}

/** As every node that answers sees the collection; they may run different versions for a while. */
async function identityNow(name: string, nodes: number[], work: Work): Promise<string> {
  const { signal } = work.tools
  const views = await Promise.all(
    nodes.map(async (node) => {
      const { uuid } = await snapshotsOn(work, node).identity(name, signal)
      return { node, uuid, version: await engineOn(work, node).version(signal) }
    }),
  )
  const collection = await snapshotsOn(work, nodes[0] ?? 0).collection(name, signal)
  return identityOf(collection, { uuid: oneUuid(views), version: oneVersion(views) })
}

function describedBy({ described }: Shape) {
  const { replication_factor: factor } = described.config.params
  return { ...described, replicationFactor: typeof factor === 'number' ? factor : 1 }
}
