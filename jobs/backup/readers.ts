/**
 * Restores that currently read a backup: each keeps a small object in the folder of the backup and
 * renews it while it runs. A purge uses them to detect a restore in another Kubernetes cluster, or
 * one that addresses the bucket by another endpoint.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { StorageError } from '../../crds/contract/errors.ts'
import { readerKey, readersFolder } from '../../crds/contract/backup-keys.ts'
import { READER_RENEWAL_SECONDS, READER_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { NamespaceName, ObjectName, Timestamp as TimeField, Uid } from '../../crds/schema.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { systemClock, type Clock } from '../clock.ts'

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

/** Further concurrent restores of one backup are not checked. */
const MAX_READERS = 100
/** A record has at most about 500 bytes; a larger object is not one and is not read. */
const MAX_READER_BYTES = 4096

/** A restore that reads the backup in this folder; undefined if there is none. */
export async function findActiveReader(
  bucket: Bucket,
  folder: string,
  now: Date,
  signal?: AbortSignal,
): Promise<ActiveReader | undefined> {
  const { objects } = await bucket.list(readersFolder(folder), { max: MAX_READERS, signal })
  for (const { key, sizeBytes } of objects) {
    // The objects of a collection named `readers` are in this folder too.
    if (sizeBytes > MAX_READER_BYTES) continue
    const found = await readReader(bucket, key, signal)
    if (found === undefined) continue
    const at = Date.parse(found.at)
    // The clocks of two clusters differ: a clock that is far ahead must not block a purge for long.
    if (Math.abs(now.getTime() - at) >= READER_TIMEOUT_SECONDS * 1000) continue
    const until = new Date(at + READER_TIMEOUT_SECONDS * 1000).toISOString()
    return { namespace: found.namespace, name: found.name, until }
  }
  return undefined
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
