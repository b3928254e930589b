/**
 * Snapshot files on the nodes. A node goes on with a snapshot when nobody waits for it any more, and its
 * file fills the data volume until it is deleted. Only what is proved to be made for this backup is: users
 * make snapshots too, at any time.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { EngineSnapshots, Snapshot } from '../clients/engine/snapshots.ts'
import type { Checkpoint, Pending, SnapshotRef } from './checkpoint.ts'
import { recordUndeletedSnapshot, snapshotsForPod, type RunContext } from './context.ts'

const CLEANUP_TIMEOUT_MS = 20_000
const DELETE_ATTEMPTS = 3
const DELETE_RETRY_DELAY_MS = 2_000
const POLL_MS = 5_000

/** What became of a snapshot that a node was asked for. */
export type SnapshotOutcome =
  | { is: 'making' }
  | { is: 'made'; snapshot: Snapshot }
  /** The node does not make it: it has not begun yet, or it has ended without a file. */
  | { is: 'none'; hasStarted: boolean }
  /** Others were made at the same time, or the node was restarted: whose the files are nobody can tell. */
  | { is: 'unclear'; names: string[] }

/**
 * One file that is new, of one snapshot that the node began since, after it accepted ours: that is ours.
 * Where it did not accept, there is no proof.
 */
export async function readSnapshotOutcome(
  { collection, ordinal }: SnapshotRef,
  { existing, creations: before, isAccepted = false }: Pending,
  context: RunContext,
  signal: AbortSignal,
): Promise<SnapshotOutcome> {
  const engine = snapshotsForPod(context, ordinal)
  // Counted before files are listed: what has ended by then is among them.
  const { creations: now } = await engine.identity(collection, signal)
  const isSameProcess = now?.since === before?.since
  if (isSameProcess && now !== undefined && now.running > 0) return { is: 'making' }
  const existingNames = new Set(existing)
  const files = (await engine.list(collection, signal)).filter(
    ({ name }) => !existingNames.has(name),
  )
  const startedCount = (now?.total ?? 0) - (before?.total ?? 0)
  const [first] = files
  const hasNotStarted = before !== undefined && isSameProcess && startedCount === 0
  if (first === undefined || hasNotStarted) return { is: 'none', hasStarted: !hasNotStarted }
  const isOwned = before !== undefined && isSameProcess && isAccepted && startedCount === 1
  if (isOwned && files.length === 1) return { is: 'made', snapshot: first }
  return { is: 'unclear', names: files.map(({ name }) => name) }
}

/**
 * Deletes the file of an attempt, if it is ours; within the limit it waits for a node that still makes it.
 * What may be ours and cannot be deleted is told at the end. Goes on when the Job is being ended.
 */
export async function deleteEngineSnapshot(
  ref: SnapshotRef,
  checkpoint: Checkpoint,
  context: RunContext,
  limitMs = CLEANUP_TIMEOUT_MS,
): Promise<void> {
  if (checkpoint.state === 'Begun') return
  if (checkpoint.state === 'Whole') {
    const { snapshotName: name } = checkpoint.snapshot
    if (checkpoint.isOurs === true) await deleteSnapshotFile(ref, name, context)
    return
  }
  if (checkpoint.snapshotName !== undefined) {
    if (!checkpoint.existing.includes(checkpoint.snapshotName)) {
      await deleteSnapshotFile(ref, checkpoint.snapshotName, context)
    }
    return
  }
  await deleteUnnamedSnapshot(ref, checkpoint, context, limitMs)
}

async function deleteUnnamedSnapshot(
  ref: SnapshotRef,
  checkpoint: Pending,
  context: RunContext,
  limitMs: number,
): Promise<void> {
  const node = `node ${ref.ordinal}`
  const recordRemaining = (description: string) =>
    recordUndeletedSnapshot(context, { ...ref, description })
  try {
    const outcome = await waitForOutcome(ref, checkpoint, context, limitMs)
    if (outcome.is === 'made') await deleteSnapshotFile(ref, outcome.snapshot.name, context)
    if (outcome.is === 'making') {
      recordRemaining(`the snapshot of ${ref.collection} that ${node} is still making`)
    }
    if (outcome.is === 'unclear') {
      recordRemaining(`of ${outcome.names.join(', ')} on ${node}, the one you did not make`)
    }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    // The collection is gone, and its files with it.
    if (error.status === 404) return
    context.tools.log.warn({ ...ref, reason: error.message }, 'files of the engine not deleted')
    recordRemaining(`perhaps a snapshot of ${ref.collection} on ${node}, which did not answer`)
  }
}

async function waitForOutcome(
  ref: SnapshotRef,
  checkpoint: Pending,
  context: RunContext,
  limitMs: number,
): Promise<SnapshotOutcome> {
  for (let waited = 0; ; waited += POLL_MS) {
    const outcome = await readSnapshotOutcome(
      ref,
      checkpoint,
      context,
      AbortSignal.timeout(CLEANUP_TIMEOUT_MS),
    )
    if (outcome.is !== 'making' || waited >= limitMs) return outcome
    await context.tools.time.sleep(POLL_MS)
  }
}

/** A node that cannot be asked keeps the file, and that is told at the end. */
export async function deleteSnapshotFile(
  ref: SnapshotRef,
  name: string,
  context: RunContext,
): Promise<void> {
  const { collection, ordinal } = ref
  const { tools } = context
  const engine: EngineSnapshots = snapshotsForPod(context, ordinal)
  // Not the signal of the Job: this is what is still done when it aborts.
  const deadline = AbortSignal.timeout(CLEANUP_TIMEOUT_MS)
  for (let attempt = 1; ; attempt += 1) {
    try {
      await engine.delete(collection, name, deadline)
      tools.log.info({ collection, node: ordinal, snapshot: name }, 'deleted the engine’s file')
      return
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return
      if (attempt < DELETE_ATTEMPTS && !deadline.aborted) {
        await tools.time.sleep(DELETE_RETRY_DELAY_MS)
        continue
      }
      const reason = error instanceof Error ? error.message : String(error)
      tools.log.warn({ collection, node: ordinal, snapshot: name, reason }, 'file not deleted')
      recordUndeletedSnapshot(context, { ...ref, description: `${name} on node ${ordinal}` })
      return
    }
  }
}
