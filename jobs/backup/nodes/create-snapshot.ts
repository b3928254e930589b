/**
 * Has a node create a snapshot without waiting in the call: the call would be silent for hours, and
 * once it is cut off, the owner of a file that appears later is unknown. The node accepts the
 * request, the acceptance is recorded in checkpoint.json, and the node's own counters then show when the
 * file is complete. If the node gives no reason for a failure, the next call waits for the response
 * in order to get the reason.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { Snapshot } from '../../clients/engine/responses.ts'
import { snapshotTimeoutMs, type CollectionIdentity } from '../../clients/engine/snapshots.ts'
import { isTransient, poll } from '../../retry.ts'
import { snapshotsForPod, type RunContext } from '../context.ts'
import { writeCheckpoint, type Pending, type SnapshotRef } from './checkpoint.ts'
import {
  SHUTDOWN_WAIT_MS,
  STATUS_INTERVAL_MS,
  deleteEngineSnapshot,
  deleteSnapshotFile,
  readSnapshotOutcome,
} from './snapshot-files.ts'

/** Small snapshots are complete at once, and there may be hundreds of them. */
const INITIAL_POLL_DELAYS_MS: readonly number[] = [10, 20, 50, 100, 200, 500, 1_000, 2_000]
const POLL_INTERVAL_MS = 5_000
/**
 * A snapshot that was accepted but is not counted after this time was rejected in the background.
 */
const START_TIMEOUT_MS = 30_000

export interface Attempt {
  ref: SnapshotRef
  round: number
  /** What checkpoint.json contains or is about to contain. */
  pending: Pending | undefined
  /** A snapshot failed without a reason: the next call waits for the response to get the reason. */
  waitForReason: boolean
  /** Since when the node has been creating a snapshot, by the monotonic clock; undefined if it is idle. */
  busySinceMs: number | undefined
}

/**
 * The complete file on the node, and whether it was created for this backup. `beforeRequest` is awaited
 * directly before the request: the node may have been busy for minutes.
 */
export async function createSnapshot(
  attempt: Attempt,
  beforeRequest: () => Promise<void>,
  context: RunContext,
): Promise<{ snapshot: Snapshot; isOwned: boolean }> {
  const { ref } = attempt
  const { bytes, creations } = await waitForIdleNode(attempt, context)
  const engine = snapshotsForPod(context, ref.ordinal)
  const { signal, log, time } = context.tools
  const existing = (await engine.list(ref.collection, signal)).map(({ name }) => name)
  // Written before the engine is asked: a later pod then knows which files existed before.
  const pending: Pending = {
    state: 'Pending',
    uid: context.plan.uid,
    round: attempt.round,
    at: time.now().toISOString(),
    existing,
    ...(creations && { creations: { total: creations.total, since: creations.since } }),
  }
  await writePending(attempt, pending, context)
  await beforeRequest()
  log.info({ ...ref }, `node ${ref.ordinal}: creating the snapshot`)
  const limitMs = snapshotTimeoutMs(bytes)
  attempt.busySinceMs = time.monotonicMs()
  const snapshot =
    creations === undefined || attempt.waitForReason
      ? await createAndWait(ref, limitMs, context)
      : await createInBackground(attempt, pending, limitMs, context)
  attempt.busySinceMs = undefined
  await writePending(
    attempt,
    { ...pending, isAccepted: true, snapshotName: snapshot.name },
    context,
  )
  return { snapshot, isOwned: !existing.includes(snapshot.name) }
}

/**
 * Waits for snapshots in progress on the node that belong to users or to a pod that was killed: as
 * long as the size of the collection allows, then within the budget.
 */
async function waitForIdleNode(attempt: Attempt, context: RunContext): Promise<CollectionIdentity> {
  const { collection, ordinal } = attempt.ref
  const { signal, log, time } = context.tools
  const limitMs = context.retryBudget.nextLimitMs()
  const readIdentity = () => snapshotsForPod(context, ordinal).identity(collection, signal)
  let read: () => Promise<CollectionIdentity | undefined> = readIdentity
  let overdueSinceMs: number | undefined
  let reportedAtMs = time.monotonicMs()
  const afterPause = () => context.progress.flush()
  return poll({ time, signal, pauseMs: POLL_INTERVAL_MS, afterPause }, async (state) => {
    const identity = await read()
    if (identity === undefined) return undefined
    const running = identity.creations?.running ?? 0
    if (running === 0) return identity
    // From now on it may be slow.
    if (read === readIdentity) read = withSilenceLimit(limitMs, context, readIdentity)
    const now = time.monotonicMs()
    attempt.busySinceMs ??= now
    if (now - attempt.busySinceMs >= snapshotTimeoutMs(identity.bytes)) {
      overdueSinceMs ??= now
      context.retryBudget.consume(now - overdueSinceMs, now)
      if (now - overdueSinceMs >= limitMs) {
        throw new EngineError(
          `node ${ordinal} is creating ${running} other snapshots of ${collection} (waited ${Math.round(state.waitedMs() / 1000)} s)`,
        )
      }
    }
    log.info({ collection, node: ordinal, running }, 'waiting for other snapshots')
    if (now - reportedAtMs < STATUS_INTERVAL_MS) return undefined
    reportedAtMs = now
    context.progress.report()
    return undefined
  })
}

