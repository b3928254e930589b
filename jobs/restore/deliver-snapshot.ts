/**
 * Delivers a snapshot to a node. The node downloads a node snapshot from a URL that is signed
 * directly before; if it cannot, the Job uploads the snapshot. A shard snapshot is always uploaded:
 * the engine reports the recovery of a shard only after its download, so a recovery whose response
 * is lost could replace the shard long after everything else has ended. Uploads stop with the Job.
 * The Job writes nothing to its own disk.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { EngineError, StorageError } from '../../crds/contract/errors.ts'
import { manifestKey } from '../../crds/contract/backup-keys.ts'
import { errorMessage } from '../clients/http/request.ts'
import {
  isFetchRefused,
  hasRecoveryEnded,
  type RecoveryTarget,
} from '../clients/engine/recovery.ts'
import { requireUnreplaced } from './change-collection.ts'
import type { Recovery } from './checkpoint.ts'
import type { SourceSnapshot } from '../manifest-check.ts'
import { ordinals, recoveryForPod, snapshotsForPod, type RunContext } from './context.ts'

type DeliveryMode = 'fetch' | 'upload'

const CLEAN_UP_MS = 20_000

/** One snapshot and the node that takes it. */
export interface SnapshotDelivery {
  node: number
  target: RecoveryTarget
  snapshot: SourceSnapshot
  /** Hex SHA-256 that the engine compares with the bytes that it downloads. */
  checksum: string | undefined
  /**
   * Throws if the node must not recover the snapshot any more; the upload of its bytes may have taken hours. By
   * default, the collection must still be the same.
   */
  beforeRecovery?: () => Promise<void>
}

/** Returns the delivery mode after the node has taken the snapshot. */
export async function deliverSnapshot(
  delivery: SnapshotDelivery,
  context: RunContext,
): Promise<DeliveryMode> {
  const { node, target } = delivery
  if (target.shard !== undefined) {
    await uploadSnapshot(delivery, context)
    return 'upload'
  }
  const mode =
    context.deliveryModes.get(node) ?? (await detectDeliveryMode(target.collection, node, context))
  if (mode === 'fetch') {
    const refusedReason = await fetchSnapshot(delivery, context)
    if (refusedReason === undefined) return 'fetch'
    switchToUpload(node, refusedReason, context)
  }
  await uploadSnapshot(delivery, context)
  return 'upload'
}

/**
 * Asks all nodes whose mode is unknown at the same time; a node that is unavailable now is asked
 * later.
 */
export async function detectDeliveryModes(name: string, context: RunContext): Promise<void> {
  const undetected = ordinals(context).filter((node) => !context.deliveryModes.has(node))
  await Promise.all(
    undetected.map((node) =>
      detectDeliveryMode(name, node, context).catch((error: unknown) => {
        if (!(error instanceof EngineError)) throw error
      }),
    ),
  )
}

/**
 * Probes with the URL of the manifest before the first delivery. The node rejects its bytes even if
 * it can download them, so nothing changes.
 */
async function detectDeliveryMode(
  name: string,
  node: number,
  context: RunContext,
): Promise<DeliveryMode> {
  const { signal } = context.tools
  const url = await context.bucket.presignedUrl(manifestKey(context.folder), signal)
  const reason = await recoveryForPod(context, node).unreachableReason(name, url, signal)
  if (reason !== undefined) return switchToUpload(node, reason, context)
  context.deliveryModes.set(node, 'fetch')
  return 'fetch'
}

function switchToUpload(
  node: number,
  reason: string,
  { tools, deliveryModes }: RunContext,
): DeliveryMode {
  tools.log.warn(
    { node, reason },
    `node ${node} cannot fetch from the bucket: uploading snapshots to it`,
  )
  deliveryModes.set(node, 'upload')
  return 'upload'
}

/**
 * Why the node did not download the snapshot and changed nothing; undefined after it has taken it.
 */
async function fetchSnapshot(
  delivery: SnapshotDelivery,
  context: RunContext,
): Promise<string | undefined> {
  const { node, target, snapshot, checksum } = delivery
  const { bucket, priority, tools } = context
  const { key, sizeBytes: size } = snapshot
  // Sign now: a restore can take longer than the URL is valid.
  const url = await bucket.presignedUrl(key, tools.signal)
  await startRecovery(delivery, { node }, context)
  try {
    await trackRecovery({ node }, context, () =>
      recoveryForPod(context, node).recover(
        target,
        { url, priority, checksum, size },
        tools.signal,
      ),
    )
    return undefined
  } catch (error) {
    if (error instanceof EngineError && isFetchRefused(error)) return error.message
    throw error
  }
}

