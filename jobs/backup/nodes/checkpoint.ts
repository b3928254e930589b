/**
 * checkpoint.json in the folder of each node: while the node's snapshot is in progress it holds
 * everything needed to clean up after a pod that was killed; afterwards it records what was
 * uploaded, so that it is not transferred again.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { nodeCheckpointKey, snapshotKey } from '../../../crds/contract/backup-keys.ts'
import { NodeSnapshot } from '../../../crds/contract/manifest.ts'
import { Timestamp } from '../../../crds/schema.ts'
import { ordinals, recordUndeletedSnapshot, type RunContext } from '../context.ts'
import { addSeal, hasValidSeal, readCheckpointFile } from '../objects.ts'

const common = {
  uid: Type.String(),
  /**
   * All snapshots of one round have the same topology; a snapshot of an earlier round is never
   * reused.
   */
  round: Type.Integer({ minimum: 1 }),
  /**
   * Files on the node that may belong to this backup. The pod that finishes the Job lists them in
   * the status.
   */
  leftBehind: Type.Optional(Type.Array(Type.String())),
}

const Pending = Type.Object({
  ...common,
  state: Type.Literal('Pending'),
  /** When the snapshot was requested, by the clock of the Job. */
  at: Timestamp(),
  /** Snapshots that the node had before; they do not belong to this backup. */
  existing: Type.Array(Type.String()),
  /**
   * The engine's own count of earlier snapshot requests; absent if the engine does not count them.
   */
  creations: Type.Optional(Type.Object({ total: Type.Integer(), since: Type.String() })),
  /** The node confirmed that it is creating a snapshot for this backup. */
  isAccepted: Type.Optional(Type.Boolean()),
  /** Absent until the engine has reported it. */
  snapshotName: Type.Optional(Type.String()),
})
export type Pending = Static<typeof Pending>

const Uploaded = Type.Object({
  ...common,
  state: Type.Literal('Whole'),
  /** Topology of the collection before and after the snapshot. */
  fingerprint: Type.String(),
  snapshot: NodeSnapshot,
  /**
   * The engine created the file for this backup; a pod that was just killed has not deleted it yet.
   */
  isOurs: Type.Optional(Type.Boolean()),
})
export type Uploaded = Static<typeof Uploaded>

/** The previous round ended with a topology other than the one it started with. */
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
  const { key, found } = await readCheckpointFile(checkpointKey(ref, context), context)
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
  // Delete nothing on a node because of this file: it was not written by a pod of this Job.
  context.tools.log.warn({ key }, 'checkpoint belongs to another Job and is replaced')
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

/** What earlier pods have left, by ordinal. */
export async function readCheckpoints(
  collection: string,
  context: RunContext,
): Promise<(Checkpoint | undefined)[]> {
  const checkpoints: (Checkpoint | undefined)[] = []
  for (const ordinal of ordinals(context))
    checkpoints.push(await readCheckpoint({ collection, ordinal }, context))
  return checkpoints
}

/** Removes what an attempt has left in the bucket: open uploads and the object. */
export async function deleteStaleObject(
  ref: SnapshotRef,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  const { bucket, folder, tools } = context
  const name = snapshotNameIn(checkpoint)
  if (name === undefined) return
  const key = snapshotKey(folder, ref.collection, ref.ordinal, name)
  tools.log.info({ key }, 'deleting the leftovers of an earlier attempt')
  // List by the full key: some stores do not list uploads by a shorter prefix.
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
