/**
 * The configuration, shard keys and limits of a source collection, and its compatibility with the
 * target. Also waits until the points of a collection on either side are readable or indexed.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { GREEN_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { isPlainObject, ownValue, type PlainObject } from '../../crds/engine/plain-object.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import type { ShardKeyInfo } from '../clients/engine/points.ts'
import { isTransient, poll } from '../retry.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import { mayExist, readSourceShardKeys } from './list-collections.ts'

export interface SourceCollection {
  name: string
  info: CollectionInfo
  /** Empty unless sharding is custom. The order is stable. */
  keys: ShardKeyInfo[]
}

export async function readSourceCollection(
  name: string,
  context: RunContext,
): Promise<SourceCollection> {
  const { source, tools } = context
  const info = await withBackoff(context, () =>
    source.collections.collectionInfo(name, tools.signal),
  )
  if (info === undefined) throw collectionDeleted(name, source)
  if (shardingMethod(info.config.params) !== 'custom') return { name, info, keys: [] }
  const keys = await readSourceShardKeys(name, context)
  for (const { key } of keys) rejectUnsafeShardKey(key)
  return { name, info, keys: keys.toSorted((left, right) => compareShardKeys(left.key, right.key)) }
}

/** Page sizes and write mode: as in the spec, or smaller if an engine allows less. */
export interface PageLimits {
  /** Maximum points of a page that is written as it was read. */
  copyPageSize: number
  /** Maximum points of a page that is read from both sides. */
  comparePageSize: number
  /**
   * Whether the target responds only after it applies a write. False if the target defers points:
   * it would respond only after they are indexed.
   */
  wait: boolean
}

export async function readPageLimits(
  sourceCollection: SourceCollection,
  context: RunContext,
): Promise<PageLimits> {
  const { target, tools, options } = context
  const name = resolveTargetName(sourceCollection.name, options)
  const live = await withBackoff(context, () =>
    target.collections.collectionInfo(name, tools.signal),
  )
  const queryLimits = [sourceCollection.info, live].map((info) =>
    strictModeLimit(info, 'max_query_limit'),
  )
  const pageSize = (...limits: number[]) => Math.max(1, Math.min(options.batchSize, ...limits))
  return {
    copyPageSize: pageSize(
      strictModeLimit(sourceCollection.info, 'max_query_limit'),
      strictModeLimit(live, 'upsert_max_batchsize'),
    ),
    comparePageSize: pageSize(...queryLimits),
    wait: live === undefined || !defersPoints(live),
  }
}

/** A collection that a migration reads or writes, and its shard keys as they were when it began. */
export interface TouchedCollection {
  endpoint: Endpoint
  name: string
  keys: ShardKey[]
}

/** Throws if the request failed because the endpoint no longer has the collection, or a shard key. */
export async function rejectIfDeleted(
  error: unknown,
  { endpoint, name, keys }: TouchedCollection,
  context: RunContext,
): Promise<void> {
  if (!(error instanceof EngineError) || ![400, 404].includes(error.status ?? 0)) return
  const { signal } = context.tools
  if (!(await mayExist(name, endpoint, context))) throw collectionDeleted(name, endpoint)
  if (keys.length === 0) return
  // Another 400 has a cause of its own, whatever happened to the shard keys meanwhile.
  if (error.status === 400 && !/shard key/i.test(error.message)) return
  const live = await withBackoff(context, () => endpoint.points.shardKeys(name, signal))
  const deleted = keys.find((key) => !live.some((entry) => entry.key === key))
  if (deleted === undefined) return
  throw new Rejected(
    `shard key ${JSON.stringify(deleted)} was deleted at the ${endpoint.role} during the migration`,
  )
}

/** The error for a collection that the source or the target no longer has. */
export function collectionDeleted(name: string, { role }: Endpoint): Rejected {
  return new Rejected(`collection ${name} was deleted at the ${role} during the migration`)
}

function strictModeLimit(info: CollectionInfo | undefined, field: string): number {
  const strictMode: PlainObject = info?.config.strict_mode_config ?? {}
  const limit = strictMode[field]
  return strictMode['enabled'] === true && typeof limit === 'number' ? limit : Infinity
}

