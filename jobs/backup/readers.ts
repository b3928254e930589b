/**
 * Restores that currently read a backup: each keeps a small object in the folder of the backup and
 * renews it while it runs. A purge uses them to detect a restore in another Kubernetes cluster, or
 * one that addresses the bucket by another endpoint.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { StorageError } from '../../crds/contract/errors.ts'
import { isReaderKey, readerKey, readersFolder } from '../../crds/contract/backup-keys.ts'
import { READER_RENEWAL_SECONDS, READER_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { NamespaceName, ObjectName, Timestamp as TimeField, Uid } from '../../crds/schema.ts'
import type { Bucket, StoredObject } from '../clients/s3/bucket.ts'
import { systemClock, type Clock } from '../clock.ts'
import { listPages } from './folder.ts'

const Reader = Type.Object({
  uid: Uid(),
  namespace: NamespaceName(),
  name: ObjectName(),
  /** When it was last renewed. */
  at: TimeField(),
})
type Reader = Static<typeof Reader>

export interface ActiveReader {
  namespace: string
  name: string
  /** The record expires at this time unless it is renewed. */
  until: string
}

/** With more recent records it is not known whether a restore reads the backup. */
const MAX_RECENT_RECORDS = 1000
/**
 * Records that the store lists as older are expired and are not read: credentials that may not delete leave one per
 * restore. Far more than clocks of clusters and of stores differ.
 */
const RECENT_MS = 24 * 60 * 60 * 1000
/** A record has at most about 500 bytes; a larger object is not one and is not read. */
const MAX_READER_BYTES = 4096

/** A restore that reads the backup in this folder; undefined if there is none. Throws `StorageError` if that is not known. */
export async function findActiveReader(
  bucket: Bucket,
  folder: string,
  now: Date,
  signal?: AbortSignal,
): Promise<ActiveReader | undefined> {
  let count = 0
  for await (const { objects } of listPages({ bucket, folder: readersFolder(folder), signal })) {
    for (const object of objects) {
      if (!isRecentRecord(object, folder, now)) continue
      count += 1
      if (count > MAX_RECENT_RECORDS) {
        throw new StorageError(
          `s3://${bucket.name}/${readersFolder(folder)} has more than ${MAX_RECENT_RECORDS} records of restores: delete those of restores that have ended`,
        )
      }
      const reader = await readReader(bucket, object.key, signal)
      const active = reader && activeReader(reader, now)
      if (active !== undefined) return active
    }
  }
  return undefined
}

function activeReader({ namespace, name, at }: Reader, now: Date): ActiveReader | undefined {
  const renewedAt = Date.parse(at)
  // The clocks of two clusters differ: a clock that is far ahead must not block a purge for long.
  if (Math.abs(now.getTime() - renewedAt) >= READER_TIMEOUT_SECONDS * 1000) return undefined
  const until = new Date(renewedAt + READER_TIMEOUT_SECONDS * 1000).toISOString()
  return { namespace, name, until }
}

function isRecentRecord(object: StoredObject, folder: string, now: Date): boolean {
  const { key, sizeBytes, modifiedAt = now } = object
  // The objects of a collection named `readers` are in this folder too.
  if (!isReaderKey(folder, key) || sizeBytes > MAX_READER_BYTES) return false
  return now.getTime() - modifiedAt.getTime() < RECENT_MS
}

/** Any client with write access to the bucket can write here: invalid content is not a reader. */
async function readReader(
  bucket: Bucket,
  key: string,
  signal: AbortSignal | undefined,
): Promise<Reader | undefined> {
  try {
    // The size in a listing is what the store says.
    const found = await bucket.getJson(key, signal, MAX_READER_BYTES)
    return Value.Check(Reader, found) ? found : undefined
  } catch (error) {
    if (error instanceof StorageError && error.cause instanceof SyntaxError) return undefined
    throw error
  }
}

interface RecordOptions {
  bucket: Bucket
  folder: string
  restore: Omit<Reader, 'at'>
  time: Clock
  log: { warn(fields: object, message: string): void }
  signal: AbortSignal
  /** Waits between two renewals; rejects when the signal aborts. */
  waitForNext?: (signal: AbortSignal) => Promise<void>
}

/** The record of a restore that is running. */
export interface ReaderRecord {
  /**
   * Ends the renewals. The record is deleted only if the restore has ended: otherwise another pod
   * continues it, and a purge must not start in between. What is left expires.
   */
  stop(outcome: { hasEnded: boolean }): Promise<void>
}

/**
 * Records, before the manifest is read, that a restore reads this folder, and renews the record
 * until `stop`. Read-only credentials are enough for a restore: it then continues without the
 * record.
 */
export async function recordReader(options: RecordOptions): Promise<ReaderRecord> {
  const stopController = new AbortController()
  const signal = AbortSignal.any([options.signal, stopController.signal])
  await writeRecord(options)
  const renewals = renew(options, signal)
  // Its error is thrown by `stop`.
  renewals.catch(() => undefined)
  return {
    async stop({ hasEnded }) {
      stopController.abort()
      await renewals
      if (hasEnded) await deleteRecord(options)
    },
  }
}

async function renew(options: RecordOptions, signal: AbortSignal): Promise<void> {
  const waitForNext = options.waitForNext ?? waitForRenewal
  try {
    for (;;) {
      await waitForNext(signal)
      await writeRecord(options)
    }
  } catch (error) {
    // Aborted: the restore or its pod has ended.
    if (!signal.aborted) throw error
  }
}

/** Uses a timer of its own, so that it continues regardless of what the Job waits for. */
function waitForRenewal(signal: AbortSignal): Promise<void> {
  return systemClock.sleep(READER_RENEWAL_SECONDS * 1000, signal)
}

async function writeRecord({
  bucket,
  folder,
  restore,
  time,
  log,
  signal,
}: RecordOptions): Promise<void> {
  const reader: Reader = { ...restore, at: time.now().toISOString() }
  try {
    await bucket.putJson(readerKey(folder, restore.uid), reader, { signal })
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    log.warn(
      { reason: error.message },
      'cannot record this restore in the bucket: a purge from another Kubernetes cluster does not wait for it',
    )
  }
}

/** Without the signal: the pod of a restore that is being deleted is stopped. */
async function deleteRecord({ bucket, folder, restore, log }: RecordOptions): Promise<void> {
  try {
    await bucket.delete([readerKey(folder, restore.uid)], AbortSignal.timeout(DELETE_TIMEOUT_MS))
  } catch (error) {
    log.warn({ reason: String(error) }, 'cannot remove the record of this restore from the bucket')
  }
}

const DELETE_TIMEOUT_MS = 10_000
