/** collection.json: the collection is whole in the bucket, and is this in the manifest. */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { collectionKey } from '../../crds/layout.ts'
import type { ManifestCollection, NodeCollection, ShardCollection } from '../../crds/manifest.ts'
import { isThere } from './object.ts'
import { isSealed, sealed } from './seal.ts'
import { recordLeftBehind, type Work } from './work.ts'

const Finished = Type.Object({
  uid: Type.String(),
  collection: Type.Unknown(),
  /** Files on nodes that may be of this backup, by ordinal. */
  leftBehind: Type.Optional(
    Type.Array(Type.Object({ ordinal: Type.Integer(), description: Type.String() })),
  ),
})

export async function finish<Collection extends ManifestCollection>(
  collection: Collection,
  work: Work,
): Promise<Collection> {
  const { bucket, folder, plan, tools } = work
  const key = collectionKey(folder, collection.name)
  const leftBehind = work.leftBehind
    .filter((file) => file.collection === collection.name)
    .map(({ ordinal, description }) => ({ ordinal, description }))
  const content = { uid: plan.uid, collection, ...(leftBehind.length > 0 && { leftBehind }) }
  const finished = sealed(key, content, work)
  await bucket.putJson(key, finished, { signal: tools.signal })
  return collection
}

/** By an earlier attempt; every object must still be there in its size. */
export async function finishedEarlier<
  Schema extends typeof NodeCollection | typeof ShardCollection,
>(schema: Schema, name: string, work: Work): Promise<Static<Schema> | undefined> {
  const { bucket, folder, plan, tools } = work
  const key = collectionKey(folder, name)
  const found = await bucket.getJson(key, tools.signal)
  if (!Value.Check(Finished, found) || found.uid !== plan.uid) return undefined
  if (!isSealed(key, found, work)) return undefined
  const { collection } = found
  if (!Value.Check(schema, collection)) return undefined
  for (const snapshot of collection.snapshots) {
    if (!(await isThere(snapshot, work))) return undefined
  }
  for (const file of found.leftBehind ?? []) recordLeftBehind(work, { collection: name, ...file })
  tools.log.info({ collection: name }, `collection ${name} is in the bucket already`)
  return collection
}
