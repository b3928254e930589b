/** One collection: the snapshots of all its nodes, which must be of one shape. */
import { EngineError } from '../../crds/errors.ts'
import { NodeCollection, type NodeSnapshot } from '../../crds/manifest.ts'
import { countsBetween, readAfter, readBefore } from './counting.ts'
import { finish, finishedEarlier } from './finished.ts'
import { backUpNode } from './node.ts'
import { look, settledShape, type Shape } from './shape.ts'
import { refuseUnknown } from './source.ts'
import { ROUNDS, ordinals, type Work } from './work.ts'

export async function backUpCollection(name: string, work: Work): Promise<NodeCollection> {
  const finished = await finishedEarlier(NodeCollection, name, work)
  if (finished !== undefined) return finished
  await refuseUnknown(name, work)
  for (let round = 1; round <= ROUNDS; round += 1) {
    const shape = await settledShape(name, work)
    const before = await readBefore(name, shape.described, work)
    const snapshots: NodeSnapshot[] = []
    for (const ordinal of ordinals(work)) {
      snapshots.push(await backUpNode({ collection: name, ordinal }, shape, work))
    }
    if (await isStill(shape, name, work)) {
      const after = await readAfter(name, shape.described, work)
      const counts = countsBetween(shape.described, before, after)
      return finish({ name, snapshots, ...shape.described, ...counts }, work)
    }
    work.tools.log.warn({ collection: name, round }, 'changed under way: looks again')
  }
  throw new EngineError(
    `collection ${name}: its shards moved, or its vectors changed, ${ROUNDS} times while it was backed up`,
  )
}

/** A shard that moved between two snapshots may be in none of them. */
async function isStill({ fingerprint }: Shape, name: string, work: Work): Promise<boolean> {
  const now = await look(name, work)
  return typeof now !== 'string' && now.fingerprint === fingerprint
}
