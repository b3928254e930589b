/**
 * Point counts, write numbers and shard sizes, read in ways that cannot harm the engine.
 * An exact count collects every id in memory (37 to 52 bytes each, measured on 1.18.3), and the
 * engine cancels it after its timeout; repeating it would only cost the same again. So a count is
 * exact up to a certain size, an estimate beyond it, and never repeated.
 */
import { Type, type Static } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import {
  COUNT_TIMEOUT_SECONDS,
  ENGINE_TIMEOUT_SECONDS,
  MAX_EXACT_POINTS,
} from '../../../crds/contract/limits.ts'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import type { Engine } from './client.ts'
import { collectionPath } from './transport.ts'

/** What to count: a whole collection, the shards of one key, or one shard. */
export interface CountScope {
  collection: string
  shardKey?: ShardKey | undefined
  /** Only the replica of this shard on the node that is asked (engine 1.12 and later). */
  shard?: number | undefined
  /** An estimate that is no smaller, such as that of the whole collection; may save a call. */
  upperBound?: number | undefined
}

/**
 * `points` is absent if the engine returned no number; `reason` states why the count is not exact.
 */
export type PointCount =
  { points: number; isExact: true } | { points?: number; isExact: false; reason: string }

const CountResult = Type.Object({ count: Type.Integer({ minimum: 0 }) })

/**
 * Throws if the engine cannot be reached or rejects the caller, which may be transient. A count
 * that takes too long, or that the collection forbids, is a result.
 */
export async function countPoints(
  engine: Engine,
  scope: CountScope,
  signal?: AbortSignal,
): Promise<PointCount> {
  try {
    if ((scope.upperBound ?? Infinity) > MAX_EXACT_POINTS) {
      const points = await count(engine, scope, false, signal)
      const reason = `more than ${MAX_EXACT_POINTS} points are not counted one by one`
      if (points > MAX_EXACT_POINTS) return { points, isExact: false, reason }
    }
    return await exactCount(engine, scope, signal)
  } catch (error) {
    return { isExact: false, reason: notExactReason(error) }
  }
}

/** Returns an estimate if the engine refuses to count exactly or does not finish in time. */
async function exactCount(
  engine: Engine,
  scope: CountScope,
  signal: AbortSignal | undefined,
): Promise<PointCount> {
  try {
    return { points: await count(engine, scope, true, signal), isExact: true }
  } catch (error) {
    const reason = notExactReason(error)
    return { points: await count(engine, scope, false, signal), isExact: false, reason }
  }
}

/** Rethrows an error that is not about counting. */
function notExactReason(error: unknown): string {
  if (!(error instanceof EngineError)) throw error
  const { status, message } = error
  if (status === 400) return `refused: ${message.split(' answered 400: ').at(-1) ?? ''}`
  if (isTimeout(error)) return `no answer in ${COUNT_TIMEOUT_SECONDS} s`
  if (status === 404 && message.endsWith('no such route')) {
    return 'this engine does not count single shards'
  }
  throw error
}

/** The engine's own limit, or the client's if the engine does not keep to its own. */
function isTimeout({ status, message }: EngineError): boolean {
  return status === 408 || (status === undefined && /timeout/i.test(message))
}

async function count(
  engine: Engine,
  { collection, shardKey, shard }: CountScope,
  exact: boolean,
  signal: AbortSignal | undefined,
): Promise<number> {
  const shardPath = shard === undefined ? '' : `/shards/${shard}`
  const path = `${collectionPath(collection)}${shardPath}/points/count`
  const body = { exact, ...(shardKey !== undefined && { shard_key: shardKey }) }
  const send = async (query: string, seconds: number) => {
    // The engine answers when its own limit expires; the client must still be waiting then.
    const options = { body, timeoutMs: (seconds + 5) * 1000, signal }
    return (await engine.call('POST', path + query, CountResult, options)).count
  }
  try {
    return await send(`?timeout=${COUNT_TIMEOUT_SECONDS}`, COUNT_TIMEOUT_SECONDS)
  } catch (error) {
    if (!isTimeoutForbidden(error)) throw error
    return send('', ENGINE_TIMEOUT_SECONDS)
  }
}

/** Strict mode may allow only a shorter timeout; without a timeout the engine's default applies. */
function isTimeoutForbidden(error: unknown): boolean {
  return error instanceof EngineError && error.status === 400 && /"timeout"/.test(error.message)
}

const TELEMETRY_SECONDS = 10

const UpdateQueue = Type.Object({
  length: Type.Integer(),
  /** Number of the last applied write; null before the first one. */
  op_num: Type.Union([Type.Integer(), Type.Null()]),
})