/** Requests the snapshot, records the acceptance and polls until the file is complete. */
async function createInBackground(
  attempt: Attempt,
  pending: Pending,
  limitMs: number,
  context: RunContext,
): Promise<Snapshot> {
  const { ref } = attempt
  const { signal } = context.tools
  await snapshotsForPod(context, ref.ordinal).begin(ref.collection, signal)
  const accepted: Pending = { ...pending, isAccepted: true }
  attempt.pending = accepted
  try {
    await writePending(attempt, accepted, context)
    return await waitForSnapshot(attempt, accepted, limitMs, context)
  } catch (error) {
    // There may be no later pod: delete what can be deleted in the remaining time.
    if (signal.aborted) await deleteEngineSnapshot(ref, accepted, context, SHUTDOWN_WAIT_MS)
    throw error
  }
}

async function waitForSnapshot(
  attempt: Attempt,
  accepted: Pending,
  limitMs: number,
  context: RunContext,
): Promise<Snapshot> {
  const { ref } = attempt
  const { collection, ordinal } = ref
  const { signal, time, log } = context.tools
  const start = time.monotonicMs()
  let reportedAt = start
  const pollOutcome = withSilenceLimit(context.retryBudget.nextLimitMs(), context, () =>
    readSnapshotOutcome(ref, accepted, context, signal),
  )
  const pauseMs = [...INITIAL_POLL_DELAYS_MS, POLL_INTERVAL_MS]
  return poll({ time, signal, pauseMs, pauseFirst: true }, async () => {
    const elapsed = time.monotonicMs() - start
    const outcome = await pollOutcome()
    if (outcome?.is === 'made') return outcome.snapshot
    if (outcome?.is === 'unclear') {
      throw new EngineError(
        `node ${ordinal}: other snapshots of ${collection} were made at the same time, or it was restarted: it is unknown which of ${outcome.names.join(', ')} belongs to the backup`,
      )
    }
    if (outcome?.is === 'none' && (outcome.hasStarted || elapsed >= START_TIMEOUT_MS)) {
      attempt.waitForReason = true
      throw new EngineError(`node ${ordinal} created no snapshot of ${collection}: see its log`)
    }
    if (elapsed >= limitMs) {
      throw new EngineError(
        `node ${ordinal} did not complete the snapshot of ${collection} in ${Math.round(elapsed / 60_000)} minutes`,
      )
    }
    if (time.monotonicMs() - reportedAt < STATUS_INTERVAL_MS) return undefined
    reportedAt = time.monotonicMs()
    log.info({ collection, node: ordinal }, `node ${ordinal}: snapshot still in progress`)
    context.progress.report()
    return undefined
  })
}

/**
 * Returns undefined while the node does not respond: it may be slow while it creates a snapshot.
 * Throws its error once the limit is exceeded, or at once if the collection is gone.
 */
function withSilenceLimit<Result>(
  limitMs: number,
  { tools: { time } }: RunContext,
  poll: () => Promise<Result>,
): () => Promise<Result | undefined> {
  let lastAnswerAt = time.monotonicMs()
  return async () => {
    try {
      const result = await poll()
      lastAnswerAt = time.monotonicMs()
      return result
    } catch (error) {
      const silentMs = time.monotonicMs() - lastAnswerAt
      if (!isTransient(error) || error.status === 404 || silentMs >= limitMs) throw error
      return undefined
    }
  }
}

async function writePending(
  attempt: Attempt,
  pending: Pending,
  context: RunContext,
): Promise<void> {
  attempt.pending = pending
  await writeCheckpoint(attempt.ref, pending, context)
}

const CREATE_STATUS_INTERVAL_MS = 30_000
/**
 * How long to wait after SIGTERM for the response: only the response contains the name of the file.
 */
const CREATE_SHUTDOWN_WAIT_MS = 25_000

export async function createAndWait(
  ref: SnapshotRef,
  limitMs: number,
  context: RunContext,
): Promise<Snapshot> {
  const { log, signal } = context.tools
  const { collection, ordinal } = ref
  const abortCall = new AbortController()
  const creation = snapshotsForPod(context, ordinal).create(collection, limitMs, abortCall.signal)
  const heartbeat = setInterval(() => {
    log.info({ collection, node: ordinal }, `node ${ordinal}: snapshot still in progress`)
    context.progress.report()
  }, CREATE_STATUS_INTERVAL_MS)
  try {
    return await abortable(creation, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    const lateSnapshot = await abortable(
      creation,
      AbortSignal.timeout(CREATE_SHUTDOWN_WAIT_MS),
    ).catch(() => undefined)
    if (lateSnapshot !== undefined) await deleteSnapshotFile(ref, lateSnapshot.name, context)
    throw error
  } finally {
    clearInterval(heartbeat)
    abortCall.abort()
  }
}

async function abortable<Result>(operation: Promise<Result>, signal: AbortSignal): Promise<Result> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([operation, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
