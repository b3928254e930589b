/**
 * Deletes a backup's objects, so many at a call, and goes on at the next one. Only under the uid that
 * owns the folder, only keys that a backup writes, and nothing below an inner folder with an owner of its
 * own. The manifest goes first, so that no restore starts from what is half deleted; owner.json goes
 * last, so that what is half deleted still has its owner.
 */
import { StorageError } from '../../crds/errors.ts'
import {
  backupFolder,
  enclosingFolders,
  isWrittenByBackup,
  manifestKey,
  ownerKey,
} from '../../crds/layout.ts'
import { DELETE_BATCH_KEYS } from '../../crds/limits.ts'
import type { Bucket, StoredObject } from '../clients/s3.ts'
import { ownerOf } from './owner.ts'
import { activeReader, type ActiveReader } from './readers.ts'

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
  others?: Others
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

export interface Others {
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

interface Purge {
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
  const of: Purge = { bucket, folder, maxKeys, signal }
  try {
    const owner = await ownerOf(bucket, folder, signal)
    // Without an owner, or with another one, nothing there is ours to delete.
    if (owner === undefined) return { done: true, deleted: 0, ...(await othersIn(of)) }
    if (owner.uid !== uid) return { done: true, deleted: 0 }
    if (survey !== undefined) return await deleteBatch(of, survey)
    return await begin(of, now)
  } catch (error) {
    // Whoever deleted the bucket deleted the backup.
    if (error instanceof StorageError && error.reason === 'NoSuchBucket') {
      return { done: true, deleted: 0 }
    }
    throw error
  }
}

/** The first call. A restore records itself before it reads the manifest, so one of the two looks sees it. */
async function begin(of: Purge, now: Date): Promise<PurgeResult> {
  const { bucket, folder, signal } = of
  const before = await activeReader(bucket, folder, now, signal)
  if (before !== undefined) return { done: false, deleted: 0, reader: before }
  if ((await bucket.size(manifestKey(folder), signal)) === undefined) {
    return deleteBatch(of, await surveyOf(of))
  }
  await bucket.delete([manifestKey(folder)], signal)
  const after = await activeReader(bucket, folder, now, signal)
  if (after !== undefined) return { done: false, deleted: 1, reader: after }
  const { deleted, ...rest } = await deleteBatch(of, await surveyOf(of))
  return { ...rest, deleted: deleted + 1 }
}

async function deleteBatch(of: Purge, survey: Survey): Promise<PurgeResult> {
  const inner = new Set(survey.inner)
  for (const upload of await of.bucket.openUploads(of.folder, of.signal)) {
    if (isOurs(upload.key, of, inner)) await of.bucket.abortUpload(upload, of.signal)
  }
  const { done, deleted, others } = await deleteSome(of, inner)
  if (done) return { done, deleted, ...(others !== undefined && { others }) }
  const left = Math.max(survey.left - deleted, 1)
  return { done, deleted, survey: { left, inner: [...inner] } }
}

type Batch = Pick<PurgeResult, 'done' | 'deleted' | 'others'>

/** Lists from the start after each deletion: what was there before is gone. */
async function deleteSome(of: Purge, inner: Set<string>): Promise<Batch> {
  const { bucket, folder, maxKeys, signal } = of
  const gone = new Set<string>()
  for (;;) {
    const { keys, isLast, isEmpty, others } = await firstOwn(of, inner, gone)
    if (keys.length === 0) {
      // Only a listing that shows nothing of it any more lets it go: some stores lag behind.
      if (!isEmpty) return { done: false, deleted: gone.size }
      await bucket.delete([ownerKey(folder)], signal)
      return { done: true, deleted: gone.size + 1, ...(others !== undefined && { others }) }
    }
    const capacity = maxKeys - gone.size
    if (capacity <= 0) return { done: false, deleted: gone.size }
    const some = keys.slice(0, capacity)
    await bucket.delete(some, signal)
    for (const key of some) gone.add(key)
    // The next page would be cut to a small batch: the next call deletes a whole one.
    if (!isLast && gone.size + DELETE_BATCH_KEYS > maxKeys)
      return { done: false, deleted: gone.size }
  }
}

interface Found {
  /** Keys of the first page that has any, without those that are gone. */
  keys: string[]
  isLast: boolean
  /** No page up to this one had a key of this backup, be it one that is gone. */
  isEmpty: boolean
  /** Only where there are no keys: then all pages were seen. */
  others?: Others
}

async function firstOwn(of: Purge, inner: Set<string>, gone: Set<string>): Promise<Found> {
  let isEmpty = true
  let others: Others | undefined
  for await (const { objects, isLast } of pagesOf(of)) {
    for (const folder of innerFolders(objects, of)) inner.add(folder)
    const own = objects.filter(({ key }) => isOurs(key, of, inner)).map(({ key }) => key)
    if (own.length > 0) isEmpty = false
    const keys = own.filter((key) => !gone.has(key))
    if (keys.length > 0) return { keys, isLast, isEmpty }
    others = counted(others, objects, own.length, of, inner)
  }
  return { keys: [], isLast: true, isEmpty, ...(others !== undefined && { others }) }
}

function counted(
  before: Others | undefined,
  objects: StoredObject[],
  own: number,
  of: Purge,
  inner: Set<string>,
): Others | undefined {
  const isOther = ({ key }: StoredObject) => key !== ownerKey(of.folder) && !isOurs(key, of, inner)
  const example = before?.example ?? objects.find(isOther)?.key
  if (example === undefined) return undefined
  const isOwnerHere = objects.some(({ key }) => key === ownerKey(of.folder))
  const count = objects.length - own - (isOwnerHere ? 1 : 0)
  return { count: (before?.count ?? 0) + count, example }
}

/** Inner owners may be listed behind the objects of their folders: so all keys are looked at first. */
async function surveyOf(of: Purge): Promise<Survey> {
  const inner = new Set<string>()
  const left = await ownCount(of, inner)
  return { left: inner.size === 0 ? left : await ownCount(of, inner), inner: [...inner] }
}

/** Objects of this backup, owner.json among them. Inner folders that are found are added. */
async function ownCount(of: Purge, inner: Set<string>): Promise<number> {
  let count = 1
  for await (const { objects } of pagesOf(of)) {
    for (const folder of innerFolders(objects, of)) inner.add(folder)
    count += objects.filter(({ key }) => isOurs(key, of, inner)).length
  }
  return count
}

/** What is in a folder without an owner. */
async function othersIn(of: Purge): Promise<{ others?: Others }> {
  let others: Others | undefined
  for await (const { objects } of pagesOf(of)) {
    const [first] = objects
    if (first === undefined) continue
    others = { count: (others?.count ?? 0) + objects.length, example: others?.example ?? first.key }
  }
  return others === undefined ? {} : { others }
}

function innerFolders(objects: StoredObject[], { folder }: Purge): string[] {
  return objects
    .map(({ key }) => key)
    .filter((key) => key.endsWith('/owner.json') && key !== ownerKey(folder))
    .map((key) => key.slice(0, key.lastIndexOf('/') + 1))
}

function isOurs(key: string, { folder }: Purge, inner: ReadonlySet<string>): boolean {
  if (!isWrittenByBackup(folder, key)) return false
  return inner.size === 0 || !enclosingFolders(key).some((outer) => inner.has(outer))
}

async function* pagesOf({
  bucket,
  folder,
  signal,
}: Purge): AsyncGenerator<{ objects: StoredObject[]; isLast: boolean }> {
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
