/**
 * Streams one shard from a pod that holds it into the bucket while the engine creates the snapshot.
 * A stream has neither a length nor a checksum, so its SHA-256 is computed on the way and its tar
 * format is checked up to the end.
 */
import { createHash } from 'node:crypto'
import { EngineError, Rejected, StorageError } from '../../../crds/contract/errors.ts'
import type { LocalShard, ShardSnapshot } from '../../../crds/contract/manifest.ts'
import { PARTS_EXHAUSTED } from '../../clients/s3/parts.ts'
import { BLOCK, continuesSparseMap, isZeroBlock, paddedSize, parseHeader } from '../../tar.ts'
import { snapshotsForPod, type RunContext } from '../context.ts'
import { requireKeyLength, withStreamErrors } from '../objects.ts'
import { markUploaded, prepareUpload } from './checkpoint.ts'
import {
  activeReplicas,
  isResharding,
  pointCount,
  readNodeReports,
  type NodeReports,
} from './scheduler.ts'

/** The engine silently closes a stream whose client reads nothing for this long. */
const ENGINE_STALL_LIMIT_MS = 300_000

/** A shard and the pod it is streamed from. */
export interface StreamSource {
  collection: string
  shard: LocalShard
  node: number
  /** Identity of the shard: see checkpoint.ts. */
  fingerprint: string
  /** Streams that share the memory of the Job. */
  streams: number
}

/**
 * Throws an `EngineError` if the stream, or the replica it came from, failed before the end of the
 * stream.
 */
export async function streamShard(
  source: StreamSource,
  context: RunContext,
): Promise<ShardSnapshot> {
  const { collection, shard, node, fingerprint } = source
  const ref = { collection, shardId: shard.shardId }
  const key = await prepareUpload(ref, context)
  const expectedBytes = await context.shardSizes.estimate(collection, shard.shardId, context)
  // The API server or the store may have been slow since the shard was assigned. A replica that is
  // missing writes may catch up before the end of its stream.
  const before = await readNodeReports(collection, context)
  requireActive(source, before, 'was no longer Active before its stream')
  requireOwnPoints(source, before)
  const uploaded = await upload(source, { key, expectedBytes }, context)
  const after = await readNodeReports(collection, context)
  requireActive(source, after, 'did not stay Active until the end of its stream')
  requireOwnPoints(source, after)
  const [pointsBefore, pointsAfter] = [before, after].map((view) =>
    pointCount(view, node, shard.shardId),
  )
  const snapshot: ShardSnapshot = {
    ...shard,
    nodeIndex: node,
    ...uploaded,
    ...(pointsBefore !== undefined &&
      pointsBefore === pointsAfter && { pointsCount: pointsBefore }),
  }
  await markUploaded(ref, { fingerprint, snapshot }, context)
  return snapshot
}

type UploadedObject = Pick<ShardSnapshot, 'key' | 'sizeBytes' | 'sha256'>

async function upload(
  { collection, shard, node, streams }: StreamSource,
  { key, expectedBytes }: { key: string; expectedBytes: number | undefined },
  context: RunContext,
): Promise<UploadedObject> {
  const { bucket, tools } = context
  const { log, signal, time } = tools
  const { shardId } = shard
  requireKeyLength(key)
  log.info({ key, node, shard: shardId }, `node ${node}: streaming shard ${shardId}`)
  const startedAt = time.monotonicMs()
  const bytes = await snapshotsForPod(context, node).streamShard(collection, shardId, signal)
  const digest = { sha256: '' }
  try {
    const source = verifiedBytes(bytes, {
      description: `stream of shard ${shardId} of node ${node}`,
      digest,
      onBytes: (count) => context.progress.shardTransferred(shardId, count),
      now: () => time.monotonicMs(),
    })
    const sizeBytes = await bucket.upload({ key, source, expectedBytes, streams, signal })
    const seconds = (time.monotonicMs() - startedAt) / 1000
    log.info({ key, bytes: sizeBytes, seconds, ...digest }, `uploaded ${key}`)
    return { key, sizeBytes, ...digest }
  } catch (error) {
    if (!(error instanceof StorageError) || error.reason !== PARTS_EXHAUSTED) throw error
    // Streamed again alone, in larger parts, unless these were the largest.
    if (expectedBytes === undefined && streams === 1) throw new Rejected(`${key}: ${error.message}`)
    context.shardSizes.markUnderestimated(collection, shardId)
    throw new EngineError(`${key}: ${error.message}`)
  } finally {
    bytes.destroy()
  }
}

