/**
 * Snapshot files on the nodes. A node goes on with a snapshot when nobody waits for it any more, and its
 * file fills the data volume until it is deleted. Only what is proved to be made for this backup is: users
 * make snapshots too, at any time.
 */
import { EngineError } from '../../crds/errors.ts'
import type { EngineSnapshots, Snapshot } from '../clients/engine-snapshots.ts'
import type { Part, Pending, Place } from './part.ts'
import { recordLeftBehind, snapshotsOn, type Work } from './work.ts'

const CLEAN_UP_MS = 20_000
const DELETE_ATTEMPTS = 3
const DELETE_RETRY_MS = 2_000
const POLL_MS = 5_000

/** What became of a snapshot that a node was asked for. */
export type Outcome =
  | { is: 'making' }
  | { is: 'made'; snapshot: Snapshot }
  /** The node does not make it: it has not begun yet, or it has ended without a file. */
  | { is: 'none'; hasBegun: boolean }
  /** Others were made at the same time, or the node was restarted: whose the files are nobody can tell. */
  | { is: 'unclear'; names: string[] }

/**
 * One file that is new, of one snapshot that the node began since, after it accepted ours: that is ours.
 * Where it did not accept, there is no proof.
 */
export async function outcomeOf(
  { collection, ordinal }: Place,
  { existing, creations: before, isAccepted = false }: Pending,
  work: Work,
  signal: AbortSignal,
): Promise<Outcome> {
  const engine = snapshotsOn(work, ordinal)
  // Counted before files are listed: what has ended by then is among them.
  const { creations: now } = await engine.identity(collection, signal)
  const isSameProcess = now?.since === before?.since
  if (isSameProcess && now !== undefined && now.running > 0) return { is: 'making' }
  const known = new Set(existing)
  const files = (await engine.list(collection, signal)).filter(({ name }) => !known.has(name))
  const begun = (now?.total ?? 0) - (before?.total ?? 0)
  const [first] = files
  const isUnbegun = before !== undefined && isSameProcess && begun === 0
  if (first === undefined || isUnbegun) return { is: 'none', hasBegun: !isUnbegun }
  const isOurs = before !== undefined && isSameProcess && isAccepted && begun === 1
  if (isOurs && files.length === 1) return { is: 'made', snapshot: first }
  return { is: 'unclear', names: files.map(({ name }) => name) }
}

/**
 * Deletes the file of an attempt, if it is ours; within the limit it waits for a node that still makes it.
 * What may be ours and cannot be deleted is told at the end. Goes on when the Job is being ended.
 */
export async function removeFile(
  place: Place,
  part: Part,
  work: Work,
  limitMs = CLEAN_UP_MS,
): Promise<void> {
  if (part.state === 'Begun') return
  if (part.state === 'Whole') {
    const { snapshotName: name } = part.snapshot
    if (part.isOurs === true) await deleteFile(place, name, work)
    return
  }
  if (part.snapshotName !== undefined) {
    if (!part.existing.includes(part.snapshotName)) {
      await deleteFile(place, part.snapshotName, work)
    }
    return
  }
  await removeUnnamed(place, part, work, limitMs)
}

async function removeUnnamed(
  place: Place,
  part: Pending,
  work: Work,
  limitMs: number,
): Promise<void> {
  const node = `node ${place.ordinal}`
  const remains = (description: string) => recordLeftBehind(work, { ...place, description })
  try {
    const outcome = await settledOutcome(place, part, work, limitMs)
    if (outcome.is === 'made') await deleteFile(place, outcome.snapshot.name, work)
    if (outcome.is === 'making') {
      remains(`the snapshot of ${place.collection} that ${node} is still making`)
    }
    if (outcome.is === 'unclear') {
      remains(`of ${outcome.names.join(', ')} on ${node}, the one you did not make`)
    }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    // The collection is gone, and its files with it.
    if (error.status === 404) return
    work.tools.log.warn({ ...place, reason: error.message }, 'files of the engine not deleted')
    remains(`perhaps a snapshot of ${place.collection} on ${node}, which did not answer`)
  }
}

async function settledOutcome(
  place: Place,
  part: Pending,
  work: Work,
  limitMs: number,
): Promise<Outcome> {
  for (let waited = 0; ; waited += POLL_MS) {
    const outcome = await outcomeOf(place, part, work, AbortSignal.timeout(CLEAN_UP_MS))
    if (outcome.is !== 'making' || waited >= limitMs) return outcome
    await work.tools.time.sleep(POLL_MS)
  }
}

/** A node that cannot be asked keeps the file, and that is told at the end. */
export async function deleteFile(place: Place, name: string, work: Work): Promise<void> {
  const { collection, ordinal } = place
  const { tools } = work
  const engine: EngineSnapshots = snapshotsOn(work, ordinal)
  // Not the signal of the Job: this is what is still done when it aborts.
  const limit = AbortSignal.timeout(CLEAN_UP_MS)
  for (let attempt = 1; ; attempt += 1) {
    try {
      await engine.delete(collection, name, limit)
      tools.log.info({ collection, node: ordinal, snapshot: name }, 'deleted the engine’s file')
      return
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return
      if (attempt < DELETE_ATTEMPTS && !limit.aborted) {
        await tools.time.sleep(DELETE_RETRY_MS)
        continue
      }
      const reason = error instanceof Error ? error.message : String(error)
      tools.log.warn({ collection, node: ordinal, snapshot: name, reason }, 'file not deleted')
      recordLeftBehind(work, { ...place, description: `${name} on node ${ordinal}` })
      return
    }
  }
}