function rejectUnsafeShardKey(key: ShardKey): void {
  if (typeof key !== 'number' || Number.isSafeInteger(key)) return
  throw new Rejected(`shard key ${key} is above 2^53, which cannot be read exactly`)
}

/** Numbers first. The order must be the same in a pod that replaces a killed one. */
export function compareShardKeys(left: ShardKey, right: ShardKey): number {
  if (typeof left !== typeof right) return typeof left === 'number' ? -1 : 1
  return left < right ? -1 : left > right ? 1 : 0
}

/** `config.params` of a collection. */
type CollectionParams = PlainObject

/**
 * Reasons why the target is incompatible, one sentence each; empty if it is compatible. The target
 * may have additional vectors.
 */
export function incompatibilities(source: CollectionParams, target: CollectionParams): string[] {
  const missingSparse = Object.keys(sparseVectors(source)).filter(
    (name) => !(name in sparseVectors(target)),
  )
  return [
    ...denseVectorIncompatibilities(denseVectors(source), denseVectors(target)),
    ...missingSparse.map((name) => `sparse vector ${name} is missing in the target`),
    ...shardingIncompatibilities(shardingMethod(source), shardingMethod(target)),
  ]
}

/** `auto` or `custom`. */
export function shardingMethod(params: CollectionParams): string {
  const method = params['sharding_method']
  return typeof method === 'string' ? method : 'auto'
}

function denseVectorIncompatibilities(source: PlainObject, target: PlainObject): string[] {
  return Object.entries(source).flatMap(([name, vector]) => {
    const label = name === '' ? 'the unnamed vector' : `vector ${name}`
    const targetVector = ownValue(target, name)
    return targetVector === undefined
      ? [`${label} is missing in the target`]
      : vectorIncompatibilities(label, vector, targetVector)
  })
}

function vectorIncompatibilities(label: string, source: unknown, target: unknown): string[] {
  const differenceOf = (field: string, defaultValue?: unknown) => {
    const [sourceValue, targetValue] = [
      ownValue(source, field) ?? defaultValue,
      ownValue(target, field) ?? defaultValue,
    ]
    return JSON.stringify(sourceValue) === JSON.stringify(targetValue)
      ? []
      : [[sourceValue, targetValue]]
  }
  const describe = (property: string, pairs: unknown[][]) =>
    pairs.map(
      ([sourceValue, targetValue]) =>
        `${label} has ${property} ${formatValue(sourceValue)}, in the target ${formatValue(targetValue)}`,
    )
  return [
    ...describe('size', differenceOf('size')).map((text) => `dimension error: ${text}`),
    ...describe('distance', differenceOf('distance')),
    ...describe('datatype', differenceOf('datatype', 'float32')),
    ...describe('multivector', differenceOf('multivector_config')),
  ]
}

function shardingIncompatibilities(source: string, target: string): string[] {
  if (source === target) return []
  return [`its sharding is ${source}, in the target ${target}`]
}

