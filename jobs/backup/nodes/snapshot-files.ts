/**
 * Snapshot files on the nodes. A node continues a snapshot after the client has gone, and the file
 * takes up space on the data volume until it is deleted. Only files that were provably created for
 * this backup are deleted: users may create snapshots at any time.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { Snapshot } from '../../clients/engine/responses.ts'
import { snapshotTimeoutMs, type EngineSnapshots } from '../../clients/engine/snapshots.ts'
import { isTransient, poll, retry } from '../../retry.ts'
import { recordUndeletedSnapshot, snapshotsForPod, type RunContext } from '../context.ts'
import type { Checkpoint, Pending, SnapshotRef } from './checkpoint.ts'

/** A Job that is being stopped has no more time. */
const CLEANUP_TIMEOUT_MS = 20_000
/** Telemetry waits while a snapshot is created, up to a minute. */
const OUTCOME_TIMEOUT_MS = 70_000
/** How long to wait after SIGTERM for a snapshot in progress in order to delete it. */
export const SHUTDOWN_WAIT_MS = 25_000
export const STATUS_INTERVAL_MS = 30_000
const DELETE_ATTEMPTS = 3
const DELETE_RETRY_DELAY_MS = 2_000
const POLL_MS = 5_000
/** Number of files that a message names; the rest is only counted. */
const MAX_UNDELETED = 5

/** State of a snapshot that a node was asked for. */
export type SnapshotOutcome =
  | { is: 'making'; bytes: number | undefined }
  | { is: 'made'; snapshot: Snapshot }
  /** The node is not creating it: it has not started yet, or it has ended without a file. */
  | { is: 'none'; hasStarted: boolean }
  /**
   * Other snapshots were created at the same time, or the node was restarted: the owner of each
   * file is unknown.
   */
  | { is: 'unclear'; names: string[] }

/**
 * The snapshot belongs to this backup if there is one new file from the only snapshot that the node
 * has started since it accepted the request. Without the acceptance there is no proof.
 */
export async function readSnapshotOutcome(
  { collection, ordinal }: SnapshotRef,
  { existing, creations: before, isAccepted = false }: Pending,
  context: RunContext,
  signal: AbortSignal,
): Promise<SnapshotOutcome> {
  const engine = snapshotsForPod(context, ordinal)
  // Counted before the files are listed, so that the list includes everything that has ended by
  // then.
  const { bytes, creations: now } = await engine.identity(collection, signal)
  const isSameProcess = now?.since === before?.since
  if (isSameProcess && now !== undefined && now.running > 0) return { is: 'making', bytes }
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
 * Deletes the file of an attempt if it belongs to this backup; waits for a node that is still
 * creating it, within the limit or as long as its size allows. A file that may belong to this
 * backup and cannot be deleted is reported at the end. Continues while the Job is being stopped.
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
    if (outcome.is === 'made') {
      const { signal, reporter } = context.tools
      // The wait may have taken hours, in which another pod may have replaced this one.
      if (!signal.aborted) await reporter.verifyOwnership()
      await deleteSnapshotFile(ref, outcome.snapshot.name, context)
    }
    if (outcome.is === 'making') {
      recordRemaining(`the snapshot of ${ref.collection} that ${node} is still making`)
    }
    if (outcome.is === 'unclear') {
      recordRemaining(`of ${outcome.names.join(', ')} on ${node}, the one you did not make`)
    }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    // The collection and its files are gone.
    if (error.status === 404) return
    context.tools.log.warn({ ...ref, reason: error.message }, 'engine snapshot not deleted')
    recordRemaining(`perhaps a snapshot of ${ref.collection} on ${node}, which did not answer`)
  }
}

/** What the message of the backup says about files that remain. */
export function formatUndeleted({
  undeletedSnapshots,
}: Pick<RunContext, 'undeletedSnapshots'>): string {
  if (undeletedSnapshots.length === 0) return ''
  const more = undeletedSnapshots.length - MAX_UNDELETED
  const descriptions = undeletedSnapshots.map(({ description }) => description)
  const listed = descriptions.slice(0, MAX_UNDELETED).join('; ')
  return `; still on nodes, to be deleted there: ${listed}${more > 0 ? `; and ${more} more` : ''}`
}

