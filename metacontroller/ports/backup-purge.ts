/**
 * Deletes a backup's objects, so many at a call, and goes on at the next one. Only under the uid that
 * owns the folder, only keys that a backup writes, and nothing below an inner folder with an owner of its
 * own. The manifest goes first, so that no restore starts from what is half deleted; owner.json goes
 * last, so that what is half deleted still has its owner.
 */
import { StorageError } from '../../crds/contract/errors.ts'
import {
  backupFolder,
  enclosingFolders,
  isWrittenByBackup,
  manifestKey,
  ownerKey,
} from '../../crds/contract/backup-keys.ts'
import { DELETE_BATCH_KEYS } from '../../crds/contract/limits.ts'
import type { Bucket, StoredObject } from '../../jobs/clients/s3/bucket.ts'
import { readOwner } from '../../jobs/backup/owner.ts'
import { findActiveReader, type ActiveReader } from '../../jobs/backup/readers.ts'

export interface PurgeTarget {
  prefix: string
  name: string
  uid: string
}

export interface PurgeResult {
  /** Nothing that this backup wrote is left there. */
  done: boolean
  /** Objects deleted by this call. */
  deleted: number
  /** While it is not done: what the next call need not look for again. */
  survey?: Survey
  /** Objects in the folder that this backup did not write. They stay. */
  others?: ForeignObjects
  /** A restore that reads the backup: nothing is deleted before it ends. */
  reader?: ActiveReader
}

/** What a listing of the whole folder showed. */
export interface Survey {
  /** Objects of this backup that are left. */
  left: number
  /** Folders inside that have an owner.json of their own. */
  inner: string[]
}

export interface ForeignObjects {
  count: number
  /** Key of one of them. */
  example: string
}

export interface PurgeOptions {
  now: Date
  signal?: AbortSignal
  /** Keys a call deletes at most. */
  maxKeys?: number
  /** Of the call before this one. */
  survey?: Survey | undefined
}

/** Ten million objects: a store that lists more is not listed to its end. */
const MAX_PAGES = 10_000

interface PurgeContext {
  bucket: Bucket
  folder: string
  maxKeys: number
  signal: AbortSignal | undefined
}

export async function purge(
  bucket: Bucket,
  { prefix, name, uid }: PurgeTarget,
  { now, signal, maxKeys = DELETE_BATCH_KEYS, survey }: PurgeOptions,
): Promise<PurgeResult> {
  const folder = backupFolder({ prefix, name })
  const context: PurgeContext = { bucket, folder, maxKeys, signal }
  try {
    const owner = await readOwner(bucket, folder, signal)
    // Without an owner, or with another one, nothing there is ours to delete.
    if (owner === undefined) return { done: true, deleted: 0, ...(await listForeign(context)) }
    if (owner.uid !== uid) return { done: true, deleted: 0 }
    if (survey !== undefined) return await deleteBatch(context, survey)
    return await startPurge(context, now)
  } catch (error) {
    // Whoever deleted the bucket deleted the backup.
    if (error instanceof StorageError && error.reason === 'NoSuchBucket') {
      return { done: true, deleted: 0 }
    }
    throw error
  }
}

/** The first call. A restore records itself before it reads the manifest, so one of the two looks sees it. */
async function startPurge(context: PurgeContext, now: Date): Promise<PurgeResult> {
  const { bucket, folder, signal } = context
  const readerBefore = await findActiveReader(bucket, folder, now, signal)
  if (readerBefore !== undefined) return { done: false, deleted: 0, reader: readerBefore }
  if ((await bucket.size(manifestKey(folder), signal)) === undefined) {
    return deleteBatch(context, await surveyFolder(context))
  }
  await bucket.delete([manifestKey(folder)], signal)
  const readerAfter = await findActiveReader(bucket, folder, now, signal)
  if (readerAfter !== undefined) return { done: false, deleted: 1, reader: readerAfter }
  const { deleted, ...rest } = await deleteBatch(context, await surveyFolder(context))
  return { ...rest, deleted: deleted + 1 }
}

async function deleteBatch(context: PurgeContext, survey: Survey): Promise<PurgeResult> {
  const inner = new Set(survey.inner)
  for (const upload of await context.bucket.openUploads(context.folder, context.signal)) {
    if (isOwnedKey(upload.key, context, inner))
      await context.bucket.abortUpload(upload, context.signal)
  }
  const { done, deleted, others } = await deleteKeys(context, inner)
  if (done) return { done, deleted, ...(others !== undefined && { others }) }
  const left = Math.max(survey.left - deleted, 1)
  return { done, deleted, survey: { left, inner: [...inner] } }
}

type BatchResult = Pick<PurgeResult, 'done' | 'deleted' | 'others'>

