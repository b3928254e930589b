/** Has a node make a snapshot and waits for its answer: where the node counts none, or to hear why it failed. */
import type { Snapshot } from '../clients/engine-snapshots.ts'
import { deleteFile } from './engine-files.ts'
import type { Place } from './part.ts'
import { snapshotsOn, type Work } from './work.ts'

const STILL_EVERY_MS = 30_000
/** After SIGTERM the answer is awaited so long: only it tells the name of the file. */
const LAST_WAIT_MS = 25_000

export async function createdNow(place: Place, limitMs: number, work: Work): Promise<Snapshot> {
  const { log, signal } = work.tools
  const { collection, ordinal } = place
  const broken = new AbortController()
  const creating = snapshotsOn(work, ordinal).create(collection, limitMs, broken.signal)
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
    if (late !== undefined) await deleteFile(place, late.name, work)
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
