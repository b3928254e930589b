/**
 * Has a node make a snapshot. The call does not wait for it: it would be silent for hours, and once it is
 * cut nobody knows whose the file is that comes later. The node says that it accepts, that is written
 * down, and then its own counts tell when the file is whole.
 */
import { EngineError } from '../../crds/errors.ts'
import { timeFor, type Snapshot } from '../clients/engine-snapshots.ts'
import { isPassing } from '../patience.ts'
import { createdNow } from './awaited.ts'
import { outcomeOf, removeFile } from './engine-files.ts'
import { writePart, type Pending, type Place } from './part.ts'
import { snapshotsOn, type Work } from './work.ts'

/** After SIGTERM a snapshot that is being made is awaited so long, to delete it. */
const LAST_WAIT_MS = 25_000
/** A small one is there at once, and there may be hundreds of them. */
const FIRST_PAUSES_MS: readonly number[] = [10, 20, 50, 100, 200, 500, 1_000, 2_000]
const PAUSE_MS = 5_000
const STILL_EVERY_MS = 30_000
/** What was accepted and is not counted after so long was refused behind our back. */
const BEGIN_MS = 30_000

export interface Attempt {
  place: Place
  round: number
  /** What is in part.json, or is about to be. */
  pending: Pending | undefined
  /** A snapshot failed without a reason: the next call waits, to hear it. */
  isReasonWanted: boolean
}

/** The file, complete on the node, and whether it was made for us. */
export async function makeSnapshot(
  attempt: Attempt,
  work: Work,
): Promise<{ snapshot: Snapshot; isOurs: boolean }> {
  const { place } = attempt
  const { bytes, creations } = await idleNode(place, work)
  const engine = snapshotsOn(work, place.ordinal)
  const { signal, log, time } = work.tools
  const existing = (await engine.list(place.collection, signal)).map(({ name }) => name)
  // Written before the engine is asked: a pod that comes after us then knows what there was before.
  const pending: Pending = {
    state: 'Pending',
    uid: work.plan.uid,
    round: attempt.round,
    at: time.now().toISOString(),
    existing,
    ...(creations && { creations: { total: creations.total, since: creations.since } }),
  }
  await write(attempt, pending, work)
  log.info({ ...place }, `node ${place.ordinal}: the engine makes the snapshot`)
  const limitMs = timeFor(bytes)
  const snapshot =
    creations === undefined || attempt.isReasonWanted
      ? await createdNow(place, limitMs, work)
      : await createdBehind(attempt, pending, limitMs, work)
  await write(attempt, { ...pending, isAccepted: true, snapshotName: snapshot.name }, work)
  return { snapshot, isOurs: !existing.includes(snapshot.name) }
}

/** Waits, within bounds, for snapshots that the node is making: of users, or of a pod that was killed. */
async function idleNode({ collection, ordinal }: Place, work: Work) {
  const { signal, log, time } = work.tools
  const limitMs = work.patience.share()
  for (let waited = 0; ; waited += PAUSE_MS) {
    const identity = await snapshotsOn(work, ordinal).identity(collection, signal)
    const running = identity.creations?.running ?? 0
    if (running === 0) return identity
    if (waited >= limitMs) {
      throw new EngineError(
        `node ${ordinal} is making ${running} other snapshots of ${collection} (waited ${waited / 1000} s)`,
      )
    }
    log.info({ collection, node: ordinal, running }, 'waits for other snapshots')
    await time.sleep(PAUSE_MS, signal)
    work.patience.spend(PAUSE_MS)
  }
}

/** Accepted, written down, and followed until it is there. */
async function createdBehind(
  attempt: Attempt,
  pending: Pending,
  limitMs: number,
  work: Work,
): Promise<Snapshot> {
  const { place } = attempt
  const { signal } = work.tools
  await snapshotsOn(work, place.ordinal).begin(place.collection, signal)
  const accepted: Pending = { ...pending, isAccepted: true }
  attempt.pending = accepted
  try {
    await write(attempt, accepted, work)
    return await untilMade(attempt, accepted, limitMs, work)
  } catch (error) {
    // Nobody may come after us: what can be deleted in the time that is left is.
    if (signal.aborted) await removeFile(place, accepted, work, LAST_WAIT_MS)
    throw error
  }
}

async function untilMade(
  attempt: Attempt,
  accepted: Pending,
  limitMs: number,
  work: Work,
): Promise<Snapshot> {
  const { place } = attempt
  const { collection, ordinal } = place
  const { signal, time, log } = work.tools
  const start = time.now().getTime()
  let toldAt = start
  const outcomeNow = answeredWithin(work.patience.share(), work, () =>
    outcomeOf(place, accepted, work, signal),
  )
  for (let polls = 0; ; polls += 1) {
    await time.sleep(FIRST_PAUSES_MS[polls] ?? PAUSE_MS, signal)
    const elapsed = time.now().getTime() - start
    const outcome = await outcomeNow()
    if (outcome?.is === 'made') return outcome.snapshot
    if (outcome?.is === 'unclear') {
      throw new EngineError(
        `node ${ordinal}: other snapshots of ${collection} were made at the same time, or it was restarted: which of ${outcome.names.join(', ')} is the backup’s is not known`,
      )
    }
    if (outcome?.is === 'none' && (outcome.hasBegun || elapsed >= BEGIN_MS)) {
      attempt.isReasonWanted = true
      throw new EngineError(`node ${ordinal} made no snapshot of ${collection}: its log says why`)
    }
    if (elapsed >= limitMs) {
      throw new EngineError(
        `node ${ordinal} has not made the snapshot of ${collection} in ${Math.round(elapsed / 60_000)} minutes`,
      )
    }
    if (time.now().getTime() - toldAt < STILL_EVERY_MS) continue
    toldAt = time.now().getTime()
    log.info({ collection, node: ordinal }, `node ${ordinal}: still makes the snapshot`)
    work.tally.tell()
  }
}

/**
 * Answers with undefined while the node does not answer: it may be slow while it makes a snapshot. Past
 * the limit its error is thrown, and at once when the collection is gone.
 */
function answeredWithin<Result>(
  limitMs: number,
  { tools: { time } }: Work,
  ask: () => Promise<Result>,
): () => Promise<Result | undefined> {
  let answeredAt = time.now().getTime()
  return async () => {
    try {
      const answer = await ask()
      answeredAt = time.now().getTime()
      return answer
    } catch (error) {
      const silentMs = time.now().getTime() - answeredAt
      if (!isPassing(error) || error.status === 404 || silentMs >= limitMs) throw error
      return undefined
    }
  }
}

async function write(attempt: Attempt, pending: Pending, work: Work): Promise<void> {
  attempt.pending = pending
  await writePart(attempt.place, pending, work)
}