async function uploadSnapshot(delivery: SnapshotDelivery, context: RunContext): Promise<void> {
  const { node, target, snapshot } = delivery
  const { bucket, priority, tools, plan, progress } = context
  const { key, sizeBytes: size } = snapshot
  const file = `${plan.uid}-${node}.snapshot`
  const recovery = { node, ...(target.shard !== undefined && { shard: target.shard }) }
  progress.uploadStarted(key)
  const bytes = await bucket.read(key, tools.signal)
  const failure = { reason: undefined as unknown }
  const source = Readable.from(verifiedBytes(bytes, snapshot, failure, progress), {
    objectMode: false,
  })
  // Hours after the first byte. The node recovers what has the name by then.
  const beforeEnd = async () => {
    try {
      await startRecovery(delivery, recovery, context)
    } catch (error) {
      failure.reason = error
      throw error
    }
  }
  try {
    await trackRecovery(recovery, context, () =>
      recoveryForPod(context, node).upload(
        target,
        { file, source, size, priority, beforeEnd },
        tools.signal,
      ),
    )
  } catch (error) {
    tools.signal.throwIfAborted()
    // The aborted call is only a consequence of this failure.
    throw failure.reason ?? error
  } finally {
    bytes.destroy()
    if (target.shard === undefined)
      await deleteUploadedFile(target.collection, { node, file }, context)
  }
}

/** Records that the node may be running the recovery from now on, and makes sure that it overwrites what it should. */
async function startRecovery(
  { target, beforeRecovery }: Pick<SnapshotDelivery, 'target' | 'beforeRecovery'>,
  recovery: Recovery,
  context: RunContext,
): Promise<void> {
  const { progress } = context
  await progress.recoveryStarted(recovery)
  try {
    await (beforeRecovery ?? (() => requireUnreplaced(target.collection, context)))()
  } catch (error) {
    progress.recoveryEnded(recovery)
    throw error
  }
}

/**
 * A response of the engine itself, even an error, ends the recovery; without a response it may
 * continue.
 */
async function trackRecovery(
  recovery: Recovery,
  { progress }: Pick<RunContext, 'progress'>,
  call: () => Promise<void>,
): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (error instanceof EngineError && hasRecoveryEnded(error)) progress.recoveryEnded(recovery)
    throw error
  }
  progress.recoveryEnded(recovery)
}

/** Passes the bytes through; fails instead of ending if they are not those of the manifest. */
async function* verifiedBytes(
  bytes: AsyncIterable<Uint8Array>,
  { key, sizeBytes, sha256 }: SourceSnapshot,
  failure: { reason: unknown },
  { bytesSent }: Pick<RunContext['progress'], 'bytesSent'>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  try {
    for await (const chunk of bytes) {
      hash.update(chunk)
      length += chunk.length
      bytesSent(key, chunk.length)
      yield chunk
    }
  } catch (cause) {
    failure.reason = new EngineError(`${key} broke off: ${errorMessage(cause)}`, { cause })
    throw failure.reason
  }
  const isSameHash = sha256 === undefined || hash.digest('hex') === sha256
  if (length === sizeBytes && isSameHash) return
  failure.reason = new StorageError(`${key} is not the object that was backed up: its bytes differ`)
  throw failure.reason
}

/**
 * The node stores the uploaded snapshot of a collection under its name, and the file takes up disk
 * space until it is deleted. All pods of the Job use the same name, so that the next pod overwrites a file
 * that was left: a pod that has replaced this one may be uploading it now.
 */
async function deleteUploadedFile(
  name: string,
  { node, file }: { node: number; file: string },
  context: RunContext,
): Promise<void> {
  try {
    if ((await context.tools.reporter.owner()) !== 'this pod') return
    // Not the signal of the Job: this clean-up also runs after an abort.
    await snapshotsForPod(context, node).delete(name, file, AbortSignal.timeout(CLEAN_UP_MS))
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return
    context.tools.log.warn({ node, file, reason: errorMessage(error) }, 'file not deleted')
  }
}
