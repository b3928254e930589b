/**
 * part.json in the folder of each shard: while it is streamed, the key of the object, to clean up after a
 * pod that was killed; then, what was streamed, so that it is not streamed again.
 */
import { createHash } from 'node:crypto'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { shardFolders, shardPartKey, shardSnapshotKey } from '../../../crds/layout.ts'
import { ShardSnapshot } from '../../../crds/manifest.ts'
import { isThere } from '../object.ts'
import { isSealed, sealed } from '../seal.ts'
import type { Work } from '../work.ts'

const Streaming = Type.Object({
  uid: Type.String(),
  state: Type.Literal('Streaming'),
  key: Type.String({ minLength: 1 }),
})

const Whole = Type.Object({
  uid: Type.String(),
  state: Type.Literal('Whole'),
  /** What the shard was when it was streamed: the same number may be another shard by now. */
  fingerprint: Type.String(),
  snapshot: ShardSnapshot,
})

const Part = Type.Union([Streaming, Whole])
type Part = Static<typeof Part>

/** One shard of one collection. */
export interface ShardPlace {
  collection: string
  shardId: number
}

/** Where this pod writes the shard. */
export function ownKey({ collection, shardId }: ShardPlace, { folder, tools }: Work): string {
  const writer = createHash('sha256').update(tools.runner).digest('hex').slice(0, 8)
  return shardSnapshotKey(folder, { collection, shardId, writer })
}

/** By an earlier attempt, or before the shape of the collection changed. */
export async function wholeEarlier(
  place: ShardPlace,
  fingerprint: string,
  work: Work,
): Promise<ShardSnapshot | undefined> {
  const found = await readPart(place, work)
  if (found?.state !== 'Whole' || found.fingerprint !== fingerprint) return undefined
  return (await isThere(found.snapshot, work)) ? found.snapshot : undefined
}

export async function writeWhole(
  place: ShardPlace,
  { fingerprint, snapshot }: { fingerprint: string; snapshot: ShardSnapshot },
  work: Work,
): Promise<void> {
  await writePart(place, { uid: work.plan.uid, state: 'Whole', fingerprint, snapshot }, work)
}

/**
 * Before the first byte. Uploads that a pod which was killed has left open cost money until they are
 * aborted, and its object is not the one that the manifest will name.
 */
export async function beginStream(place: ShardPlace, work: Work): Promise<string> {
  const key = ownKey(place, work)
  const left = await readPart(place, work)
  const keys = new Set([key])
  if (left !== undefined) keys.add(left.state === 'Whole' ? left.snapshot.key : left.key)
  for (const one of keys) await abortUploads(one, work)
  await work.bucket.delete([...keys], work.tools.signal)
  await writePart(place, { uid: work.plan.uid, state: 'Streaming', key }, work)
  return key
}

async function abortUploads(key: string, { bucket, tools }: Work): Promise<void> {
  // By the key itself: some stores list uploads of nothing shorter.
  for (const upload of await bucket.openUploads(key, tools.signal)) {
    if (upload.key === key) await bucket.abortUpload(upload, tools.signal)
  }
}

async function readPart(place: ShardPlace, work: Work): Promise<Part | undefined> {
  const { bucket, plan, tools } = work
  const key = partKeyOf(place, work)
  const found = await bucket.getJson(key, tools.signal)
  // What does not read was not written by this Job, and is written anew.
  if (!Value.Check(Part, found) || found.uid !== plan.uid) return undefined
  return isSealed(key, found, work) ? found : undefined
}

async function writePart(place: ShardPlace, part: Part, work: Work): Promise<void> {
  const key = partKeyOf(place, work)
  await work.bucket.putJson(key, sealed(key, part, work), { signal: work.tools.signal })
}

function partKeyOf({ collection, shardId }: ShardPlace, { folder }: Work): string {
  return shardPartKey(folder, collection, shardId)
}

/** Removes what was streamed of shards that are not in the collection any more, or by other pods. */
export async function removeStrays(
  collection: string,
  snapshots: { shardId: number; key: string }[],
  { bucket, folder, tools }: Work,
): Promise<void> {
  const known = new Set(
    snapshots.flatMap(({ shardId, key }) => [shardPartKey(folder, collection, shardId), key]),
  )
  const strays: string[] = []
  for await (const { key } of bucket.each(shardFolders(folder, collection), tools.signal)) {
    if (!known.has(key)) strays.push(key)
  }
  await bucket.delete(strays, tools.signal)
}
