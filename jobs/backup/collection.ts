/** One collection: the snapshots of all its nodes, which must be of one shape. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { EngineError } from '../../crds/errors.ts'
import { collectionKey } from '../../crds/layout.ts'
import { ManifestCollection, type ManifestSnapshot } from '../../crds/manifest.ts'
import { backUpNode } from './node.ts'
import { isThere } from './part.ts'
import { look, settledShape, type Shape } from './shape.ts'
import { refuseUnknown } from './source.ts'
import { ordinals, snapshotsOn, type Work } from './work.ts'

/** collection.json: the collection is whole in the bucket, and is this in the manifest. */
const Finished = Type.Object({ uid: Type.String(), collection: ManifestCollection })

/** Shards that move under way are followed so often. */
const ROUNDS = 3

export async function backUpCollection(name: string, work: Work): Promise<ManifestCollection> {
  const finished = await finishedEarlier(name, work)
  if (finished !== undefined) return finished
  await refuseUnknown(name, work)
  for (let round = 1; round <= ROUNDS; round += 1) {
    const shape = await settledShape(name, work)
    const before = await countOf(name, work)
    const snapshots: ManifestSnapshot[] = []
    for (const ordinal of ordinals(work)) {
      snapshots.push(await backUpNode({ collection: name, ordinal }, shape, work))
    }
    if (await isStill(shape, name, work)) {
      const count = await countOf(name, work)
      // Written to meanwhile, it has no one number: the snapshots are of several moments.
      const exact = count !== undefined && count === before && { exactPointsCount: count }
      return finish({ name, snapshots, ...shape.described, ...exact }, work)
    }
    work.tools.log.warn({ collection: name, round }, 'changed under way: looks again')
  }
  throw new EngineError(
    `collection ${name}: its shards moved, or its vectors changed, ${ROUNDS} times while it was backed up`,
  )
}

/** Undefined where the engine cannot tell: a restore compares what there is to compare. */
async function countOf(name: string, work: Work): Promise<number | undefined> {
  try {
    return await snapshotsOn(work, 0).exactCount(name, work.tools.signal)
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    work.tools.log.warn({ collection: name, reason: error.message }, 'points are not counted')
    return undefined
  }
}

/** A shard that moved between two snapshots may be in none of them. */
async function isStill({ fingerprint }: Shape, name: string, work: Work): Promise<boolean> {
  const now = await look(name, work)
  return typeof now !== 'string' && now.fingerprint === fingerprint
}

async function finish(collection: ManifestCollection, work: Work): Promise<ManifestCollection> {
  const { bucket, folder, plan, tools } = work
  const finished = { uid: plan.uid, collection }
  await bucket.putJson(collectionKey(folder, collection.name), finished, { signal: tools.signal })
  return collection
}

/** By an earlier attempt; every object must still be there in its size. */
async function finishedEarlier(name: string, work: Work): Promise<ManifestCollection | undefined> {
  const { bucket, folder, plan, tools } = work
  const found = await bucket.getJson(collectionKey(folder, name), tools.signal)
  if (!Value.Check(Finished, found) || found.uid !== plan.uid) return undefined
  for (const snapshot of found.collection.snapshots) {
    if (!(await isThere(snapshot, work))) return undefined
  }
  tools.log.info({ collection: name }, `collection ${name} is in the bucket already`)
  return found.collection
}