/** `GET /telemetry?details_level=3`; engines before 1.17 have no `update_queue`. */
const WriteTelemetry = Type.Object({
  app: Type.Optional(
    Type.Object({ startup: Type.Optional(Type.Union([Type.String(), Type.Null()])) }),
  ),
  collections: Type.Object({
    collections: Type.Array(
      Type.Object({
        id: Type.String(),
        shards: Type.Array(
          Type.Object({
            id: Type.Integer(),
            local: Type.Optional(
              Type.Union([Type.Object({ update_queue: Type.Optional(UpdateQueue) }), Type.Null()]),
            ),
          }),
        ),
      }),
    ),
  }),
})

/**
 * The number of the last write of each replica on this node, by shard; 0 before the first write. A
 * replica with pending writes, or for which the engine reports nothing, is left out.
 */
export async function appliedWrites(
  engine: Engine,
  collection: string,
  signal?: AbortSignal,
): Promise<Map<number, number>> {
  return (await readWrites(engine, collection, signal)).writes
}

/**
 * The same with the start of the node: equal only if no write was applied in between. A node that was restarted may give
 * later writes the same numbers again (docs/engine-notes.md, "Points").
 */
export async function writeMarkers(
  engine: Engine,
  collection: string,
  signal?: AbortSignal,
): Promise<Map<number, string>> {
  const { since, writes } = await readWrites(engine, collection, signal)
  return new Map([...writes].map(([shard, number]) => [shard, `${number} since ${since}`]))
}

async function readWrites(
  engine: Engine,
  collection: string,
  signal: AbortSignal | undefined,
): Promise<{ since: string; writes: Map<number, number> }> {
  const path = `/telemetry?details_level=3&timeout=${TELEMETRY_SECONDS}`
  const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
  const writes = new Map<number, number>()
  const telemetry = await engine.call('GET', path, WriteTelemetry, options).catch(ignoreEngineError)
  const shards =
    telemetry?.collections.collections.find(({ id }) => id === collection)?.shards ?? []
  for (const { id, local } of shards) {
    const queue = local?.update_queue
    if (queue !== undefined && queue.length === 0) writes.set(id, queue.op_num ?? 0)
  }
  return { since: telemetry?.app?.startup ?? '', writes }
}

/** For `catch`: undefined instead of an error of the engine, which does not have these fields or is too busy to answer. */
export function ignoreEngineError(error: unknown): undefined {
  if (!(error instanceof EngineError)) throw error
}

const NullableBytes = Type.Optional(Type.Union([Type.Number({ minimum: 0 }), Type.Null()]))
export const LocalShard = Type.Object({
  vectors_size_bytes: NullableBytes,
  payloads_size_bytes: NullableBytes,
  num_points: NullableBytes,
})

const SizeTelemetry = Type.Object({
  collections: Type.Object({
    collections: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          shards: Type.Optional(
            Type.Union([
              Type.Array(
                Type.Object({
                  id: Type.Integer(),
                  local: Type.Optional(Type.Union([LocalShard, Type.Null()])),
                }),
              ),
              Type.Null(),
            ]),
          ),
        }),
      ),
    ),
  }),
})
type LocalShardSizes = Static<typeof LocalShard>

/** Bytes of shards by id, by collection. */
export type ShardBytes = Map<string, Map<number, number>>

/** As for other telemetry: a node this busy is left out. */
const SIZE_TELEMETRY_SECONDS = 10

/** Size of ids, versions, HNSW links and simple payload indexes per point. */
const OVERHEAD_BYTES_PER_POINT = 256

/**
 * Estimated bytes of the shards on this node; a shard for which the engine reports nothing is left
 * out.
 */
export async function shardBytes(engine: Engine, signal?: AbortSignal): Promise<ShardBytes> {
  // The first level that lists shards; the next one lists segments, of which there may be
  // thousands.
  const path = `/telemetry?details_level=3&timeout=${SIZE_TELEMETRY_SECONDS}`
  const options = { timeoutMs: (SIZE_TELEMETRY_SECONDS + 5) * 1000, signal }
  const { collections } = await engine.call('GET', path, SizeTelemetry, options)
  const bytesByCollection: ShardBytes = new Map()
  for (const { id: collection, shards } of collections.collections ?? []) {
    const bytes = new Map<number, number>()
    for (const { id, local } of shards ?? []) {
      const estimated = local == null ? undefined : estimateBytes(local)
      if (estimated !== undefined) bytes.set(id, estimated)
    }
    bytesByCollection.set(collection, bytes)
  }
  return bytesByCollection
}

/** Undefined if the engine reports no sizes. */
export function estimateBytes({
  vectors_size_bytes,
  payloads_size_bytes,
  num_points,
}: LocalShardSizes): number | undefined {
  if (vectors_size_bytes == null || payloads_size_bytes == null) return undefined
  return vectors_size_bytes + payloads_size_bytes + (num_points ?? 0) * OVERHEAD_BYTES_PER_POINT
}
