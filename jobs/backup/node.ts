/** One node's snapshot of one collection: from the engine through a SHA-256 into the bucket. */
import { createHash } from 'node:crypto'
import { EngineError } from '../../crds/errors.ts'
import { snapshotKey } from '../../crds/layout.ts'
import type { NodeSnapshot } from '../../crds/manifest.ts'
import type { EngineSnapshots, Snapshot } from '../clients/engine-snapshots.ts'
import { isPassing } from '../patience.ts'
import { deleteFile, removeFile } from './engine-files.ts'
import { makeSnapshot, type Attempt } from './making.ts'
import { isThere, readable, refuseLong } from './object.ts'
import { removeObject, writePart, type Part, type Place } from './part.ts'
import { isSettled, shardsOn, whyUnlike, type Shape } from './shape.ts'
import { refuseDeleted } from './source.ts'
import { RETRIES_MS, STALL_EVERY_MS, snapshotsOn, type Work } from './work.ts'

/** Snapshots of one round are of one shape. */
export interface Round {
  number: number
  shape: Shape
}

/**
 * The snapshot of a node, taken now, or by an earlier pod in the same round, as `left` tells. Undefined when the
 * collection is not as the round began any more.
 */
export async function backUpNode(
  place: Place,
  { left, ...round }: Round & { left: Part | undefined },
  work: Work,
): Promise<NodeSnapshot | undefined> {
  const { log, signal, time, reporter } = work.tools
  const earlier = await takenEarlier(place, left, round, work)
  if (earlier !== undefined) return earlier
  if (left !== undefined) await removeLeftovers(place, left, work)
  const attempt: Attempt = {
    ...{ place, round: round.number, pending: undefined, isReasonWanted: false },
  }
  try {
    for (const delay of [...RETRIES_MS, undefined]) {
      try {
        // Also before each further try: a node that was away comes back with copies that lack writes.
        if (!(await isSettled(round.shape, place.collection, work))) return undefined
        return await moveSnapshot(attempt, round, work)
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof EngineError && error.status === 404) {
          await refuseDeleted(place.collection, work)
        }
        if (!isPassing(error) || delay === undefined) throw error
        const fields = { collection: place.collection, node: place.ordinal }
        log.warn({ ...fields, reason: error.message, seconds: delay / 1000 }, 'tries again')
        await time.sleep(delay, signal)
        await reporter.confirm()
        await clean(attempt, work)
      }
    }
  } finally {
    const { pending } = attempt
    if (pending !== undefined && !signal.aborted) {
      await removeFile(place, pending, work, work.patience.share())
    }
  }
  throw new EngineError('no attempt was made')
}

async function takenEarlier(
  place: Place,
  left: Part | undefined,
  { number, shape }: Round,
  work: Work,
): Promise<NodeSnapshot | undefined> {
  if (left?.state !== 'Whole' || left.round !== number) return undefined
  if (left.fingerprint !== shape.fingerprint || !(await isThere(left.snapshot, work))) {
    return undefined
  }
  const { key } = left.snapshot
  const fields = { collection: place.collection, node: place.ordinal }
  work.tools.log.info({ ...fields, key }, 'is in the bucket already')
  await removeFile(place, left, work)
  return left.snapshot
}

/** What an attempt has left: in the bucket, and on the node, which may still be making it. */
export async function removeLeftovers(place: Place, part: Part, work: Work): Promise<void> {
  await removeFile(place, part, work, work.patience.share())
  await removeObject(place, part, work)
}

async function clean(attempt: Attempt, work: Work): Promise<void> {
  const { place, pending } = attempt
  attempt.pending = undefined
  if (pending !== undefined) await removeLeftovers(place, pending, work)
}

async function moveSnapshot(
  attempt: Attempt,
  { number, shape }: Round,
  work: Work,
): Promise<NodeSnapshot> {
  const { place } = attempt
  const { collection, ordinal } = place
  const { snapshot, isOurs } = await makeSnapshot(attempt, work)
  try {
    const doubt = await whyUnlike(shape, collection, work)
    if (doubt !== undefined) {
      throw new EngineError(`snapshot ${snapshot.name} of node ${ordinal} does not count: ${doubt}`)
    }
    const moved = await upload(snapshotsOn(work, ordinal), place, snapshot, work)
    const whole = { ...moved, localShards: shardsOn(shape, ordinal) }
    await writePart(
      place,
      {
        ...{ state: 'Whole', uid: work.plan.uid, round: number },
        ...{ fingerprint: shape.fingerprint, snapshot: whole, isOurs },
      },
      work,
    )
    attempt.pending = undefined
    return whole
  } finally {
    // The file fills the node's disk until it is deleted, all the more when the upload failed.
    if (isOurs) await deleteFile(place, snapshot.name, work)
  }
}

async function upload(
  engine: EngineSnapshots,
  { collection, ordinal }: Place,
  snapshot: Snapshot,
  work: Work,
): Promise<Omit<NodeSnapshot, 'localShards'>> {
  const { bucket, folder, tally, tools } = work
  const { log, signal, time } = tools
  const key = snapshotKey(folder, collection, ordinal, snapshot.name)
  refuseLong(key)
  const begun = time.now().getTime()
  tally.flows(ordinal, snapshot.size)
  log.info({ key, bytes: snapshot.size }, tally.line())
  const seen = { sha256: '' }
  const bytes = await engine.download(collection, snapshot, signal)
  const still = setInterval(() => tally.still(), STALL_EVERY_MS)
  try {
    const source = measured(bytes, {
      snapshot,
      ordinal,
      seen,
      moved: (count) => tally.moved(count),
    })
    const { size: sizeBytes } = snapshot
    await bucket.upload({ key, source, sizeBytes, signal })
  } finally {
    clearInterval(still)
    bytes.destroy()
  }
  const seconds = (time.now().getTime() - begun) / 1000
  log.info({ key, bytes: snapshot.size, seconds, sha256: seen.sha256 }, `uploaded ${key}`)
  return {
    nodeIndex: ordinal,
    key,
    snapshotName: snapshot.name,
    sizeBytes: snapshot.size,
    ...(snapshot.checksum != null && { checksum: snapshot.checksum }),
    sha256: seen.sha256,
  }
}

interface Measure {
  snapshot: Snapshot
  ordinal: number
  seen: { sha256: string }
  moved: (bytes: number) => void
}

/** The bytes as they pass; ends with an error when they are not those the engine spoke of. */
export async function* measured(
  bytes: AsyncIterable<Uint8Array>,
  { snapshot, ordinal, seen, moved }: Measure,
): AsyncGenerator<Uint8Array> {
  const { name, size, checksum } = snapshot
  const hash = createHash('sha256')
  let length = 0
  for await (const chunk of readable(bytes, `snapshot ${name} of node ${ordinal}`)) {
    hash.update(chunk)
    length += chunk.length
    if (length > size) break
    moved(chunk.length)
    yield chunk
  }
  if (length !== size) {
    const came = length > size ? 'more' : `${length}`
    throw new EngineError(`snapshot ${name} of node ${ordinal}: ${came} of ${size} bytes came`)
  }
  seen.sha256 = hash.digest('hex')
  if (checksum != null && seen.sha256 !== checksum.toLowerCase()) {
    throw new EngineError(
      `snapshot ${name} of node ${ordinal} has the SHA-256 ${seen.sha256}, but the engine said ${checksum}`,
    )
  }
}
