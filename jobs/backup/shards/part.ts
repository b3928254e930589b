/**
 * part.json in the folder of each shard: it is whole in the bucket, and this is what was streamed. There
 * is nothing to clean up on a node, so nothing is written before that.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { shardFolders, shardPartKey, shardSnapshotKey } from '../../../crds/layout.ts'
import { ShardSnapshot } from '../../../crds/manifest.ts'
import { isThere } from '../object.ts'
import type { Work } from '../work.ts'

const Whole = Type.Object({
  uid: Type.String(),
  /** What the shard was when it was streamed: the same number may be another shard by now. */
  fingerprint: Type.String(),
  snapshot: ShardSnapshot,
})
type Whole = Static<typeof Whole>

/** One shard of one collection. */
export interface ShardPlace {
  collection: string
  shardId: number
}

/** By an earlier attempt, or before the shape of the collection changed. */
export async function wholeEarlier(
  { collection, shardId }: ShardPlace,
  fingerprint: string,
  work: Work,
): Promise<ShardSnapshot | undefined> {
  const { bucket, folder, plan, tools } = work
  const found = await bucket.getJson(shardPartKey(folder, collection, shardId), tools.signal)
  // What does not read was not written by this release, and is written anew.
  if (!Value.Check(Whole, found)) return undefined
  if (found.uid !== plan.uid || found.fingerprint !== fingerprint) return undefined
  return (await isThere(found.snapshot, work)) ? found.snapshot : undefined
}

export async function writeWhole(
  { collection, shardId }: ShardPlace,
  whole: Omit<Whole, 'uid'>,
  { bucket, folder, plan, tools }: Work,
): Promise<void> {
  const key = shardPartKey(folder, collection, shardId)
  await bucket.putJson(key, { uid: plan.uid, ...whole }, { signal: tools.signal })
}

/** Uploads that a pod which was killed has left open cost money until they are aborted. */
export async function abortLeftovers(
  { collection, shardId }: ShardPlace,
  { bucket, folder, tools }: Work,
): Promise<void> {
  const key = shardSnapshotKey(folder, collection, shardId)
  // By the key itself: some stores list uploads of nothing shorter.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
}

/** Removes what was streamed of shards that are not in the collection any more. */
export async function removeStrays(
  collection: string,
  shards: { shardId: number }[],
  { bucket, folder, tools }: Work,
): Promise<void> {
  const ours = shards.flatMap(({ shardId }) => [
    shardPartKey(folder, collection, shardId),
    shardSnapshotKey(folder, collection, shardId),
  ])
  const known = new Set(ours)
  const strays: string[] = []
  for await (const { key } of bucket.each(shardFolders(folder, collection), tools.signal)) {
    if (!known.has(key)) strays.push(key)
  }
  await bucket.delete(strays, tools.signal)
}
