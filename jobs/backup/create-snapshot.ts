/**
 * Has a node make a snapshot. The call does not wait for it: it would be silent for hours, and once it is
 * cut nobody knows whose the file is that comes later. The node says that it accepts, that is written
 * down, and then its own counts tell when the file is whole.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { snapshotTimeoutMs, type Snapshot } from '../clients/engine/snapshots.ts'
import { isTransient } from '../retry.ts'
import { writeCheckpoint, type Pending, type SnapshotRef } from './checkpoint.ts'
import { snapshotsForPod, type RunContext } from './context.ts'
import { deleteEngineSnapshot, deleteSnapshotFile, readSnapshotOutcome } from './snapshot-files.ts'

/** After SIGTERM a snapshot that is being made is awaited so long, to delete it. */
const SHUTDOWN_WAIT_MS = 25_000
/** A small one is there at once, and there may be hundreds of them. */
const INITIAL_POLL_DELAYS_MS: readonly number[] = [10, 20, 50, 100, 200, 500, 1_000, 2_000]
const POLL_INTERVAL_MS = 5_000
const STATUS_INTERVAL_MS = 30_000
/** What was accepted and is not counted after so long was refused behind our back. */
const START_TIMEOUT_MS = 30_000

export interface Attempt {
  ref: SnapshotRef
  round: number
  /** What is in part.json, or is about to be. */
  pending: Pending | undefined
  /** A snapshot failed without a reason: the next call waits, to hear it. */
  waitForReason: boolean
}

/** The file, complete on the node, and whether it was made for us. */
export async function createSnapshot(
  attempt: Attempt,
  context: RunContext,
): Promise<{ snapshot: Snapshot; isOwned: boolean }> {
  const { ref } = attempt
  const { bytes, creations } = await waitForIdleNode(ref, context)
  const engine = snapshotsForPod(context, ref.ordinal)
  const { signal, log, time } = context.tools
  const existing = (await engine.list(ref.collection, signal)).map(({ name }) => name)
  // Written before the engine is asked: a pod that comes after us then knows what there was before.
  const pending: Pending = {
    state: 'Pending',
    uid: context.plan.uid,
    round: attempt.round,
    at: time.now().toISOString(),
    existing,
    ...(creations && { creations: { total: creations.total, since: creations.since } }),
  }
  await writePending(attempt, pending, context)
  log.info({ ...ref }, `node ${ref.ordinal}: the engine makes the snapshot`)
  const limitMs = snapshotTimeoutMs(bytes)
  const snapshot =
    creations === undefined || attempt.waitForReason
      ? await createAndWait(ref, limitMs, context)
      : await createInBackground(attempt, pending, limitMs, context)
  await writePending(
    attempt,
    { ...pending, isAccepted: true, snapshotName: snapshot.name },
    context,
  )
  return { snapshot, isOwned: !existing.includes(snapshot.name) }
}

/** Waits, within bounds, for snapshots that the node is making: of users, or of a pod that was killed. */
async function waitForIdleNode({ collection, ordinal }: SnapshotRef, context: RunContext) {
  const { signal, log, time } = context.tools
  const limitMs = context.patience.nextLimitMs()
  for (let waited = 0; ; waited += POLL_INTERVAL_MS) {
    const identity = await snapshotsForPod(context, ordinal).identity(collection, signal)
    const running = identity.creations?.running ?? 0
    if (running === 0) return identity
    if (waited >= limitMs) {
      throw new EngineError(
        `node ${ordinal} is making ${running} other snapshots of ${collection} (waited ${waited / 1000} s)`,
      )
    }
    log.info({ collection, node: ordinal, running }, 'waits for other snapshots')
    await time.sleep(POLL_INTERVAL_MS, signal)
    context.patience.consume(POLL_INTERVAL_MS)
  }
}

/** Accepted, written down, and followed until it is there. */
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
    // Nobody may come after us: what can be deleted in the time that is left is.
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
  const start = time.now().getTime()
  let reportedAt = start
  const pollOutcome = withSilenceLimit(context.patience.nextLimitMs(), context, () =>
    readSnapshotOutcome(ref, accepted, context, signal),
  )
  for (let polls = 0; ; polls += 1) {
    await time.sleep(INITIAL_POLL_DELAYS_MS[polls] ?? POLL_INTERVAL_MS, signal)
    const elapsed = time.now().getTime() - start
    const outcome = await pollOutcome()
    if (outcome?.is === 'made') return outcome.snapshot
    if (outcome?.is === 'unclear') {
      throw new EngineError(
        `node ${ordinal}: other snapshots of ${collection} were made at the same time, or it was restarted: which of ${outcome.names.join(', ')} is the backup’s is not known`,
      )
    }
    if (outcome?.is === 'none' && (outcome.hasStarted || elapsed >= START_TIMEOUT_MS)) {
      attempt.waitForReason = true
      throw new EngineError(`node ${ordinal} made no snapshot of ${collection}: its log says why`)
    }
    if (elapsed >= limitMs) {
      throw new EngineError(
        `node ${ordinal} has not made the snapshot of ${collection} in ${Math.round(elapsed / 60_000)} minutes`,
      )
    }
    if (time.now().getTime() - reportedAt < STATUS_INTERVAL_MS) continue
    reportedAt = time.now().getTime()
    log.info({ collection, node: ordinal }, `node ${ordinal}: still makes the snapshot`)
    context.progress.report()
  }
}

/**
 * Answers with undefined while the node does not answer: it may be slow while it makes a snapshot. Past
 * the limit its error is thrown, and at once when the collection is gone.
 */
function withSilenceLimit<Result>(
  limitMs: number,
  { tools: { time } }: RunContext,
  poll: () => Promise<Result>,
): () => Promise<Result | undefined> {
  let lastAnswerAt = time.now().getTime()
  return async () => {
    try {
      const result = await poll()
      lastAnswerAt = time.now().getTime()
      return result
    } catch (error) {
      const silentMs = time.now().getTime() - lastAnswerAt
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
/** After SIGTERM the answer is awaited so long: only it tells the name of the file. */
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
    log.info({ collection, node: ordinal }, `node ${ordinal}: still makes the snapshot`)
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
