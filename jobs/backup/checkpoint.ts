/**
 * part.json in the folder of each node: while its snapshot is under way, all that is needed to clean
 * up after a pod that was killed; then, what was uploaded, so that it is not moved again.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { collectionKey, nodeCheckpointKey, snapshotKey } from '../../crds/contract/backup-keys.ts'
import {
  NodeSnapshot,
  type ManifestCollection,
  type NodeCollection,
  type ShardCollection,
} from '../../crds/contract/manifest.ts'
import { Timestamp } from '../../crds/schema.ts'
import { ordinals, recordUndeletedSnapshot, type RunContext } from './context.ts'
import { addSeal, hasValidSeal, isUploaded } from './objects.ts'

const common = {
  uid: Type.String(),
  /** Snapshots of one round were taken of one shape: one of an earlier round is never used again. */
  round: Type.Integer({ minimum: 1 }),
  /** Files on the node that may be of this backup: the pod that ends the Job names them in the status. */
  leftBehind: Type.Optional(Type.Array(Type.String())),
}

const Pending = Type.Object({
  ...common,
  state: Type.Literal('Pending'),
  /** When the engine was asked for the snapshot, by our clock. */
  at: Timestamp(),
  /** Snapshots the node had before: they are not ours. */
  existing: Type.Array(Type.String()),
  /** How many it had been asked for before, as it counts; absent where the engine does not. */
  creations: Type.Optional(Type.Object({ total: Type.Integer(), since: Type.String() })),
  /** The node said that it makes one for us. */
  isAccepted: Type.Optional(Type.Boolean()),
  /** Absent until the engine has told it. */
  snapshotName: Type.Optional(Type.String()),
})
export type Pending = Static<typeof Pending>

const Uploaded = Type.Object({
  ...common,
  state: Type.Literal('Whole'),
  /** Shape of the collection before and after the snapshot was taken. */
  fingerprint: Type.String(),
  snapshot: NodeSnapshot,
  /** The engine's file was made for us: a pod that was killed right now has not deleted it yet. */
  isOurs: Type.Optional(Type.Boolean()),
})
export type Uploaded = Static<typeof Uploaded>

/** The round before it did not end with the shape that it began with. */
const RoundStarted = Type.Object({ ...common, state: Type.Literal('Begun') })

const Checkpoint = Type.Union([Pending, Uploaded, RoundStarted])
export type Checkpoint = Static<typeof Checkpoint>

/** Snapshot of one node of one collection. */
export interface SnapshotRef {
  collection: string
  ordinal: number
}

export async function readCheckpoint(
  ref: SnapshotRef,
  context: RunContext,
): Promise<Checkpoint | undefined> {
  const key = checkpointKey(ref, context)
  const found = await context.bucket.getJson(key, context.tools.signal)
  if (found === undefined) return undefined
  if (
    Value.Check(Checkpoint, found) &&
    found.uid === context.plan.uid &&
    hasValidSeal(key, found, context)
  ) {
    for (const description of found.leftBehind ?? []) {
      recordUndeletedSnapshot(context, { ...ref, description })
    }
    return found
  }
  // Nothing is deleted on a node by it: whoever wrote it was no pod of this Job.
  context.tools.log.warn({ key }, 'part.json is not of this Job, and is replaced')
  return undefined
}

export async function writeCheckpoint(
  ref: SnapshotRef,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  const key = checkpointKey(ref, context)
  const leftBehind = context.undeletedSnapshots
    .filter(({ collection, ordinal }) => collection === ref.collection && ordinal === ref.ordinal)
    .map(({ description }) => description)
  const content = leftBehind.length === 0 ? checkpoint : { ...checkpoint, leftBehind }
  await context.bucket.putJson(key, addSeal(key, content, context), {
    signal: context.tools.signal,
  })
}

/** What pods before this one have left, by ordinal. */
export async function readCheckpoints(
  collection: string,
  context: RunContext,
): Promise<(Checkpoint | undefined)[]> {
  const checkpoints: (Checkpoint | undefined)[] = []
  for (const ordinal of ordinals(context))
    checkpoints.push(await readCheckpoint({ collection, ordinal }, context))
  return checkpoints
}

/** Removes what an attempt has left in the bucket: open uploads, and the object. */
export async function deleteStaleObject(
  ref: SnapshotRef,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  const { bucket, folder, tools } = context
  const name = snapshotNameIn(checkpoint)
  if (name === undefined) return
  const key = snapshotKey(folder, ref.collection, ref.ordinal, name)
  tools.log.info({ key }, 'removes what an earlier attempt left')
  // By the key itself: some stores list uploads of nothing shorter.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
  await bucket.delete([key], tools.signal)
}

function snapshotNameIn(checkpoint: Checkpoint): string | undefined {
  if (checkpoint.state === 'Begun') return undefined
  return checkpoint.state === 'Whole' ? checkpoint.snapshot.snapshotName : checkpoint.snapshotName
}

function checkpointKey({ collection, ordinal }: SnapshotRef, { folder }: RunContext): string {
  return nodeCheckpointKey(folder, collection, ordinal)
}

const CompletedFile = Type.Object({
  uid: Type.String(),
  collection: Type.Unknown(),
  /** Files on nodes that may be of this backup, by ordinal. */
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

/** By an earlier attempt; every object must still be there in its size. */
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
  tools.log.info({ collection: name }, `collection ${name} is in the bucket already`)
  return collection
}
