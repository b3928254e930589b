/**
 * part.json in the folder of each node: while its snapshot is under way, all that is needed to clean
 * up after a pod that was killed; then, what was uploaded, so that it is not moved again.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { EngineError } from '../../crds/errors.ts'
import { partKey, snapshotKey } from '../../crds/layout.ts'
import { NodeSnapshot } from '../../crds/manifest.ts'
import { Time } from '../../crds/schema.ts'
import type { EngineSnapshots } from '../clients/engine-snapshots.ts'
import { snapshotsOn, type Work } from './work.ts'

const Pending = Type.Object({
  state: Type.Literal('Pending'),
  uid: Type.String(),
  /** When the engine was asked for the snapshot, by our clock. */
  at: Time(),
  /** Snapshots the node had before: they are not ours. */
  existing: Type.Array(Type.String()),
  /** Absent until the engine has told it. */
  snapshotName: Type.Optional(Type.String()),
})
export type Pending = Static<typeof Pending>

const Whole = Type.Object({
  state: Type.Literal('Whole'),
  uid: Type.String(),
  /** Shape of the collection when the snapshot was taken. */
  fingerprint: Type.String(),
  snapshot: NodeSnapshot,
  /** The engine's file was made for us: a pod that was killed right now has not deleted it yet. */
  isOurs: Type.Optional(Type.Boolean()),
})
export type Whole = Static<typeof Whole>

const Part = Type.Union([Pending, Whole])
export type Part = Static<typeof Part>

/** Snapshot of one node of one collection. */
export interface Place {
  collection: string
  ordinal: number
}

const CLEAN_UP_MS = 20_000
const DELETE_ATTEMPTS = 3
const DELETE_RETRY_MS = 2_000
/** Clocks of pods differ a little, and a snapshot waits for its turn. */
const SAME_TIME_MS = 300_000

export async function readPart(place: Place, work: Work): Promise<Part | undefined> {
  const found = await work.bucket.getJson(keyOf(place, work), work.tools.signal)
  // What does not read was not written by this release, and is written anew.
  return Value.Check(Part, found) && found.uid === work.plan.uid ? found : undefined
}

export async function writePart(place: Place, part: Part, work: Work): Promise<void> {
  await work.bucket.putJson(keyOf(place, work), part, { signal: work.tools.signal })
}

/** Removes what an attempt that was killed has left: uploads, objects, and files of the engine. */
export async function removeLeftovers(place: Place, part: Part, work: Work): Promise<void> {
  const { bucket, folder, tools } = work
  const { collection, ordinal } = place
  const name = part.state === 'Whole' ? part.snapshot.snapshotName : part.snapshotName
  await removeFiles(place, part, work)
  if (name === undefined) return
  const key = snapshotKey(folder, collection, ordinal, name)
  tools.log.info({ key }, 'removes what an earlier attempt left')
  // By the key itself: some stores list uploads of nothing shorter.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
  await bucket.delete([key], tools.signal)
}

/**
 * The engine goes on with a snapshot when nobody waits for it any more. Without its name, it is the
 * first that was not there before, if it was begun when we asked; what else came since is a person's.
 */
export async function removeFiles(place: Place, part: Part, work: Work): Promise<void> {
  const engine = snapshotsOn(work, place.ordinal)
  const { collection } = place
  if (part.state === 'Whole') {
    const { snapshotName: name } = part.snapshot
    if (part.isOurs === true) await deleteFile(engine, { ...place, name }, work)
    return
  }
  if (part.snapshotName !== undefined) {
    if (part.existing.includes(part.snapshotName)) return
    await deleteFile(engine, { ...place, name: part.snapshotName }, work)
    return
  }
  const names = (await engine.list(collection, work.tools.signal)).map(({ name }) => name)
  const [ours] = names
    .filter((name) => !part.existing.includes(name) && isOfTime(name, Date.parse(part.at)))
    .sort()
  if (ours !== undefined) await deleteFile(engine, { ...place, name: ours }, work)
}

/** `<collection>-<peer>-<YYYY-MM-DD-HH-MM-SS>.snapshot` */
function isOfTime(name: string, at: number): boolean {
  const found = /-(\d{4}-\d\d-\d\d)-(\d\d)-(\d\d)-(\d\d)\.snapshot$/.exec(name)
  if (found === null) return false
  const [, date = '', hours = '', minutes = '', seconds = ''] = found
  const begun = Date.parse(`${date}T${hours}:${minutes}:${seconds}Z`)
  return Math.abs(begun - at) <= SAME_TIME_MS
}

/**
 * Deletes a file of the engine, whatever has happened: it fills the node's disk until it is gone. A
 * node that cannot be asked keeps it, and that is told at the end.
 */
export async function deleteFile(
  engine: EngineSnapshots,
  { collection, ordinal, name }: Place & { name: string },
  { tools, leftBehind }: Work,
): Promise<void> {
  // Not the signal of the Job: this is what is still done when it aborts.
  const limit = AbortSignal.timeout(CLEAN_UP_MS)
  for (let attempt = 1; ; attempt += 1) {
    try {
      await engine.delete(collection, name, limit)
      tools.log.info({ collection, node: ordinal, snapshot: name }, 'deleted the engine’s file')
      return
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return
      if (attempt < DELETE_ATTEMPTS && !limit.aborted) {
        await tools.time.sleep(DELETE_RETRY_MS)
        continue
      }
      const reason = error instanceof Error ? error.message : String(error)
      tools.log.warn({ collection, node: ordinal, snapshot: name, reason }, 'file not deleted')
      leftBehind.push(`${name} on node ${ordinal}`)
      return
    }
  }
}

function keyOf({ collection, ordinal }: Place, { folder }: Work): string {
  return partKey(folder, collection, ordinal)
}
