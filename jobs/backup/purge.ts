/**
 * Deletes the objects of a backup, a limited number per call; the next call continues. The service
 * calls it, and `backup purge` for a bucket that only the identity of a ServiceAccount may access. It
 * reads owner.json before each deletion, also before one is repeated, and stops unless that names the uid of this backup. It deletes only keys that a
 * backup writes, and nothing in an inner folder with its own owner.json or manifest.json. The manifest is deleted first, so
 * that no restore starts from a partly deleted backup. owner.json is deleted last, so that a partly deleted backup still
 * has its owner.
 */
import type { PurgePlan } from '../../crds/contract/job.ts'
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { Clock } from '../clock.ts'
import type { Dependencies, RunResult } from '../dependencies.ts'
import type { Report } from '../reporter.ts'
import { backupFolder, manifestKey, ownerKey } from '../../crds/contract/backup-keys.ts'
import { DELETE_BATCH_KEYS } from '../../crds/contract/limits.ts'
import {
  addForeign,
  addInnerFolders,
  isOwnedKey,
  listForeign,
  listPages,
  surveyFolder,
  type BackupFolder,
  type ForeignObjects,
} from './folder.ts'
import { readOwner } from './owner.ts'
import { findActiveReader, type ActiveReader } from './readers.ts'

export interface PurgeTarget {
  prefix: string
  name: string
  uid: string
}

export interface PurgeResult {
  /** No object of this backup is left. */
  done: boolean
  /** Number of objects deleted by this call. */
  deleted: number
  /**
   * Set while the purge is not done, so that the next call need not list the whole folder again.
   */
  survey?: Survey
  /** Objects in the folder that this backup did not write; they are not deleted. */
  others?: ForeignObjects
  /** A restore that reads the backup; nothing more is deleted before it ends. */
  reader?: ActiveReader
}

/** Result of listing the whole folder. */
export interface Survey {
  /** Number of remaining objects of this backup. */
  left: number
  /** Inner folders with their own owner.json or manifest.json. */
  inner: string[]
}

export interface PurgeOptions {
  now: Date
  signal?: AbortSignal
  /** Maximum number of keys to delete per call. */
  maxKeys?: number
  /** Survey returned by the previous call. */
  survey?: Survey | undefined
}

interface PurgeContext extends BackupFolder {
  uid: string
  maxKeys: number
}

/**
 * Another process has ended this purge, and the folder is free or that of another backup: a pod that was stopped or
 * replaced may be behind by as long as a listing takes.
 */
class FolderLost extends Error {}

export async function purge(
  bucket: Bucket,
  { prefix, name, uid }: PurgeTarget,
  { now, signal, maxKeys = DELETE_BATCH_KEYS, survey }: PurgeOptions,
): Promise<PurgeResult> {
  const folder = backupFolder({ prefix, name })
  const context: PurgeContext = { bucket, folder, uid, maxKeys, signal }
  try {
    const owner = await readOwner(bucket, folder, signal)
    // Without an owner, or with another owner, this backup owns nothing in the folder.
    if (owner === undefined) return { done: true, deleted: 0, ...(await listForeign(context)) }
    if (owner.uid !== uid) return { done: true, deleted: 0 }
    if (survey !== undefined) return await deleteBatch(context, survey)
    return await startPurge(context, now)
  } catch (error) {
    if (error instanceof FolderLost) return await folderLost(context)
    // Deleting the bucket deleted the backup too.
    if (error instanceof StorageError && error.reason === 'NoSuchBucket') {
      return { done: true, deleted: 0 }
    }
    throw error
  }
}

/** Another process that ends the purge leaves nothing; a lifecycle rule or a user may have deleted only owner.json. */
async function folderLost(context: PurgeContext): Promise<PurgeResult> {
  const owner = await readOwner(context.bucket, context.folder, context.signal)
  return { done: true, deleted: 0, ...(owner === undefined && (await listForeign(context))) }
}

/**
 * The first call. A restore records itself as a reader before it reads the manifest. Checking for
 * readers before and after the manifest is deleted therefore finds every restore that has read it.
 */
async function startPurge(context: PurgeContext, now: Date): Promise<PurgeResult> {
  const { bucket, folder, signal } = context
  const readerBefore = await findActiveReader(bucket, folder, now, signal)
  if (readerBefore !== undefined) return { done: false, deleted: 0, reader: readerBefore }
  if ((await bucket.size(manifestKey(folder), signal)) === undefined) {
    return deleteBatch(context, await firstSurvey(context))
  }
  await deleteOwned([manifestKey(folder)], context)
  const readerAfter = await findActiveReader(bucket, folder, now, signal)
  if (readerAfter !== undefined) return { done: false, deleted: 1, reader: readerAfter }
  const { deleted, ...rest } = await deleteBatch(context, await firstSurvey(context))
  return { ...rest, deleted: deleted + 1 }
}

async function firstSurvey(context: PurgeContext): Promise<Survey> {
  const { objects, inner } = await surveyFolder(context)
  return { left: objects, inner }
}

async function deleteBatch(context: PurgeContext, survey: Survey): Promise<PurgeResult> {
  const inner = new Set(survey.inner)
  for (const upload of await context.bucket.openUploads(context.folder, context.signal)) {
    if (!isOwnedKey(upload.key, context, inner)) continue
    await context.bucket.abortUpload(upload, context.signal, () => requireOwner(context))
  }
  const { done, deleted, others } = await deleteKeys(context, inner)
  if (done) return { done, deleted, ...(others !== undefined && { others }) }
  const left = Math.max(survey.left - deleted, 1)
  return { done, deleted, survey: { left, inner: [...inner] } }
}

type BatchResult = Pick<PurgeResult, 'done' | 'deleted' | 'others'>

