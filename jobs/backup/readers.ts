/**
 * Who reads a backup at this moment: a small object per restore in the folder of the backup, renewed while
 * the restore runs. It is how a purge learns of a restore in another Kubernetes cluster, or of one that
 * names the bucket by another address.
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
  /** After this time it counts no longer, unless it is renewed. */
  until: string
}

/** More restores of one backup at once are not looked at. */
const MAX_READERS = 100

/** A restore that reads the backup in this folder; undefined when there is none. */
export async function findActiveReader(
  bucket: Bucket,
  folder: string,
  now: Date,
  signal?: AbortSignal,
): Promise<ActiveReader | undefined> {
  const { objects } = await bucket.list(readersFolder(folder), { max: MAX_READERS, signal })
  for (const { key } of objects) {
    const found = await readReader(bucket, key, signal)
    if (found === undefined) continue
    const at = Date.parse(found.at)
    // The clocks of two clusters differ: one that is far ahead must not hold a purge up for long.
    if (Math.abs(now.getTime() - at) >= READER_TIMEOUT_SECONDS * 1000) continue
    const until = new Date(at + READER_TIMEOUT_SECONDS * 1000).toISOString()
    return { namespace: found.namespace, name: found.name, until }
  }
  return undefined
}

/** Anybody who may write in the bucket can write there: what does not read is no reader. */
async function readReader(
  bucket: Bucket,
  key: string,
  signal: AbortSignal | undefined,
): Promise<Reader | undefined> {
  try {
    const found = await bucket.getJson(key, signal)
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
  /** Between two renewals; rejects when the signal aborts. */
  waitForNext?: (signal: AbortSignal) => Promise<void>
}

/**
 * Records that a restore reads this folder, before it reads the manifest, and renews that until `end`.
 * Credentials that may only read are enough for a restore: then it goes on without the record.
 */
export async function recordReader(options: RecordOptions): Promise<{ stop(): Promise<void> }> {
  const stopController = new AbortController()
  const signal = AbortSignal.any([options.signal, stopController.signal])
  await writeRecord(options)
  const renewals = renew(options, signal)
  // What it throws is thrown by `end`.
  renewals.catch(() => undefined)
  return {
    async stop() {
      stopController.abort()
      await renewals
      await deleteRecord(options)
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
    // Aborted: the restore is over, or its pod is.
    if (!signal.aborted) throw error
  }
}

/** By a timer of its own: it goes on beside whatever the Job waits for. */
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

/** Without the signal: also a pod that is stopped takes its record back. */
async function deleteRecord({ bucket, folder, restore, log }: RecordOptions): Promise<void> {
  try {
    await bucket.delete([readerKey(folder, restore.uid)], AbortSignal.timeout(DELETE_TIMEOUT_MS))
  } catch (error) {
    log.warn({ reason: String(error) }, 'cannot remove the record of this restore from the bucket')
  }
}

const DELETE_TIMEOUT_MS = 10_000
