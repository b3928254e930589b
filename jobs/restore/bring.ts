/**
 * How a snapshot comes to a node. That of a whole node is downloaded by the node from an address signed
 * just before or, where the node cannot, sent by the Job. That of a shard is always sent: the engine shows
 * a recovery of a shard only after its download, so one whose answer is lost could replace the shard long
 * after everything else has ended. Bytes that are sent stop with the Job. Nothing touches our disk.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { EngineError, StorageError } from '../../crds/errors.ts'
import { manifestKey } from '../../crds/layout.ts'
import { wordsOf } from '../clients/call.ts'
import { cannotFetch, isOver, type Taker } from '../clients/engine-recovery.ts'
import type { Recovery } from './current.ts'
import type { SourceSnapshot } from './wanted.ts'
import { ordinals, recoveryOn, snapshotsOn, type Work } from './work.ts'

type Way = 'fetch' | 'upload'

const CLEAN_UP_MS = 20_000

/** One snapshot, and the node that takes it. */
export interface Delivery {
  node: number
  taker: Taker
  snapshot: SourceSnapshot
  /** Hex SHA-256 that the engine compares with what it has downloaded. */
  checksum: string | undefined
}

/** Answers how it came once the node has taken it. */
export async function bring(delivery: Delivery, work: Work): Promise<Way> {
  const { node, taker } = delivery
  if (taker.shard !== undefined) {
    await upload(delivery, work)
    return 'upload'
  }
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
  const { bucket, priority, tools, tally } = work
  const { key, sizeBytes: size } = snapshot
  // Signed now: a restore may take longer than an address lasts.
  const url = await bucket.presignedUrl(key, tools.signal)
  await tally.recoveryBegins({ node })
  try {
    await answered({ node }, work, () =>
      recoveryOn(work, node).recover(taker, { url, priority, checksum, size }, tools.signal),
    )
    return undefined
  } catch (error) {
    if (error instanceof EngineError && cannotFetch(error)) return error.message
    throw error
  }
}

async function upload({ node, taker, snapshot }: Delivery, work: Work): Promise<void> {
  const { bucket, priority, tools, plan, tally } = work
  const { key, sizeBytes: size } = snapshot
  const file = `${plan.uid}-${node}.snapshot`
  const recovery = { node, ...(taker.shard !== undefined && { shard: taker.shard }) }
  tally.starts(key)
  const bytes = await bucket.read(key, tools.signal)
  const broken = { reason: undefined as unknown }
  const source = Readable.from(checkedBytes(bytes, snapshot, broken, tally), { objectMode: false })
  const beforeEnd = () => tally.recoveryBegins(recovery)
  try {
    await answered(recovery, work, () =>
      recoveryOn(work, node).upload(
        taker,
        { file, source, size, priority, beforeEnd },
        tools.signal,
      ),
    )
  } catch (error) {
    tools.signal.throwIfAborted()
    // That the call broke off is only what followed from it.
    throw broken.reason ?? error
  } finally {
    bytes.destroy()
    if (taker.shard === undefined) await removeFile(taker.collection, { node, file }, work)
  }
}

/** An answer of the engine itself, be it an error, ends the recovery; without one it may go on. */
async function answered(
  recovery: Recovery,
  { tally }: Pick<Work, 'tally'>,
  call: () => Promise<void>,
): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (error instanceof EngineError && isOver(error)) tally.recoveryIsOver(recovery)
    throw error
  }
  tally.recoveryIsOver(recovery)
}

/** The bytes as they pass; ends with an error where they are not those of the manifest. */
async function* checkedBytes(
  bytes: AsyncIterable<Uint8Array>,
  { key, sizeBytes, sha256 }: SourceSnapshot,
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
  const isSame = sha256 === undefined || hash.digest('hex') === sha256
  if (length === sizeBytes && isSame) return
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
