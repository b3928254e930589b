/**
 * The engine's endpoints that a migration needs: scrolling, writing, counting and sampling points,
 * and parsing a scroll page into points and ids. Points are passed on as the bytes that were
 * received: ids have 64 bits, and no number may be rounded.
 */
import { Readable } from 'node:stream'
import { EngineError } from '../../../crds/contract/errors.ts'
import { LONG_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import type { Engine } from './client.ts'
import { arraySpans, objectSpans, valueSpan } from './json-scanner.ts'
import { OperationResult } from './responses.ts'
import { collectionPath } from './transport.ts'

const LONG_CALL_MS = LONG_CALL_TIMEOUT_SECONDS * 1000

export interface ScrollRequest {
  limit: number
  /** Id, as JSON. */
  offset?: string | undefined
  /** Id, as JSON: the exclusive end of the range. */
  endId?: string | undefined
  shardKey?: ShardKey | undefined
  /** Only ids, without payload and vectors. */
  idsOnly?: true
  /** A larger response is not read to the end: the error has status 413. */
  maxBytes?: number
}

export interface UpsertOptions {
  shardKey?: ShardKey | undefined
  /**
   * False: responds once the points are durable and applies them later. A collection with
   * `prevent_unoptimized` would otherwise respond only after they are indexed.
   */
  wait?: boolean
}

export interface RetrieveOptions {
  shardKey?: ShardKey | undefined
  /** Only ids, without payload and vectors. */
  idsOnly?: true
  /** A larger response is not read to the end: the error has status 413. */
  maxBytes?: number
}

/** A shard key and its number of shards. */
export interface ShardKeyInfo {
  key: ShardKey
  shards: number
}

export class EnginePoints {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Points in ascending order of their ids, numbers before UUIDs. */
  async scroll(collection: string, request: ScrollRequest, signal?: AbortSignal): Promise<Page> {
    const path = `${pointsPath(collection)}/scroll`
    const { limit, offset, endId, shardKey, idsOnly, maxBytes } = request
    const fields = {
      limit,
      with_payload: idsOnly !== true,
      with_vector: idsOnly !== true,
      ...(shardKey !== undefined && { shard_key: shardKey }),
      ...(offset !== undefined && { offset: rawJson(offset) }),
    }
    const options = { body: fields, timeoutMs: LONG_CALL_MS, signal, maxBytes }
    const response = await this.#engine.bytes('POST', path, options)
    return this.#parse(path, () => {
      const page = parsePage(response, limit)
      if (endId === undefined) return page
      return page.next !== undefined && comparePointIds(page.next, endId) < 0
        ? page
        : truncatePage(page, endId)
    })
  }

  /**
   * Writes an array of points, given in chunks; resolves once all of it is applied, unless `wait`
   * is false.
   */
  async upsert(
    collection: string,
    points: readonly Uint8Array[],
    { shardKey, wait = true }: UpsertOptions = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const key = shardKey === undefined ? '' : `,"shard_key":${JSON.stringify(shardKey)}`
    const pieces = [Buffer.from('{"points":'), ...points, Buffer.from(`${key}}`)]
    const contentLength = pieces.reduce((sum, { length }) => sum + length, 0)
    const stream = () => ({
      contentType: 'application/json',
      contentLength,
      source: Readable.from(pieces, { objectMode: false }),
    })
    const options = { stream, timeoutMs: LONG_CALL_MS, signal }
    await this.#engine.call(
      'PUT',
      `${pointsPath(collection)}?wait=${wait}`,
      OperationResult,
      options,
    )
  }

  /** Empty if sharding is not custom. */
  async shardKeys(collection: string, signal?: AbortSignal): Promise<ShardKeyInfo[]> {
    const info = await this.#engine.collectionCluster(collection, signal)
    const keys = new Map<ShardKey, Set<number>>()
    for (const { shard_key, shard_id } of [...info.local_shards, ...info.remote_shards]) {
      if (shard_key === undefined) continue
      keys.set(shard_key, (keys.get(shard_key) ?? new Set()).add(shard_id))
    }
    return [...keys].map(([key, ids]) => ({ key, shards: ids.size }))
  }

  /** Ids, as JSON, of randomly chosen points; fewer if the collection has fewer. */
  async sampleIds(
    collection: string,
    limit: number,
    shardKey?: ShardKey,
    signal?: AbortSignal,
  ): Promise<string[]> {
    const path = `${pointsPath(collection)}/query`
    const body = {
      query: { sample: 'random' },
      limit,
      with_payload: false,
      ...(shardKey !== undefined && { shard_key: shardKey }),
    }
    const response = await this.#engine.bytes('POST', path, { body, signal })
    return this.#parse(path, () => {
      const result = objectSpans(response).get('result')?.start
      const points = result === undefined ? undefined : objectSpans(response, result).get('points')
      if (points === undefined) throw new SyntaxError('no points')
      return arraySpans(response, points.start).map(({ start }) => readId(response, start))
    })
  }

  /** Points by their ids, as the bytes of their JSON; missing points are left out. */
  async retrieve(
    collection: string,
    ids: readonly string[],
    { shardKey, idsOnly, maxBytes }: RetrieveOptions = {},
    signal?: AbortSignal,
  ): Promise<Map<string, Buffer>> {
    const path = pointsPath(collection)
    const body = {
      ids: ids.map(rawJson),
      with_payload: idsOnly !== true,
      with_vector: idsOnly !== true,
      ...(shardKey !== undefined && { shard_key: shardKey }),
    }
    const options = { body, timeoutMs: LONG_CALL_MS, signal, maxBytes }
    const response = await this.#engine.bytes('POST', path, options)
    return this.#parse(path, () => {
      const result = objectSpans(response).get('result')
      if (result === undefined) throw new SyntaxError('no result')
      const points = arraySpans(response, result.start).map(
        ({ start, end }) => [readId(response, start), response.subarray(start, end)] as const,
      )
      return new Map(points)
    })
  }

  #parse<Result>(path: string, parse: () => Result): Result {
    try {
      return parse()
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw cause
      const call = `POST ${path} on ${this.#engine.node}`
      throw new EngineError(`${call} did not answer valid JSON: ${cause.message}`, { cause })
    }
  }
}