async function waitForOutcome(
  ref: SnapshotRef,
  checkpoint: Pending,
  context: RunContext,
  limitMs: number,
): Promise<SnapshotOutcome> {
  const { time, signal, log } = context.tools
  let abortedAtMs: number | undefined
  let reportedAtMs = 0
  let seenMakingAtMs: number | undefined
  const afterPause = () => (signal.aborted ? undefined : context.progress.flush())
  return poll({ time, pauseMs: POLL_MS, afterPause }, async ({ waitedMs }) => {
    const timeoutMs = signal.aborted ? CLEANUP_TIMEOUT_MS : OUTCOME_TIMEOUT_MS
    const deadline = AbortSignal.timeout(timeoutMs)
    const outcome = await readSnapshotOutcome(ref, checkpoint, context, deadline).catch(
      (error: unknown): undefined => {
        // A node that is creating a snapshot may be slow.
        const silentMs = waitedMs() - (seenMakingAtMs ?? -Infinity)
        if (!signal.aborted && silentMs < limitMs && mayPass(error, deadline)) return undefined
        if (error !== deadline.reason) throw error
        throw new EngineError(`node ${ref.ordinal} did not answer in ${timeoutMs / 1000} s`)
      },
    )
    if (outcome?.is !== 'making') return outcome
    const waited = (seenMakingAtMs = waitedMs())
    if (signal.aborted && waited - (abortedAtMs ??= waited) >= SHUTDOWN_WAIT_MS) return outcome
    const remainingMs = snapshotTimeoutMs(outcome.bytes) - elapsedSince(checkpoint, context)
    if (waited >= limitMs && remainingMs <= 0) return outcome
    if (signal.aborted || waited - reportedAtMs < STATUS_INTERVAL_MS) return undefined
    reportedAtMs = waited
    log.info({ ...ref }, `node ${ref.ordinal}: waiting for the snapshot of an earlier attempt`)
    context.progress.report()
    return undefined
  })
}

/** The collection of a 404 is gone, and its files with it. */
function mayPass(error: unknown, deadline: AbortSignal): boolean {
  return error === deadline.reason || (isTransient(error) && error.status !== 404)
}

/** Milliseconds since the node was asked for the snapshot; the clock of an earlier pod may differ. */
export function elapsedSince({ at }: Pending, { tools: { time } }: RunContext): number {
  return Math.max(0, time.now().getTime() - new Date(at).getTime())
}

/** If the node cannot be asked, the file remains and is reported at the end. */
export async function deleteSnapshotFile(
  ref: SnapshotRef,
  name: string,
  context: RunContext,
): Promise<void> {
  const { collection, ordinal } = ref
  const { tools } = context
  const engine: EngineSnapshots = snapshotsForPod(context, ordinal)
  // Not the signal of the Job: this cleanup still runs after that signal has aborted.
  const deadline = AbortSignal.timeout(CLEANUP_TIMEOUT_MS)
  const isGone = (error: unknown) => error instanceof EngineError && error.status === 404
  const pauseMs = (error: unknown, { retries }: { retries: number }) => {
    const isLast = retries + 1 >= DELETE_ATTEMPTS || deadline.aborted
    return isLast || isGone(error) ? undefined : DELETE_RETRY_DELAY_MS
  }
  const fields = { collection, node: ordinal, snapshot: name }
  try {
    await retry({ time: tools.time, pauseMs }, () => engine.delete(collection, name, deadline))
    tools.log.info(fields, 'engine snapshot deleted')
  } catch (error) {
    if (isGone(error)) return
    const reason = error instanceof Error ? error.message : String(error)
    tools.log.warn({ ...fields, reason }, 'engine snapshot not deleted')
    recordUndeletedSnapshot(context, { ...ref, description: `${name} on node ${ordinal}` })
  }
}