/** Lists from the start after each deletion, because the keys listed before are deleted. */
async function deleteKeys(context: PurgeContext, inner: Set<string>): Promise<BatchResult> {
  const { folder, maxKeys } = context
  const deletedKeys = new Set<string>()
  for (;;) {
    const { keys, isLast, isEmpty, others } = await nextOwnedKeys(context, inner, deletedKeys)
    if (keys.length === 0) {
      // Some object stores list deleted keys for a while: finish only after a listing without any
      // key of this backup.
      if (!isEmpty) return { done: false, deleted: deletedKeys.size }
      await deleteOwned([ownerKey(folder)], context)
      return { done: true, deleted: deletedKeys.size + 1, ...(others !== undefined && { others }) }
    }
    const capacity = maxKeys - deletedKeys.size
    if (capacity <= 0) return { done: false, deleted: deletedKeys.size }
    const batch = keys.slice(0, capacity)
    await deleteOwned(batch, context)
    for (const key of batch) deletedKeys.add(key)
    // The remaining limit is smaller than a full batch; the next call deletes a full one.
    if (!isLast && deletedKeys.size + DELETE_BATCH_KEYS > maxKeys)
      return { done: false, deleted: deletedKeys.size }
  }
}

function deleteOwned(keys: string[], context: PurgeContext): Promise<void> {
  return context.bucket.delete(keys, context.signal, () => requireOwner(context))
}

async function requireOwner({ bucket, folder, uid, signal }: PurgeContext): Promise<void> {
  const owner = await readOwner(bucket, folder, signal)
  if (owner?.uid !== uid) throw new FolderLost()
}

interface OwnedPage {
  /** Keys of the first page that contains any, without those that are already deleted. */
  keys: string[]
  isLast: boolean
  /** Whether no page up to this one contained a key of this backup, including deleted keys. */
  isEmpty: boolean
  /** Set only if there are no keys, since only then all pages were read. */
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
    addInnerFolders(inner, objects, context)
    const owned = objects.filter(({ key }) => isOwnedKey(key, context, inner)).map(({ key }) => key)
    if (owned.length > 0) isEmpty = false
    const keys = owned.filter((key) => !deletedKeys.has(key))
    if (keys.length > 0) return { keys, isLast, isEmpty }
    others = addForeign(others, objects, owned.length, context, inner)
  }
  return { keys: [], isLast: true, isEmpty, ...(others !== undefined && { others }) }
}

/** How often a store may list objects that were deleted before. */
const MAX_STALE_LISTINGS = 15
const STALE_PAUSE_MS = 2000

interface PurgeAllOptions {
  signal: AbortSignal
  time: Clock
  /** Called after each batch but the last. */
  onBatch?: (result: PurgeResult) => Promise<void>
}

/**
 * Deletes batch by batch until no object of the backup is left, or a restore reads it. Returns the last result, with
 * the number of all deleted objects. Throws `StorageError` if the store does not stop listing deleted objects.
 */
export async function purgeAll(
  bucket: Bucket,
  target: PurgeTarget,
  { signal, time, onBatch }: PurgeAllOptions,
): Promise<PurgeResult> {
  let survey: Survey | undefined
  let [deleted, stale] = [0, 0]
  for (;;) {
    signal.throwIfAborted()
    const result = await purge(bucket, target, { now: time.now(), signal, survey })
    deleted += result.deleted
    if (result.done || result.reader !== undefined) return { ...result, deleted }
    await onBatch?.(result)
    survey = result.survey
    if (survey === undefined || survey.left > 1) continue
    // All objects were deleted once, but the store still lists some.
    if (stale === MAX_STALE_LISTINGS) {
      throw new StorageError(
        `s3://${bucket.name}/${backupFolder(target)} still has deleted objects`,
      )
    }
    stale += 1
    await time.sleep(STALE_PAUSE_MS, signal)
  }
}

/** `backup purge`: all objects, in one Job. */
export async function purgeBackup(plan: PurgePlan, tools: Dependencies): Promise<RunResult> {
  const { reporter, log } = tools
  // Another backup may have the folder by the time a pod that was replaced continues.
  const beforeChange = () => reporter.verifyOwnership()
  const bucket = await tools.openBucket(plan.storage, { beforeChange })
  const report = await purgeAndReport(bucket, plan, tools).finally(() => bucket.close())
  if (report.state !== 'Done') log.error({ reason: report.reason }, report.message)
  await reporter.finish(report)
  return report.state
}

async function purgeAndReport(
  bucket: Bucket,
  { storage, name, uid }: PurgePlan,
  { reporter, signal, time, log }: Dependencies,
): Promise<Report & { state: RunResult }> {
  const target = { prefix: storage.prefix, name, uid }
  const onBatch = async ({ deleted, survey }: PurgeResult) => {
    const left = `${survey?.left ?? 0} objects remain`
    log.info({ deleted }, left)
    await reporter.progress(left)
  }
  try {
    const { reader, others } = await purgeAll(bucket, target, { signal, time, onBatch })
    if (reader !== undefined) {
      const message = `waiting for VecRestore ${reader.namespace}/${reader.name}, which recorded in the bucket that it reads the backup; the record expires at ${reader.until} unless the restore renews it`
      return { state: 'Refused', reason: 'WaitingForRestore', message }
    }
    if (others === undefined) return { state: 'Done' }
    const message = `${others.count} objects that this backup did not write were not deleted, such as s3://${bucket.name}/${others.example}`
    return { state: 'Done', message }
  } catch (error) {
    // Rejected: owner.json does not name the backup that the objects belong to.
    if (!(error instanceof StorageError || error instanceof Rejected)) throw error
    return { state: 'Failed', reason: 'PurgeFailed', message: error.message }
  }
}