interface RawJsonSupport {
  rawJSON(text: string): object
}

/** A number of any size, as written in its JSON. */
function rawJson(json: string): object {
  // Newer than the type definitions.
  return (JSON as unknown as RawJsonSupport).rawJSON(json)
}

function pointsPath(collection: string): string {
  return `${collectionPath(collection)}/points`
}

export interface Page {
  /** A JSON array of points: one chunk, or two if it was cut. */
  points: readonly Buffer[]
  /** Total of all chunks. */
  bytes: number
  /** Number of points. */
  count: number
  /** Id at which the next page starts, as JSON; absent on the last page. */
  next?: string
}

/** How the engine starts and ends its response; what is in between is not scanned. */
const HEAD = Buffer.from('{"result":{"points":[')
const MIDDLE = Buffer.from('],"next_page_offset":')
const TAIL = /^(null|\d+|"[0-9a-f-]{36}")\},"status":"ok","time":[\d.e-]+(,"usage":\{[^[\]]*\})?\}$/
const MAX_TAIL = 4096
const EMPTY = Buffer.from('[]')
const CLOSING = Buffer.from(']')

/**
 * Throws `SyntaxError` if the response is not a page. A page other than the last has as many points
 * as `limit`.
 */
export function parsePage(response: Buffer, limit: number): Page {
  return parseUsualForm(response, limit) ?? parseAnyForm(response)
}

function parseUsualForm(response: Buffer, limit: number): Page | undefined {
  if (!response.subarray(0, HEAD.length).equals(HEAD)) return undefined
  const end = response.lastIndexOf(MIDDLE)
  if (end < response.length - MAX_TAIL) return undefined
  const [, next] = TAIL.exec(response.toString('utf8', end + MIDDLE.length)) ?? []
  if (next === undefined) return undefined
  const points = response.subarray(HEAD.length - 1, end + 1)
  const page = { points: [points], bytes: points.length }
  if (next === 'null') return { ...page, count: arraySpans(points).length }
  return { ...page, count: limit, next }
}

/** The part of a page before an id; the result has no next page. */
export function truncatePage({ points }: Page, endId: string): Page {
  const [text = EMPTY] = points
  const pointsBefore = arraySpans(text).filter(
    ({ start }) => comparePointIds(readId(text, start), endId) < 0,
  )
  const last = pointsBefore.at(-1)
  const pieces = last === undefined ? [EMPTY] : [text.subarray(0, last.end), CLOSING]
  return { points: pieces, bytes: totalLength(pieces), count: pointsBefore.length }
}

/** Ids of the points of a page, as JSON. */
export function pageIds({ points }: Page): string[] {
  const [single] = points
  const text = points.length === 1 && single !== undefined ? single : Buffer.concat(points)
  return arraySpans(text).map(({ start }) => readId(text, start))
}

/** How the engine starts each point. */
const FIRST_FIELD = Buffer.from('{"id":')

/** Id of the point that starts at an offset, as JSON. */
export function readId(text: Buffer, start: number): string {
  const idStart = start + FIRST_FIELD.length
  const isFirst = text.subarray(start, idStart).equals(FIRST_FIELD)
  const id = isFirst ? valueSpan(text, idStart) : objectSpans(text, start).get('id')
  if (id === undefined) throw new SyntaxError('a point without id')
  return text.toString('utf8', id.start, id.end)
}

/** Parses a page with any order of fields. */
function parseAnyForm(response: Buffer): Page {
  const result = objectSpans(response).get('result')
  if (result === undefined) throw new SyntaxError('no result')
  const fields = objectSpans(response, result.start)
  const points = fields.get('points')
  if (points === undefined) throw new SyntaxError('no points')
  const offset = fields.get('next_page_offset')
  const next = offset && response.toString('utf8', offset.start, offset.end)
  return {
    points: [response.subarray(points.start, points.end)],
    bytes: points.end - points.start,
    count: arraySpans(response, points.start).length,
    ...(next !== undefined && next !== 'null' && { next }),
  }
}

function totalLength(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}

const NUMBER = /^(0|[1-9]\d*)$/
const UUID = /^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$/

/** Whether the id is written as the engine writes ids: only those have a known order. */
export function isPointId(id: string): boolean {
  return NUMBER.test(id) || UUID.test(id)
}

/** Numbers before UUIDs, each in ascending order; numbers may have 64 bits. */
export function comparePointIds(a: string, b: string): number {
  if (a === b) return 0
  const isUuid = a.startsWith('"')
  if (isUuid !== b.startsWith('"')) return isUuid ? 1 : -1
  if (!isUuid && a.length !== b.length) return a.length - b.length
  return a < b ? -1 : 1
}
