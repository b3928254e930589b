/**
 * collection.json in the folder of each collection: the manifest entry of a collection that is
 * complete in the bucket, for the pod that replaces a killed one.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { collectionKey } from '../../crds/contract/backup-keys.ts'
import type {
  ManifestCollection,
  NodeCollection,
  ShardCollection,
} from '../../crds/contract/manifest.ts'
import { recordUndeletedSnapshot, type RunContext } from './context.ts'
import { addSeal, hasValidSeal, isUploaded } from './objects.ts'

const CompletedFile = Type.Object({
  uid: Type.String(),
  collection: Type.Unknown(),
  /** Files on nodes that may belong to this backup, by ordinal. */
  leftBehind: Type.Optional(
    Type.Array(Type.Object({ ordinal: Type.Integer(), description: Type.String() })),
  ),
})

export async function writeCompletedCollection<Collection extends ManifestCollection>(
  collection: Collection,
  context: RunContext,
): Promise<Collection> {
  const { bucket, folder, plan, tools } = context
  const key = collectionKey(folder, collection.name)
  const leftBehind = context.undeletedSnapshots
    .filter((file) => file.collection === collection.name)
    .map(({ ordinal, description }) => ({ ordinal, description }))
  const content = { uid: plan.uid, collection, ...(leftBehind.length > 0 && { leftBehind }) }
  const sealedContent = addSeal(key, content, context)
  await bucket.putJson(key, sealedContent, { signal: tools.signal })
  return collection
}

/**
 * A collection completed by an earlier attempt; every object must still exist with its recorded
 * size.
 */
export async function readCompletedCollection<
  Schema extends typeof NodeCollection | typeof ShardCollection,
>(schema: Schema, name: string, context: RunContext): Promise<Static<Schema> | undefined> {
  const { bucket, folder, plan, tools } = context
  const key = collectionKey(folder, name)
  const found = await bucket.getJson(key, tools.signal)
  if (!Value.Check(CompletedFile, found) || found.uid !== plan.uid) return undefined
  if (!hasValidSeal(key, found, context)) return undefined
  const { collection } = found
  if (!Value.Check(schema, collection)) return undefined
  for (const snapshot of collection.snapshots) {
    if (!(await isUploaded(snapshot, context))) return undefined
  }
  for (const file of found.leftBehind ?? [])
    recordUndeletedSnapshot(context, { collection: name, ...file })
  tools.log.info({ collection: name }, `collection ${name} is already in the bucket`)
  return collection
}
