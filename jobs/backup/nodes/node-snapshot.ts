/**
 * Backs up one node's snapshot of one collection: streams it from the engine into the bucket and
 * verifies its SHA-256.
 */
import { createHash } from 'node:crypto'
import { snapshotKey } from '../../../crds/contract/backup-keys.ts'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { NodeSnapshot } from '../../../crds/contract/manifest.ts'
import type { Snapshot } from '../../clients/engine/responses.ts'
import type { EngineSnapshots } from '../../clients/engine/snapshots.ts'
import { isTransient, retry } from '../../retry.ts'
import { RETRY_DELAYS_MS, HEARTBEAT_MS, snapshotsForPod, type RunContext } from '../context.ts'
import { isUploaded, withStreamErrors, requireKeyLength } from '../objects.ts'
import { rejectIfDeleted } from '../source-cluster.ts'
import {
  waitForSameTopology,
  shardsOnNode,
  findTopologyChange,
  type Topology,
} from '../topology.ts'
import {
  deleteStaleObject,
  writeCheckpoint,
  type Checkpoint,
  type SnapshotRef,
} from './checkpoint.ts'
import { createSnapshot, type Attempt } from './create-snapshot.ts'
import { deleteSnapshotFile, deleteEngineSnapshot, elapsedSince } from './snapshot-files.ts'

/** Snapshots of one round have the same topology. */
export interface Round {
  number: number
  topology: Topology
}

/**
 * The snapshot of a node, created now or by an earlier pod in the same round, as `previous`
 * records. Undefined if the topology has changed since the start of the round.
 */
export async function backUpNode(
  ref: SnapshotRef,
  { previous, ...round }: Round & { previous: Checkpoint | undefined },
  context: RunContext,
): Promise<NodeSnapshot | undefined> {
  const { log, signal, time } = context.tools
  const reused = await reuseUploaded(ref, previous, round, context)
  if (reused !== undefined) return reused
  if (previous !== undefined) await cleanUpPreviousAttempt(ref, previous, context)
  const isPending = previous?.state === 'Pending' && previous.snapshotName === undefined
  const attempt: Attempt = {
    ...{ ref, round: round.number, pending: undefined, waitForReason: false },
    // What the node still creates may be the snapshot that an earlier pod requested.
    busySinceMs: isPending ? time.monotonicMs() - elapsedSince(previous, context) : undefined,
  }
  const pauseMs = async (error: unknown, { retries }: { retries: number }) => {
    signal.throwIfAborted()
    if (error instanceof EngineError && error.status === 404) {
      await rejectIfDeleted(ref.collection, context)
    }
    const pause = RETRY_DELAYS_MS[retries]
    if (!isTransient(error) || pause === undefined) return undefined
    const fields = { collection: ref.collection, node: ref.ordinal, seconds: pause / 1000 }
    log.warn({ ...fields, reason: error.message }, 'retrying snapshot')
    return pause
  }
  const afterPause = () => discardAttempt(attempt, context)
  try {
    return await retry({ time, signal, pauseMs, afterPause }, async () => {
      // Also before each retry: a node that was away returns with replicas with missing writes.
      if (!(await waitForSameTopology(round.topology, ref.collection, context))) return undefined
      return createAndUpload(attempt, round, context)
    })
  } finally {
    const { pending } = attempt
    if (pending !== undefined && !signal.aborted) {
      await deleteEngineSnapshot(ref, pending, context, context.retryBudget.nextLimitMs())
    }
  }
}

async function reuseUploaded(
  ref: SnapshotRef,
  previous: Checkpoint | undefined,
  { number, topology }: Round,
  context: RunContext,
): Promise<NodeSnapshot | undefined> {
  if (previous?.state !== 'Whole' || previous.round !== number) return undefined
  if (
    previous.fingerprint !== topology.fingerprint ||
    !(await isUploaded(previous.snapshot, context))
  ) {
    return undefined
  }
  const { key } = previous.snapshot
  const fields = { collection: ref.collection, node: ref.ordinal }
  context.tools.log.info({ ...fields, key }, 'already in the bucket')
  await deleteEngineSnapshot(ref, previous, context)
  return previous.snapshot
}

/**
 * Removes what an attempt has left in the bucket and on the node, which may still be creating the
 * snapshot.
 */
export async function cleanUpPreviousAttempt(
  ref: SnapshotRef,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  // After the checkpoint was read: it is then not that of a pod that has replaced this one.
  await context.tools.reporter.verifyOwnership()
  await deleteEngineSnapshot(ref, checkpoint, context, context.retryBudget.nextLimitMs())
  await deleteStaleObject(ref, checkpoint, context)
}

