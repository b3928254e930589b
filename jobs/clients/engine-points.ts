/**
 * The engine's endpoints that a migration needs: pages of points and their writing, counts and samples
 * (facts 7). Points pass as the bytes they came in: ids have 64 bits, and no number may be rounded.
 */
import { Readable } from 'node:stream'
import { EngineError } from '../../crds/errors.ts'
import { LONG_CALL_SECONDS } from '../../crds/limits.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { Operation } from './engine-answers.ts'
import type { Engine } from './engine.ts'
import { collectionPath } from './engine-path.ts'
import { orderOfIds } from './ids.ts'
import { idAt, pageBefore, pageOf, type Page } from './page.ts'
import { fieldsOf, itemsOf } from './raw-json.ts'

const LONG_CALL_MS = LONG_CALL_SECONDS * 1000

export interface PageWanted {
  limit: number
  /** Id, as JSON. */
  offset?: string | undefined
  /** Id, as JSON: neither it nor what comes behind it. */
  until?: string | undefined
  shardKey?: ShardKey | undefined
  /** Ids alone, without payload and vectors. */
  bare?: true
  /** One that is larger is not read to its end: the error has the status 413. */
  maxBytes?: number
}

export interface Written {
  shardKey?: ShardKey | undefined
  /**
   * False: answered once the points are durable, and applied later. A collection with `prevent_unoptimized`
   * would otherwise answer only when they are indexed.
   */
  wait?: boolean
}

export interface Retrieved {
  shardKey?: ShardKey | undefined
  /** Ids alone, without payload and vectors. */
  bare?: true
  /** A larger answer is not read to its end: the error has the status 413. */
  maxBytes?: number
}

/** A shard key and how many shards it has. */
export interface ShardKeyShards {
  key: ShardKey
  shards: number
}

export class EnginePoints {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Points in ascending order of their ids, numbers before UUIDs. */
  async scroll(collection: string, wanted: PageWanted, signal?: AbortSignal): Promise<Page> {
    const path = `${pathOf(collection)}/scroll`
    const { limit, offset, until, shardKey, bare, maxBytes } = wanted
    const fields = {
      limit,
      with_payload: bare !== true,
      with_vector: bare !== true,
      ...(shardKey !== undefined && { shard_key: shardKey }),
      ...(offset !== undefined && { offset: raw(offset) }),
    }
    const options = { body: fields, timeoutMs: LONG_CALL_MS, signal, maxBytes }
    const answer = await this.#engine.bytes('POST', path, options)
    return this.#read(path, () => {
      const page = pageOf(answer, limit)
      if (until === undefined) return page
      return page.next !== undefined && orderOfIds(page.next, until) < 0
        ? page
        : pageBefore(page, until)
    })
  }

  /** Writes an array of points, given in pieces; answers once all of it is applied, unless told otherwise. */
  async upsert(
    collection: string,
    points: readonly Uint8Array[],
    { shardKey, wait = true }: Written = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const key = shardKey === undefined ? '' : `,"shard_key":${JSON.stringify(shardKey)}`
    const pieces = [Buffer.from('{"points":'), ...points, Buffer.from(`${key}}`)]
    const contentLength = pieces.reduce((sum, { length }) => sum + length, 0)
    const source = Readable.from(pieces, { objectMode: false })
    const stream = { contentType: 'application/json', contentLength, source }
    const options = { stream, timeoutMs: LONG_CALL_MS, signal }
    await this.#engine.call('PUT', `${pathOf(collection)}?wait=${wait}`, Operation, options)
  }

  /** None where sharding is not custom. */
  async shardKeys(collection: string, signal?: AbortSignal): Promise<ShardKeyShards[]> {
    const placement = await this.#engine.collectionCluster(collection, signal)
    const keys = new Map<ShardKey, Set<number>>()
    for (const { shard_key, shard_id } of [...placement.local_shards, ...placement.remote_shards]) {
      if (shard_key === undefined) continue
      keys.set(shard_key, (keys.get(shard_key) ?? new Set()).add(shard_id))
    }
    return [...keys].map(([key, ids]) => ({ key, shards: ids.size }))
  }

  /** Ids, as JSON, of points chosen at random; fewer where there are fewer. */
  async sample(
    collection: string,
    limit: number,
    shardKey?: ShardKey,
    signal?: AbortSignal,
  ): Promise<string[]> {
    const path = `${pathOf(collection)}/query`
    const body = {
      query: { sample: 'random' },
      limit,
      with_payload: false,
      ...(shardKey !== undefined && { shard_key: shardKey }),
    }
    const answer = await this.#engine.bytes('POST', path, { body, signal })
    return this.#read(path, () => {
      const result = fieldsOf(answer).get('result')?.start
      const points = result === undefined ? undefined : fieldsOf(answer, result).get('points')
      if (points === undefined) throw new SyntaxError('no points')
      return itemsOf(answer, points.start).map(({ start }) => idAt(answer, start))
    })
  }

  /** Points by their ids, as the bytes of their JSON; those that are not there are left out. */
  async retrieve(
    collection: string,
    ids: readonly string[],
    { shardKey, bare, maxBytes }: Retrieved = {},
    signal?: AbortSignal,
  ): Promise<Map<string, Buffer>> {
    const path = pathOf(collection)
    const body = {
      ids: ids.map(raw),
      with_payload: bare !== true,
      with_vector: bare !== true,
      ...(shardKey !== undefined && { shard_key: shardKey }),
    }
    const options = { body, timeoutMs: LONG_CALL_MS, signal, maxBytes }
    const answer = await this.#engine.bytes('POST', path, options)
    return this.#read(path, () => {
      const result = fieldsOf(answer).get('result')
      if (result === undefined) throw new SyntaxError('no result')
      const points = itemsOf(answer, result.start).map(
        ({ start, end }) => [idAt(answer, start), answer.subarray(start, end)] as const,
      )
      return new Map(points)
    })
  }

  #read<Result>(path: string, cut: () => Result): Result {
    try {
      return cut()
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw cause
      const call = `POST ${path} on ${this.#engine.node}`
      throw new EngineError(`${call} answered no valid JSON: ${cause.message}`, { cause })
    }
  }
}

interface WithRaw {
  rawJSON(text: string): object
}

/** A number of any size, as it stands in its JSON. */
function raw(json: string): object {
  // Newer than the types.
  return (JSON as unknown as WithRaw).rawJSON(json)
}

function pathOf(collection: string): string {
  return `${collectionPath(collection)}/points`
}
