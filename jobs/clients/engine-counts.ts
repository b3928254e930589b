/**
 * Point counts that cannot harm the engine. An exact count collects every id in memory (37 to 52 bytes
 * for each, measured on 1.18.3), and the engine cancels it after its timeout; repeating it would only
 * cost the same again. So a count is exact up to a size, an estimate beyond it, and never repeated.
 */
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../crds/errors.ts'
import { COUNT_SECONDS, ENGINE_TIMEOUT_SECONDS, MAX_EXACT_POINTS } from '../../crds/limits.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import type { Engine } from './engine.ts'

/** What is counted: a whole collection, the shards of one key, or one shard. */
export interface CountScope {
  collection: string
  shardKey?: ShardKey | undefined
  /** The copy of this shard on the node that is asked, and no other copy (engine 1.12 on). */
  shard?: number | undefined
  /** An estimate that is no smaller, such as that of the whole collection: may save a call. */
  atMost?: number | undefined
}

/** `points` is absent where the engine gave no number; `reason` says why the count is not exact. */
export type PointCount =
  { points: number; isExact: true } | { points?: number; isExact: false; reason: string }

const Count = Type.Object({ count: Type.Integer({ minimum: 0 }) })

/**
 * Throws where the engine cannot be reached or refuses the caller, which may pass. A count that takes
 * too long, or that the collection forbids, is an answer.
 */
export async function countPoints(
  engine: Engine,
  scope: CountScope,
  signal?: AbortSignal,
): Promise<PointCount> {
  try {
    if ((scope.atMost ?? Infinity) > MAX_EXACT_POINTS) {
      const points = await count(engine, scope, false, signal)
      const reason = `more than ${MAX_EXACT_POINTS} points are not counted one by one`
      if (points > MAX_EXACT_POINTS) return { points, isExact: false, reason }
    }
    return await exactCount(engine, scope, signal)
  } catch (error) {
    return { isExact: false, reason: whyUncounted(error) }
  }
}

/** An estimate where the engine refuses to count exactly, or does not manage it in time. */
async function exactCount(
  engine: Engine,
  scope: CountScope,
  signal: AbortSignal | undefined,
): Promise<PointCount> {
  try {
    return { points: await count(engine, scope, true, signal), isExact: true }
  } catch (error) {
    const reason = whyUncounted(error)
    return { points: await count(engine, scope, false, signal), isExact: false, reason }
  }
}

/** Throws the error again where it says nothing about counting. */
function whyUncounted(error: unknown): string {
  if (!(error instanceof EngineError)) throw error
  const { status, message } = error
  if (status === 400) return `refused: ${message.split(' answered 400: ').at(-1) ?? ''}`
  if (isTooSlow(error)) return `no answer in ${COUNT_SECONDS} s`
  if (status === 404 && message.endsWith('no such route')) {
    return 'this engine does not count single shards'
  }
  throw error
}

/** The engine's own limit, or ours where it does not keep to it. */
function isTooSlow({ status, message }: EngineError): boolean {
  return status === 408 || (status === undefined && /timeout/i.test(message))
}

async function count(
  engine: Engine,
  { collection, shardKey, shard }: CountScope,
  exact: boolean,
  signal: AbortSignal | undefined,
): Promise<number> {
  const ofShard = shard === undefined ? '' : `/shards/${shard}`
  const path = `/collections/${encodeURIComponent(collection)}${ofShard}/points/count`
  const body = { exact, ...(shardKey !== undefined && { shard_key: shardKey }) }
  const ask = async (query: string, seconds: number) => {
    // The engine answers at the end of its own limit; we must still be there.
    const options = { body, timeoutMs: (seconds + 5) * 1000, signal }
    return (await engine.call('POST', path + query, Count, options)).count
  }
  try {
    return await ask(`?timeout=${COUNT_SECONDS}`, COUNT_SECONDS)
  } catch (error) {
    if (!isTimeoutForbidden(error)) throw error
    return ask('', ENGINE_TIMEOUT_SECONDS)
  }
}

/** Strict mode may allow only a shorter timeout; without one the engine's default holds. */
function isTimeoutForbidden(error: unknown): boolean {
  return error instanceof EngineError && error.status === 400 && /"timeout"/.test(error.message)
}
