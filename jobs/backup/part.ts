/**
 * part.json in the folder of each node: while its snapshot is under way, all that is needed to clean
 * up after a pod that was killed; then, what was uploaded, so that it is not moved again.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { partKey, snapshotKey } from '../../crds/layout.ts'
import { NodeSnapshot } from '../../crds/manifest.ts'
import { Time } from '../../crds/schema.ts'
import { isSealed, sealed } from './seal.ts'
import { ordinals, recordLeftBehind, type Work } from './work.ts'

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
  at: Time(),
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

const Whole = Type.Object({
  ...common,
  state: Type.Literal('Whole'),
  /** Shape of the collection before and after the snapshot was taken. */
  fingerprint: Type.String(),
  snapshot: NodeSnapshot,
  /** The engine's file was made for us: a pod that was killed right now has not deleted it yet. */
  isOurs: Type.Optional(Type.Boolean()),
})
export type Whole = Static<typeof Whole>

/** The round before it did not end with the shape that it began with. */
const Begun = Type.Object({ ...common, state: Type.Literal('Begun') })

const Part = Type.Union([Pending, Whole, Begun])
export type Part = Static<typeof Part>

/** Snapshot of one node of one collection. */
export interface Place {
  collection: string
  ordinal: number
}

export async function readPart(place: Place, work: Work): Promise<Part | undefined> {
  const key = keyOf(place, work)
  const found = await work.bucket.getJson(key, work.tools.signal)
  if (found === undefined) return undefined
  if (Value.Check(Part, found) && found.uid === work.plan.uid && isSealed(key, found, work)) {
    for (const description of found.leftBehind ?? []) {
      recordLeftBehind(work, { ...place, description })
    }
    return found
  }
  // Nothing is deleted on a node by it: whoever wrote it was no pod of this Job.
  work.tools.log.warn({ key }, 'part.json is not of this Job, and is replaced')
  return undefined
}

export async function writePart(place: Place, part: Part, work: Work): Promise<void> {
  const key = keyOf(place, work)
  const leftBehind = work.leftBehind
    .filter(
      ({ collection, ordinal }) => collection === place.collection && ordinal === place.ordinal,
    )
    .map(({ description }) => description)
  const content = leftBehind.length === 0 ? part : { ...part, leftBehind }
  await work.bucket.putJson(key, sealed(key, content, work), { signal: work.tools.signal })
}

/** What pods before this one have left, by ordinal. */
export async function readParts(collection: string, work: Work): Promise<(Part | undefined)[]> {
  const parts: (Part | undefined)[] = []
  for (const ordinal of ordinals(work)) parts.push(await readPart({ collection, ordinal }, work))
  return parts
}

/** Removes what an attempt has left in the bucket: open uploads, and the object. */
export async function removeObject(place: Place, part: Part, work: Work): Promise<void> {
  const { bucket, folder, tools } = work
  const name = nameIn(part)
  if (name === undefined) return
  const key = snapshotKey(folder, place.collection, place.ordinal, name)
  tools.log.info({ key }, 'removes what an earlier attempt left')
  // By the key itself: some stores list uploads of nothing shorter.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
  await bucket.delete([key], tools.signal)
}

function nameIn(part: Part): string | undefined {
  if (part.state === 'Begun') return undefined
  return part.state === 'Whole' ? part.snapshot.snapshotName : part.snapshotName
}

function keyOf({ collection, ordinal }: Place, { folder }: Work): string {
  return partKey(folder, collection, ordinal)
}