/**
 * A failed write makes a replica Dead: it may be missing writes that were acknowledged before the stream
 * began.
 */
function requireActive(
  { shard: { shardId }, node }: StreamSource,
  view: NodeReports,
  failure: string,
): void {
  if (activeReplicas(view).get(shardId)?.includes(node) === true) return
  throw new EngineError(`shard ${shardId} on node ${node} ${failure}`)
}

/**
 * Before a shard is removed, its points are copied to the others, whose replicas are Active again before that ends. If
 * it is aborted, the collection has the same shards as before, and the snapshot the points of both.
 */
function requireOwnPoints(
  { collection, shard: { shardId } }: StreamSource,
  view: NodeReports,
): void {
  if (!isResharding(view)) return
  throw new EngineError(
    `shard ${shardId} of ${collection} may have points of another one: the number of shards is being changed`,
  )
}

interface VerifyOptions {
  /** For messages. */
  description: string
  digest: { sha256: string }
  onBytes: (bytes: number) => void
  /** In milliseconds. */
  now: () => number
}

/** Passes the bytes through; fails at the end if they are not a complete archive. */
export async function* verifiedBytes(
  bytes: AsyncIterable<Uint8Array>,
  { description, digest, onBytes, now }: VerifyOptions,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  const tarReader = new TarReader()
  let length = 0
  let longestMs = 0
  for await (const chunk of withStreamErrors(bytes, description)) {
    hash.update(chunk)
    tarReader.push(chunk)
    if (tarReader.state === 'foreign') throw new EngineError(`${description} is not an archive`)
    length += chunk.length
    onBytes(chunk.length)
    const yieldedAt = now()
    yield chunk
    longestMs = Math.max(longestMs, now() - yieldedAt)
  }
  if (tarReader.state === 'partial') {
    throw new EngineError(
      `${description} ended early, after ${length} bytes${formatStall(longestMs)}`,
    )
  }
  digest.sha256 = hash.digest('hex')
}

function formatStall(longestMs: number): string {
  if (longestMs < ENGINE_STALL_LIMIT_MS) return ''
  return `: the bucket took nothing for ${Math.round(longestMs / 1000)} s, and the engine waits for ${ENGINE_STALL_LIMIT_MS / 1000} s`
}

/** `foreign`: not a tar, or of a type that no engine creates. */
export type TarState = 'partial' | 'whole' | 'foreign'

export class TarReader {
  readonly #block = Buffer.alloc(BLOCK)
  #filled = 0
  /** Size of the file whose header was read last. */
  #size = 0
  /** Remaining bytes of that file and of the padding of its last block. */
  #toSkip = 0
  /** The next block belongs to the map of a sparse file; the data of the file follows it. */
  #isSparseMap = false
  #state: TarState = 'partial'

  get state(): TarState {
    return this.#state
  }

  push(chunk: Uint8Array): void {
    let rest = chunk
    while (rest.length > 0 && this.#state === 'partial') {
      const skipped = Math.min(this.#toSkip, rest.length)
      this.#toSkip -= skipped
      const copied = rest.subarray(skipped, skipped + BLOCK - this.#filled)
      this.#block.set(copied, this.#filled)
      this.#filled += copied.length
      rest = rest.subarray(skipped + copied.length)
      if (this.#filled === BLOCK) this.#readBlock()
    }
  }

  #readBlock(): void {
    this.#filled = 0
    if (this.#isSparseMap) this.#isSparseMap = continuesSparseMap(this.#block)
    else if (isZeroBlock(this.#block)) this.#state = 'whole'
    else this.#readHeader()
    if (this.#isSparseMap) return
    this.#toSkip = paddedSize(this.#size)
    this.#size = 0
  }

  #readHeader(): void {
    const header = parseHeader(this.#block)
    if (header === undefined) {
      this.#state = 'foreign'
      return
    }
    this.#isSparseMap = header.hasMoreSparseMap
    this.#size = header.size
  }
}
