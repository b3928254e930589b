/**
 * How a snapshot comes to a node: the node fetches it from an address that was signed just before, or,
 * where it cannot, the Job streams the object to it. Nothing touches our disk.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { EngineError, StorageError } from '../../crds/errors.ts'
import { manifestKey } from '../../crds/layout.ts'
import type { ManifestSnapshot } from '../../crds/manifest.ts'
import { wordsOf } from '../clients/call.ts'
import { cannotFetch, type Taker } from '../clients/engine-recovery.ts'
import { ordinals, recoveryOn, snapshotsOn, type Work } from './work.ts'

type Way = 'fetch' | 'upload'

const CLEAN_UP_MS = 20_000

/** One snapshot, and who takes it. */
export interface Delivery {
  node: number
  taker: Taker
  snapshot: ManifestSnapshot
  /** Hex SHA-256 that the engine compares with what it got. */
  checksum: string
}

/** Answers how it came once the node has taken it. */
export async function bring(delivery: Delivery, work: Work): Promise<Way> {
  const { node, taker } = delivery
  const way = work.ways.get(node) ?? (await wayTo(taker.collection, node, work))
  if (way === 'fetch') {
    const refusal = await fetched(delivery, work)
    if (refusal === undefined) return 'fetch'
    sends(node, refusal, work)
  }
  await upload(delivery, work)
  return 'upload'
}

/** Asks all nodes of which it is not known at the same time; one that cannot be asked now is asked later. */
export async function findWays(name: string, work: Work): Promise<void> {
  const unknown = ordinals(work).filter((node) => !work.ways.has(node))
  await Promise.all(
    unknown.map((node) =>
      wayTo(name, node, work).catch((error: unknown) => {
        if (!(error instanceof EngineError)) throw error
      }),
    ),
  )
}

/** Found out with the manifest, before anything is touched: its bytes are refused, whoever fetches them. */
async function wayTo(name: string, node: number, work: Work): Promise<Way> {
  const { signal } = work.tools
  const url = await work.bucket.presignedUrl(manifestKey(work.folder), signal)
  const why = await recoveryOn(work, node).whyUnreachable(name, url, signal)
  if (why !== undefined) return sends(node, why, work)
  work.ways.set(node, 'fetch')
  return 'fetch'
}

function sends(node: number, reason: string, { tools, ways }: Work): Way {
  tools.log.warn({ node, reason }, `node ${node} cannot fetch from the bucket: sends it snapshots`)
  ways.set(node, 'upload')
  return 'upload'
}

/** Why the node did not fetch it, and touched nothing; undefined when it has taken it. */
async function fetched(
  { node, taker, snapshot, checksum }: Delivery,
  work: Work,
): Promise<string | undefined> {
  const { bucket, priority, tools } = work
  // Signed now: a restore may take longer than an address lasts.
  const url = await bucket.presignedUrl(snapshot.key, tools.signal)
  try {
    await recoveryOn(work, node).recover(taker, { url, priority, checksum }, tools.signal)
    return undefined
  } catch (error) {
    if (error instanceof EngineError && cannotFetch(error)) return error.message
    throw error
  }
}

async function upload(delivery: Delivery, work: Work): Promise<void> {
  const { bucket, priority, tools, plan, tally } = work
  const { node, taker, snapshot, checksum } = delivery
  const { key, sizeBytes: size } = snapshot
  const file = `${plan.uid}-${node}.snapshot`
  tally.starts(key)
  const bytes = await bucket.read(key, tools.signal)
  const broken = { reason: undefined as unknown }
  const source = Readable.from(checkedBytes(bytes, snapshot, broken, tally), { objectMode: false })
  try {
    const recovery = { file, source, size, priority, checksum }
    await recoveryOn(work, node).upload(taker, recovery, tools.signal)
  } catch (error) {
    tools.signal.throwIfAborted()
    // That the call broke off is only what followed from it.
    throw broken.reason ?? error
  } finally {
    bytes.destroy()
    if (taker.shard === undefined) await removeFile(taker.collection, { node, file }, work)
  }
}

/** The bytes as they pass; ends with an error where they are not those of the manifest. */
async function* checkedBytes(
  bytes: AsyncIterable<Uint8Array>,
  { key, sizeBytes, sha256 }: ManifestSnapshot,
  broken: { reason: unknown },
  { flows }: Pick<Work['tally'], 'flows'>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  try {
    for await (const chunk of bytes) {
      hash.update(chunk)
      length += chunk.length
      flows(key, chunk.length)
      yield chunk
    }
  } catch (cause) {
    broken.reason = new EngineError(`${key} broke off: ${wordsOf(cause)}`, { cause })
    throw broken.reason
  }
  if (length === sizeBytes && hash.digest('hex') === sha256) return
  broken.reason = new StorageError(`${key} is not the object that was backed up: its bytes differ`)
  throw broken.reason
}

/** What is sent for a collection is kept by the node under its name, and fills its disk until it is deleted. */
async function removeFile(
  name: string,
  { node, file }: { node: number; file: string },
  work: Work,
): Promise<void> {
  try {
    // Not the signal of the Job: this is what is still done when it aborts.
    await snapshotsOn(work, node).delete(name, file, AbortSignal.timeout(CLEAN_UP_MS))
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return
    work.tools.log.warn({ node, file, reason: wordsOf(error) }, 'file not deleted')
  }
}
