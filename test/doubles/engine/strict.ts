/** Strict mode, as far as it limits copying points: pages, batches, exact counts and the rate of writes. */
import { EngineFailure, failed, refuse } from './answers.ts'
import type { Collection, Fields } from './collection.ts'

interface Bucket {
  tokens: number
  /** When they were counted, in ms. */
  at: number
}

const buckets = new WeakMap<Collection, Bucket>()
const MINUTE_MS = 60_000

export function checkPage(collection: Collection, limit: number): void {
  checkLimit(limitOf(collection, 'max_query_limit'), limit, 'limit')
}

export function checkExact(collection: Collection, exact: boolean): void {
  if (exact && strictOf(collection)['search_allow_exact'] === false) {
    refuse(400, 'Bad request: Exact search disabled!. Help: Set exact=false.')
  }
}

export function checkTimeout(collection: Collection, seconds: string | undefined): void {
  if (seconds !== undefined) {
    checkLimit(limitOf(collection, 'max_timeout'), Number(seconds), 'timeout')
  }
}

/** Also of an index that exists. */
export function checkIndexes(collection: Collection): void {
  const limit = limitOf(collection, 'max_payload_index_count')
  if (limit === undefined || Object.keys(collection.payloadSchema).length < limit) return
  const error = `Bad request: Collection already has the maximum number of payload indices (${limit})`
  refuse(400, `${error}. Help: Please delete an existing index before creating a new one.`)
}

export function checkBatch(collection: Collection, points: number): void {
  checkLimit(limitOf(collection, 'upsert_max_batchsize'), points, 'upsert limit')
  const perMinute = limitOf(collection, 'write_rate_limit')
  if (perMinute !== undefined) checkRate(collection, perMinute, points)
}

/** Each write is charged twice, as in the engine: by its shard, and by the copy of it. */
function checkRate(collection: Collection, perMinute: number, cost: number): void {
  if (cost > perMinute) {
    const words = 'request larger than rate limiter capacity, please try to split your request'
    refuse(429, `Rate limiting exceeded: Write rate limit exceeded, ${words}`)
  }
  const now = Date.now()
  const { tokens, at } = buckets.get(collection) ?? { tokens: perMinute, at: now }
  const filled = Math.min(perMinute, tokens + ((now - at) * perMinute) / MINUTE_MS)
  for (const left of [filled, filled - cost]) {
    if (left >= cost) continue
    buckets.set(collection, { tokens: left, at: now })
    const seconds = Math.ceil((60 * (cost - left)) / perMinute)
    const words = `Operation requires ${cost} tokens but only ${left.toFixed(1)} were available`
    const error = `Rate limiting exceeded: Write rate limit exceeded: ${words}. Retry after ${seconds}s`
    const headers = { 'content-type': 'application/json', 'retry-after': String(seconds) }
    throw new EngineFailure({ ...failed(429, error), headers })
  }
  buckets.set(collection, { tokens: filled - 2 * cost, at: now })
}

function checkLimit(limit: number | undefined, value: number, name: string): void {
  if (limit === undefined || value <= limit) return
  const help = `Help: Reduce the "${name}" parameter to or below ${limit}.`
  refuse(400, `Bad request: Limit exceeded ${value} > ${limit} for "${name}". ${help}`)
}

function limitOf(collection: Collection, field: string): number | undefined {
  const limit = strictOf(collection)[field]
  return typeof limit === 'number' ? limit : undefined
}

function strictOf({ config }: Collection): Fields {
  const strict = config.strict_mode_config ?? {}
  return strict['enabled'] === true ? strict : {}
}
