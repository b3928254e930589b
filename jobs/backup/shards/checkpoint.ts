/**
 * checkpoint.json in the folder of each shard: while the shard is streamed it holds the key of the
 * object, to clean up after a pod that was killed; afterwards it records what was streamed, so that
 * it is not streamed again.
 */
import { randomBytes } from 'node:crypto'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  isWrittenByBackup,
  shardCheckpointKey,
  shardFolderPrefix,
  shardSnapshotKey,
} from '../../../crds/contract/backup-keys.ts'
import { ShardSnapshot } from '../../../crds/contract/manifest.ts'
import type { RunContext } from '../context.ts'
import { addSeal, hasValidSeal, isUploaded, readCheckpointFile } from '../objects.ts'

const Streaming = Type.Object({
  uid: Type.String(),
  state: Type.Literal('Streaming'),
  key: Type.String({ minLength: 1 }),
})

const Uploaded = Type.Object({
  uid: Type.String(),
  state: Type.Literal('Whole'),
  /**
   * Identity of the shard when it was streamed: the same number may refer to another shard by now.
   */
  fingerprint: Type.String(),
  snapshot: ShardSnapshot,
})

const ShardCheckpoint = Type.Union([Streaming, Uploaded])
type ShardCheckpoint = Static<typeof ShardCheckpoint>

/** One shard of one collection. */
export interface ShardRef {
  collection: string
  shardId: number
}

/** Uploaded by an earlier attempt, or before the topology of the collection changed. */
export async function readUploaded(
  ref: ShardRef,
  fingerprint: string,
  context: RunContext,
): Promise<ShardSnapshot | undefined> {
  const found = await readCheckpoint(ref, context)
  if (found?.state !== 'Whole' || found.fingerprint !== fingerprint) return undefined
  return (await isUploaded(found.snapshot, context)) ? found.snapshot : undefined
}

export async function markUploaded(
  ref: ShardRef,
  { fingerprint, snapshot }: { fingerprint: string; snapshot: ShardSnapshot },
  context: RunContext,
): Promise<void> {
  await writeCheckpoint(
    ref,
    { uid: context.plan.uid, state: 'Whole', fingerprint, snapshot },
    context,
  )
}

/**
 * Returns the key of the object. Runs before the first byte: uploads that an earlier attempt has left open cost money
 * until they are aborted, and its object is not the one that the manifest will name.
 */
export async function prepareUpload(ref: ShardRef, context: RunContext): Promise<string> {
  const previous = await readCheckpoint(ref, context)
  if (previous !== undefined) {
    const oldKey = previous.state === 'Whole' ? previous.snapshot.key : previous.key
    await abortStaleUploads(oldKey, context)
    await context.bucket.delete([oldKey], context.tools.signal)
  }
  const attempt = randomBytes(4).toString('hex')
  const key = shardSnapshotKey(context.folder, { ...ref, attempt })
  await writeCheckpoint(ref, { uid: context.plan.uid, state: 'Streaming', key }, context)
  return key
}

async function abortStaleUploads(key: string, { bucket, tools }: RunContext): Promise<void> {
  // List by the full key: some stores do not list uploads by a shorter prefix.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
}

async function readCheckpoint(
  ref: ShardRef,
  context: RunContext,
): Promise<ShardCheckpoint | undefined> {
  const { key, found } = await readCheckpointFile(checkpointKey(ref, context), context)
  // Invalid content was not written by this Job; overwrite it.
  if (!Value.Check(ShardCheckpoint, found) || found.uid !== context.plan.uid) return undefined
  return hasValidSeal(key, found, context) ? found : undefined
}

async function writeCheckpoint(
  ref: ShardRef,
  checkpoint: ShardCheckpoint,
  context: RunContext,
): Promise<void> {
  const key = checkpointKey(ref, context)
  await context.bucket.putJson(key, addSeal(key, checkpoint, context), {
    signal: context.tools.signal,
  })
}

function checkpointKey({ collection, shardId }: ShardRef, { folder }: RunContext): string {
  return shardCheckpointKey(folder, collection, shardId)
}

/**
 * Removes objects of shards that are no longer in the collection, and objects of other pods. Objects
 * that no backup writes stay: others may have write access to the bucket.
 */
export async function deleteStaleObjects(
  collection: string,
  snapshots: { shardId: number; key: string }[],
  { bucket, folder, tools }: RunContext,
): Promise<void> {
  const expectedKeys = new Set(
    snapshots.flatMap(({ shardId, key }) => [shardCheckpointKey(folder, collection, shardId), key]),
  )
  const staleKeys: string[] = []
  for await (const { key } of bucket.listAll(shardFolderPrefix(folder, collection), tools.signal)) {
    if (isWrittenByBackup(folder, key) && !expectedKeys.has(key)) staleKeys.push(key)
  }
  await bucket.delete(staleKeys, tools.signal)
}