/** Lists from the start after each deletion: what was there before is gone. */
async function deleteKeys(context: PurgeContext, inner: Set<string>): Promise<BatchResult> {
  const { bucket, folder, maxKeys, signal } = context
  const deletedKeys = new Set<string>()
  for (;;) {
    const { keys, isLast, isEmpty, others } = await nextOwnedKeys(context, inner, deletedKeys)
    if (keys.length === 0) {
      // Only a listing that shows nothing of it any more lets it go: some stores lag behind.
      if (!isEmpty) return { done: false, deleted: deletedKeys.size }
      await bucket.delete([ownerKey(folder)], signal)
      return { done: true, deleted: deletedKeys.size + 1, ...(others !== undefined && { others }) }
    }
    const capacity = maxKeys - deletedKeys.size
    if (capacity <= 0) return { done: false, deleted: deletedKeys.size }
    const batch = keys.slice(0, capacity)
    await bucket.delete(batch, signal)
    for (const key of batch) deletedKeys.add(key)
    // The next page would be cut to a small batch: the next call deletes a whole one.
    if (!isLast && deletedKeys.size + DELETE_BATCH_KEYS > maxKeys)
      return { done: false, deleted: deletedKeys.size }
  }
}

interface OwnedPage {
  /** Keys of the first page that has any, without those that are gone. */
  keys: string[]
  isLast: boolean
  /** No page up to this one had a key of this backup, be it one that is gone. */
  isEmpty: boolean
  /** Only where there are no keys: then all pages were seen. */
  others?: ForeignObjects
}

async function nextOwnedKeys(
  context: PurgeContext,
  inner: Set<string>,
  deletedKeys: Set<string>,
): Promise<OwnedPage> {
  let isEmpty = true
  let others: ForeignObjects | undefined
  for await (const { objects, isLast } of listPages(context)) {
    for (const folder of innerFolders(objects, context)) inner.add(folder)
    const owned = objects.filter(({ key }) => isOwnedKey(key, context, inner)).map(({ key }) => key)
    if (owned.length > 0) isEmpty = false
    const keys = owned.filter((key) => !deletedKeys.has(key))
    if (keys.length > 0) return { keys, isLast, isEmpty }
    others = addForeign(others, objects, owned.length, context, inner)
  }
  return { keys: [], isLast: true, isEmpty, ...(others !== undefined && { others }) }
}

function addForeign(
  previous: ForeignObjects | undefined,
  objects: StoredObject[],
  owned: number,
  context: PurgeContext,
  inner: Set<string>,
): ForeignObjects | undefined {
  const isForeign = ({ key }: StoredObject) =>
    key !== ownerKey(context.folder) && !isOwnedKey(key, context, inner)
  const example = previous?.example ?? objects.find(isForeign)?.key
  if (example === undefined) return undefined
  const hasOwnerKey = objects.some(({ key }) => key === ownerKey(context.folder))
  const count = objects.length - owned - (hasOwnerKey ? 1 : 0)
  return { count: (previous?.count ?? 0) + count, example }
}

/** Inner owners may be listed behind the objects of their folders: so all keys are looked at first. */
async function surveyFolder(context: PurgeContext): Promise<Survey> {
  const inner = new Set<string>()
  const left = await countOwned(context, inner)
  return { left: inner.size === 0 ? left : await countOwned(context, inner), inner: [...inner] }
}

/** Objects of this backup, owner.json among them. Inner folders that are found are added. */
async function countOwned(context: PurgeContext, inner: Set<string>): Promise<number> {
  let count = 1
  for await (const { objects } of listPages(context)) {
    for (const folder of innerFolders(objects, context)) inner.add(folder)
    count += objects.filter(({ key }) => isOwnedKey(key, context, inner)).length
  }
  return count
}

/** What is in a folder without an owner. */
async function listForeign(context: PurgeContext): Promise<{ others?: ForeignObjects }> {
  let others: ForeignObjects | undefined
  for await (const { objects } of listPages(context)) {
    const [first] = objects
    if (first === undefined) continue
    others = { count: (others?.count ?? 0) + objects.length, example: others?.example ?? first.key }
  }
  return others === undefined ? {} : { others }
}

function innerFolders(objects: StoredObject[], { folder }: PurgeContext): string[] {
  return objects
    .map(({ key }) => key)
    .filter((key) => key.endsWith('/owner.json') && key !== ownerKey(folder))
    .map((key) => key.slice(0, key.lastIndexOf('/') + 1))
}

function isOwnedKey(key: string, { folder }: PurgeContext, inner: ReadonlySet<string>): boolean {
  if (!isWrittenByBackup(folder, key)) return false
  return inner.size === 0 || !enclosingFolders(key).some((outer) => inner.has(outer))
}

async function* listPages({
  bucket,
  folder,
  signal,
}: PurgeContext): AsyncGenerator<{ objects: StoredObject[]; isLast: boolean }> {
  const tokens = new Set<string>()
  let token: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    signal?.throwIfAborted()
    const { objects, next } = await bucket.list(folder, { token, signal })
    yield { objects, isLast: next === undefined }
    if (next === undefined) return
    if (tokens.has(next)) {
      throw new StorageError(
        `LIST s3://${bucket.name}/${folder} gives the same page again and again`,
      )
    }
    tokens.add(next)
    token = next
  }
  throw new StorageError(`LIST s3://${bucket.name}/${folder} has more than ${MAX_PAGES} pages`)
}