async function discardAttempt(attempt: Attempt, context: RunContext): Promise<void> {
  const { ref, pending } = attempt
  attempt.pending = undefined
  if (pending !== undefined) await cleanUpPreviousAttempt(ref, pending, context)
}

async function createAndUpload(
  attempt: Attempt,
  { number, topology }: Round,
  context: RunContext,
): Promise<NodeSnapshot> {
  const { ref } = attempt
  const { collection, ordinal } = ref
  const requireUnchanged = async (failure: string) => {
    const change = await findTopologyChange(topology, collection, context)
    if (change !== undefined) throw new EngineError(`${failure}: ${change}`)
  }
  // A replica that is missing writes may catch up before its snapshot is complete.
  const beforeRequest = async () => {
    await requireUnchanged(`a snapshot of ${collection} on node ${ordinal} was not requested`)
    await context.tools.reporter.verifyOwnership()
  }
  const { snapshot, isOwned } = await createSnapshot(attempt, beforeRequest, context)
  try {
    await requireUnchanged(`snapshot ${snapshot.name} of node ${ordinal} was discarded`)
    const uploaded = await upload(snapshotsForPod(context, ordinal), ref, snapshot, context)
    const nodeSnapshot = { ...uploaded, localShards: shardsOnNode(topology, ordinal) }
    await writeCheckpoint(
      ref,
      {
        ...{ state: 'Whole', uid: context.plan.uid, round: number },
        ...{ fingerprint: topology.fingerprint, snapshot: nodeSnapshot, isOurs: isOwned },
      },
      context,
    )
    attempt.pending = undefined
    return nodeSnapshot
  } finally {
    // The file takes up the node's disk until it is deleted, which matters most after a failed
    // upload.
    if (isOwned) await deleteSnapshotFile(ref, snapshot.name, context)
  }
}

async function upload(
  engine: EngineSnapshots,
  { collection, ordinal }: SnapshotRef,
  snapshot: Snapshot,
  context: RunContext,
): Promise<Omit<NodeSnapshot, 'localShards'>> {
  const { bucket, folder, progress, tools } = context
  const { log, signal, time } = tools
  const key = snapshotKey(folder, collection, ordinal, snapshot.name)
  requireKeyLength(key)
  const startedAt = time.monotonicMs()
  progress.startNode(ordinal, snapshot.size)
  log.info({ key, bytes: snapshot.size }, progress.statusLine())
  const digest = { sha256: '' }
  const bytes = await engine.download(collection, snapshot, signal)
  const heartbeat = setInterval(() => progress.heartbeat(), HEARTBEAT_MS)
  try {
    const source = verifiedBytes(bytes, {
      snapshot,
      ordinal,
      digest,
      onBytes: (count) => progress.transferred(count),
    })
    const { size: sizeBytes } = snapshot
    await bucket.upload({ key, source, sizeBytes, signal })
  } finally {
    clearInterval(heartbeat)
    bytes.destroy()
  }
  const seconds = (time.monotonicMs() - startedAt) / 1000
  log.info({ key, bytes: snapshot.size, seconds, sha256: digest.sha256 }, `uploaded ${key}`)
  return {
    nodeIndex: ordinal,
    key,
    snapshotName: snapshot.name,
    sizeBytes: snapshot.size,
    ...(snapshot.checksum != null && { checksum: snapshot.checksum }),
    sha256: digest.sha256,
  }
}

interface VerifyOptions {
  snapshot: Snapshot
  ordinal: number
  digest: { sha256: string }
  onBytes: (bytes: number) => void
}

/** Passes the bytes through; fails at the end if they are not those that the engine announced. */
export async function* verifiedBytes(
  bytes: AsyncIterable<Uint8Array>,
  { snapshot, ordinal, digest, onBytes }: VerifyOptions,
): AsyncGenerator<Uint8Array> {
  const { name, size, checksum } = snapshot
  const hash = createHash('sha256')
  let length = 0
  for await (const chunk of withStreamErrors(bytes, `snapshot ${name} of node ${ordinal}`)) {
    hash.update(chunk)
    length += chunk.length
    if (length > size) break
    onBytes(chunk.length)
    yield chunk
  }
  if (length !== size) {
    const received = length > size ? 'more' : `${length}`
    throw new EngineError(
      `snapshot ${name} of node ${ordinal}: received ${received} of ${size} bytes`,
    )
  }
  digest.sha256 = hash.digest('hex')
  if (checksum != null && digest.sha256 !== checksum.toLowerCase()) {
    throw new EngineError(
      `snapshot ${name} of node ${ordinal} has the SHA-256 ${digest.sha256}, but the engine reported ${checksum}`,
    )
  }
}
