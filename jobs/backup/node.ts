/** One node's snapshot of one collection: from the engine through a SHA-256 into the bucket. */
import { createHash } from 'node:crypto'
import { EngineError } from '../../crds/errors.ts'
import { snapshotKey } from '../../crds/layout.ts'
import type { NodeSnapshot } from '../../crds/manifest.ts'
import type { EngineSnapshots, Snapshot } from '../clients/engine-snapshots.ts'
import { isPassing } from '../patience.ts'
import { isThere, readable, refuseLong } from './object.ts'
import {
  deleteFile,
  readPart,
  removeFiles,
  removeLeftovers,
  writePart,
  type Part,
  type Pending,
  type Place,
} from './part.ts'
import { refuseDeleted, shardsOn, type Shape } from './shape.ts'
import { RETRIES_MS, STALL_EVERY_MS, snapshotsOn, type Work } from './work.ts'

/** After SIGTERM a snapshot that is being made is awaited so long, to delete it by its name. */
const LAST_WAIT_MS = 25_000
/** Four parts: a store that hashes and writes them one by one then has something to do at any time. */
const IN_FLIGHT_BYTES = 32 * 1024 * 1024
const STILL_EVERY_MS = 30_000

/** The snapshot of a node, taken now, or by an earlier attempt when the collection is as it was. */
export async function backUpNode(place: Place, shape: Shape, work: Work): Promise<NodeSnapshot> {
  const { log, signal, time, reporter } = work.tools
  const fields = { collection: place.collection, node: place.ordinal }
  const left = await readPart(place, work)
  if (left?.state === 'Whole' && left.fingerprint === shape.fingerprint) {
    if (await isThere(left.snapshot, work)) {
      log.info({ ...fields, key: left.snapshot.key }, 'is in the bucket already')
      await removeFiles(place, left, work)
      return left.snapshot
    }
  }
  const attempt: Attempt = { left, unnamed: [] }
  for (const delay of [...RETRIES_MS, undefined]) {
    try {
      const moved = await moveSnapshot(place, shape, attempt, work)
      // What the engine still made when we looked for it is there by now.
      for (const pending of attempt.unnamed) await removeFiles(place, pending, work)
      return moved
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof EngineError && error.status === 404) {
        await refuseDeleted(place.collection, work)
      }
      if (!isPassing(error) || delay === undefined) throw error
      log.warn({ ...fields, reason: error.message, seconds: delay / 1000 }, 'tries again')
      await time.sleep(delay, signal)
      await reporter.confirm()
    }
  }
  throw new EngineError('no attempt was made')
}

interface Attempt {
  /** What part.json says. */
  left: Part | undefined
  /** Earlier ones whose file nobody knows the name of. */
  unnamed: Pending[]
}

async function moveSnapshot(
  place: Place,
  shape: Shape,
  attempt: Attempt,
  work: Work,
): Promise<NodeSnapshot> {
  const { signal, time } = work.tools
  const { collection, ordinal } = place
  const engine = snapshotsOn(work, ordinal)
  const { left } = attempt
  if (left !== undefined) await removeLeftovers(place, left, work)
  if (left?.state === 'Pending' && left.snapshotName === undefined) attempt.unnamed.push(left)

  const existing = (await engine.list(collection, signal)).map(({ name }) => name)
  // Written before the engine is asked: a pod that comes after us then knows which file is ours.
  const pending: Pending = {
    state: 'Pending',
    uid: work.plan.uid,
    at: time.now().toISOString(),
    existing,
  }
  attempt.left = pending
  await writePart(place, pending, work)
  const snapshot = await create(engine, place, work)
  const isOurs = !existing.includes(snapshot.name)
  try {
    attempt.left = { ...pending, snapshotName: snapshot.name }
    await writePart(place, attempt.left, work)
    const moved = await upload(engine, place, snapshot, work)
    const localShards = shardsOn(shape, ordinal)
    const whole = { ...moved, localShards }
    const { fingerprint } = shape
    await writePart(
      place,
      { state: 'Whole', uid: work.plan.uid, fingerprint, snapshot: whole, isOurs },
      work,
    )
    return whole
  } finally {
    // The file fills the node's disk until it is deleted, all the more when the upload failed.
    if (isOurs) await deleteFile(engine, { ...place, name: snapshot.name }, work)
  }
}

/**
 * The engine goes on with a snapshot when the call is broken off, so the call is not: after SIGTERM it
 * is awaited for a moment, and the file deleted.
 */
async function create(engine: EngineSnapshots, place: Place, work: Work): Promise<Snapshot> {
  const { log, signal } = work.tools
  const { collection, ordinal } = place
  log.info({ collection, node: ordinal }, `node ${ordinal}: the engine makes the snapshot`)
  const broken = new AbortController()
  const creating = engine.create(collection, broken.signal)
  const still = setInterval(() => {
    log.info({ collection, node: ordinal }, `node ${ordinal}: still makes the snapshot`)
    work.tally.tell()
  }, STILL_EVERY_MS)
  try {
    return await unlessAborted(creating, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    const late = await unlessAborted(creating, AbortSignal.timeout(LAST_WAIT_MS)).catch(
      () => undefined,
    )
    if (late !== undefined) await deleteFile(engine, { ...place, name: late.name }, work)
    throw error
  } finally {
    clearInterval(still)
    broken.abort()
  }
}

async function unlessAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
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
    await bucket.upload({ key, source, sizeBytes, inFlightBytes: IN_FLIGHT_BYTES, signal })
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
