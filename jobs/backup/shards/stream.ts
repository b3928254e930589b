/** One shard, from a pod that holds it through a SHA-256 into the bucket, while the engine makes it. */
import { createHash } from 'node:crypto'
import { EngineError, Rejected, StorageError } from '../../../crds/errors.ts'
import type { LocalShard, ShardSnapshot } from '../../../crds/manifest.ts'
import { PARTS_USED_UP } from '../../clients/part-queue.ts'
import { readable, refuseLong } from '../object.ts'
import { snapshotsOn, type Work } from '../work.ts'
import { Archive } from './archive.ts'
import { beginStream, writeWhole } from './part.ts'
import { activeHolders, pointsOn, sightOf, type Sight } from './sight.ts'

/** Who takes nothing for so long is left by the engine, without a word (facts 6.6). */
const ENGINE_PATIENCE_MS = 300_000

/** A shard, and the pod it is streamed from. */
export interface Source {
  collection: string
  shard: LocalShard
  node: number
  /** What the shard is: see part.ts. */
  fingerprint: string
  /** Of just before. */
  before: Sight
  /** Streams that share the memory of the Job. */
  streams: number
}

/** Throws an `EngineError` where the stream, or the copy it came from, did not hold until its end. */
export async function streamShard(source: Source, work: Work): Promise<ShardSnapshot> {
  const { collection, shard, node, fingerprint, before } = source
  const place = { collection, shardId: shard.shardId }
  const key = await beginStream(place, work)
  const stored = await upload(source, key, work)
  const after = await sightOf(collection, work)
  refuseLost(source, after)
  const [was, is] = [before, after].map((sight) => pointsOn(sight, node, shard.shardId))
  const snapshot: ShardSnapshot = {
    ...shard,
    nodeIndex: node,
    ...stored,
    ...(was !== undefined && was === is && { pointsCount: was }),
  }
  await writeWhole(place, { fingerprint, snapshot }, work)
  return snapshot
}

type Stored = Pick<ShardSnapshot, 'key' | 'sizeBytes' | 'sha256'>

async function upload(
  { collection, shard, node, streams }: Source,
  key: string,
  work: Work,
): Promise<Stored> {
  const { bucket, tools } = work
  const { log, signal, time } = tools
  const { shardId } = shard
  refuseLong(key)
  log.info({ key, node, shard: shardId }, `node ${node}: streams shard ${shardId}`)
  const begun = time.now().getTime()
  const expectedBytes = await work.sizes.of(collection, shardId, work)
  const bytes = await snapshotsOn(work, node).streamShard(collection, shardId, signal)
  const seen = { sha256: '' }
  try {
    const source = measured(bytes, {
      what: `stream of shard ${shardId} of node ${node}`,
      seen,
      moved: (count) => work.tally.streamed(shardId, count),
      now: () => time.now().getTime(),
    })
    const sizeBytes = await bucket.upload({ key, source, expectedBytes, streams, signal })
    const seconds = (time.now().getTime() - begun) / 1000
    log.info({ key, bytes: sizeBytes, seconds, ...seen }, `uploaded ${key}`)
    return { key, sizeBytes, ...seen }
  } catch (error) {
    if (!(error instanceof StorageError) || error.reason !== PARTS_USED_UP) throw error
    // Streamed again in larger parts, where there is memory for them.
    if (expectedBytes === undefined) throw new Rejected(`${key}: ${error.message}`)
    work.sizes.wasLarger(collection, shardId)
    throw new EngineError(`${key}: ${error.message}`)
  } finally {
    bytes.destroy()
  }
}

/** Writes that failed on a copy make it Dead: it may lack what was acknowledged before the stream began. */
function refuseLost({ shard: { shardId }, node }: Source, after: Sight): void {
  if (activeHolders(after).get(shardId)?.includes(node) === true) return
  throw new EngineError(
    `shard ${shardId} on node ${node} did not stay Active until the end of its stream`,
  )
}

interface Measure {
  /** For messages. */
  what: string
  seen: { sha256: string }
  moved: (bytes: number) => void
  /** In milliseconds. */
  now: () => number
}

/** The bytes as they pass; ends with an error when they are no whole archive. */
export async function* measured(
  bytes: AsyncIterable<Uint8Array>,
  { what, seen, moved, now }: Measure,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  const archive = new Archive()
  let length = 0
  let longestMs = 0
  for await (const chunk of readable(bytes, what)) {
    hash.update(chunk)
    archive.add(chunk)
    if (archive.state === 'foreign') throw new EngineError(`${what} is no archive`)
    length += chunk.length
    moved(chunk.length)
    const given = now()
    yield chunk
    longestMs = Math.max(longestMs, now() - given)
  }
  if (archive.state === 'partial') {
    throw new EngineError(`${what} ended early, after ${length} bytes${why(longestMs)}`)
  }
  seen.sha256 = hash.digest('hex')
}

function why(longestMs: number): string {
  if (longestMs < ENGINE_PATIENCE_MS) return ''
  return `: the bucket took nothing for ${Math.round(longestMs / 1000)} s, and the engine waits for ${ENGINE_PATIENCE_MS / 1000} s`
}
