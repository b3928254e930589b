/**
 * Deletes a backup's objects, so many at a call, and goes on at the next one. Only under the uid that
 * owns the folder, and owner.json last: what is half deleted still has its owner.
 */
import { StorageError } from '../../crds/errors.ts'
import { backupFolder, ownerKey } from '../../crds/layout.ts'
import { DELETE_BATCH_KEYS } from '../../crds/limits.ts'
import type { Bucket } from '../clients/s3.ts'
import { ownerOf } from './owner.ts'

export interface PurgeTarget {
  prefix: string
  name: string
  uid: string
}

export interface PurgeResult {
  /** Nothing of this backup is left there. */
  done: boolean
  /** Objects deleted by this call. */
  deleted: number
  /** While it is not done. */
  left?: ObjectCount
}

export interface ObjectCount {
  count: number
  /** There are more, which were not counted. */
  isLeast: boolean
}

export interface PurgeOptions {
  signal?: AbortSignal
  /** Keys a call deletes at most. */
  maxKeys?: number
  /** What the call before this one left: then there is no need to count again. */
  left?: ObjectCount | undefined
}

/** A thousand objects each: more are not counted at a time. */
const COUNTED_PAGES = 20
/** A call ends, whatever a store lists: the next one goes on. */
const MAX_PAGES = 100

export async function purge(
  bucket: Bucket,
  { prefix, name, uid }: PurgeTarget,
  { signal, maxKeys = DELETE_BATCH_KEYS, left }: PurgeOptions = {},
): Promise<PurgeResult> {
  const folder = backupFolder({ prefix, name })
  try {
    const owner = await ownerOf(bucket, folder, signal)
    // Nobody's, or another's: nothing there is ours to delete.
    if (owner?.uid !== uid) return { done: true, deleted: 0 }
    for (const upload of await bucket.openUploads(folder, signal)) {
      await bucket.abortUpload(upload, signal)
    }
    const { done, deleted } = await deleteSome(bucket, folder, maxKeys, signal)
    if (done) return { done, deleted }
    return {
      done,
      deleted,
      left: lessened(left, deleted) ?? (await counted(bucket, folder, signal)),
    }
  } catch (error) {
    // Whoever deleted the bucket deleted the backup.
    if (error instanceof StorageError && error.reason === 'NoSuchBucket') {
      return { done: true, deleted: 0 }
    }
    throw error
  }
}

async function deleteSome(
  bucket: Bucket,
  folder: string,
  maxKeys: number,
  signal: AbortSignal | undefined,
): Promise<PurgeResult> {
  const own = ownerKey(folder)
  const gone = new Set<string>()
  const unfinished = () => ({ done: false, deleted: gone.size })
  let at: { token: string | undefined; isEmpty: boolean } = START
  for (let page = 0; page < MAX_PAGES; page += 1) {
    signal?.throwIfAborted()
    const { objects, next } = await bucket.list(folder, { token: at.token, signal })
    const others = objects.map(({ key }) => key).filter((key) => key !== own)
    // Some stores still list for a while what they have deleted.
    const keys = others.filter((key) => !gone.has(key))
    const isEmpty = at.isEmpty && others.length === 0
    if (keys.length > 0) {
      const room = maxKeys - gone.size
      if (room <= 0) return unfinished()
      const some = keys.slice(0, room)
      await bucket.delete(some, signal)
      for (const key of some) gone.add(key)
      if (next !== undefined && gone.size + DELETE_BATCH_KEYS > maxKeys) return unfinished()
      at = START
    } else if (next !== undefined) {
      // Some have pages with nothing on them.
      at = { token: next, isEmpty }
    } else {
      // Only the listing that shows it alone lets it go.
      if (!isEmpty) return unfinished()
      await bucket.delete([own], signal)
      return { done: true, deleted: gone.size + 1 }
    }
  }
  return unfinished()
}

/** From the start each time: what stood there before is gone. */
const START = { token: undefined, isEmpty: true }

/** Undefined where that was not known, or is used up. */
function lessened(left: ObjectCount | undefined, deleted: number): ObjectCount | undefined {
  if (left === undefined || left.count <= deleted) return undefined
  return { ...left, count: left.count - deleted }
}

async function counted(
  bucket: Bucket,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<ObjectCount> {
  let count = 0
  let token: string | undefined
  for (let page = 0; page < COUNTED_PAGES; page += 1) {
    const { objects, next } = await bucket.list(folder, { token, signal })
    count += objects.length
    if (next === undefined) return { count, isLeast: false }
    token = next
  }
  return { count, isLeast: true }
}