function formatValue(value: unknown): string {
  if (value === undefined) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** By name; the unnamed vector has an empty name. */
function denseVectors({ vectors }: CollectionParams): PlainObject {
  if (!isPlainObject(vectors)) return {}
  return typeof vectors['size'] === 'number' ? { '': vectors } : vectors
}

function sparseVectors({ sparse_vectors: sparse }: CollectionParams): PlainObject {
  return isPlainObject(sparse) ? sparse : {}
}

const POLL_MS = 5_000
/**
 * The number of hidden points falls each time a segment is indexed; a large segment takes a long
 * time.
 */
const STALL_TIMEOUT_MS = GREEN_TIMEOUT_SECONDS * 1000
const MAX_WAIT_MS = 12 * STALL_TIMEOUT_MS

/** Number of polls after which a collection that is still not indexed is no longer waited for. */
const MAX_INDEXING_POLLS = 120

/** Number of points that are hidden until they are indexed or applied. */
function hiddenPoints({ config, update_queue: queue }: CollectionInfo, { role }: Endpoint): number {
  if (config.optimizer_config['prevent_unoptimized'] !== true) return 0
  const { deferred_points: deferred, length = 0 } = queue ?? {}
  // Writes to a target that defers points are not awaited: count queued updates too.
  if (role === 'target') return (deferred ?? 0) + length
  // Version 1.17.0 hides no points; it delays the writes themselves.
  return deferred ?? length
}

/**
 * The highest number that a node reports: replicas are indexed independently, and any node may
 * answer the request for the next page. Nodes that do not answer return no pages either.
 */
async function hiddenOnAnyNode(
  endpoint: Endpoint,
  name: string,
  { tools: { signal } }: RunContext,
): Promise<number> {
  // A single node is the one that has been asked.
  const nodes = endpoint.nodes.length > 1 ? endpoint.nodes : []
  const counts = nodes.map(async (node) => {
    try {
      const info = await new EngineCollections(node).collectionInfo(name, signal)
      return info === undefined ? 0 : hiddenPoints(info, endpoint)
    } catch (error) {
      signal.throwIfAborted()
      if (!isTransient(error)) throw error
      return 0
    }
  })
  return Math.max(0, ...(await Promise.all(counts)))
}

/** Whether written points may be hidden at first (docs/engine-notes.md). */
export function defersPoints({ config }: CollectionInfo): boolean {
  const { prevent_unoptimized: prevents, indexing_threshold: threshold } = config.optimizer_config
  return prevents === true && threshold !== 0
}

/** Waits, within limits, until all points of a collection are readable; undefined if it is gone. */
export async function waitForReadablePoints(
  endpoint: Endpoint,
  name: string,
  context: RunContext,
): Promise<CollectionInfo | undefined> {
  const { tools, progress } = context
  const { time, signal, log } = tools
  let lowest = Infinity
  let lastProgressMs = 0
  const afterPause = () => {
    progress.check()
  }
  const schedule = { time, signal, pauseMs: POLL_MS, afterPause }
  const { info } = await poll(schedule, async (state) => {
    const info = await withBackoff(context, () => endpoint.collections.collectionInfo(name, signal))
    const hidden =
      info === undefined
        ? 0
        : Math.max(hiddenPoints(info, endpoint), await hiddenOnAnyNode(endpoint, name, context))
    if (hidden === 0) return { info }
    const waitedMs = state.waitedMs()
    if (hidden < lowest) lastProgressMs = waitedMs
    lowest = Math.min(lowest, hidden)
    const description = `${hidden} of about ${info?.points_count ?? 0} points of ${name} at the ${endpoint.role}`
    if (waitedMs - lastProgressMs >= STALL_TIMEOUT_MS || waitedMs >= MAX_WAIT_MS)
      throw stillDeferred(description, waitedMs)
    log.info({ collection: name, hidden }, `waiting until deferred points are indexed`)
    progress.reportWaiting(
      `waiting for ${description}, which cannot be read until they are indexed`,
    )
    return undefined
  })
  return info
}

/** Waits up to about ten minutes until a collection has built its indexes. */
export async function waitForIndexing(
  { collections }: Endpoint,
  name: string,
  context: RunContext,
): Promise<void> {
  const { tools, progress } = context
  const { time, signal } = tools
  const afterPause = () => {
    progress.check()
  }
  const schedule = { time, signal, pauseMs: POLL_MS, pauseFirst: true, afterPause }
  await poll(schedule, async ({ pauses }) => {
    const info = await withBackoff(context, () => collections.collectionInfo(name, signal))
    if (info?.status !== 'yellow') return true
    progress.reportWaiting(`waiting until ${name} is indexed: not all of its points are visible`)
    return pauses === MAX_INDEXING_POLLS ? false : undefined
  })
}

function stillDeferred(description: string, waitedMs: number): EngineError {
  const minutes = Math.round(waitedMs / 60_000)
  const advice = 'pause writing until the collection is indexed, and create another VecMigration'
  return new EngineError(
    `${description} cannot be read: prevent_unoptimized defers them until they are indexed, and after ${minutes} minutes they still are not (${advice})`,
  )
}
