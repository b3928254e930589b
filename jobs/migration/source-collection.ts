/** What a collection of the source is: its configuration, its shard keys, and what it lets us read. */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { GREEN_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { isPlainObject, ownValue, type PlainObject } from '../../crds/engine/plain-object.ts'
import type { ShardKeyInfo } from '../clients/engine/points.ts'
import { withBackoff } from './backoff.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import type { CopyScope } from './page-reader.ts'

export interface SourceCollection {
  name: string
  info: CollectionInfo
  /** Under custom sharding; else empty. In an order that stays. */
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
  const keys = await withBackoff(context, () => source.points.shardKeys(name, tools.signal))
  for (const { key } of keys) rejectUnsafeShardKey(key)
  return { name, info, keys: keys.toSorted((left, right) => compareShardKeys(left.key, right.key)) }
}

/** Where points are copied from and to: one place for each shard key. */
export function copyScopes(
  { name, info, keys }: SourceCollection,
  context: RunContext,
): CopyScope[] {
  const scope = { name, targetName: resolveTargetName(name, context.options) }
  if (shardingMethod(info.config.params) !== 'custom') return [scope]
  return keys.map(({ key }) => ({ ...scope, shardKey: key }))
}

/** How much is read and written at once: as the spec says, or less where an engine allows less. */
export interface PageLimits {
  /** Points of a page that is written as it came. */
  copyPageSize: number
  /** Points of a page that is read from both sides. */
  comparePageSize: number
  /** Whether a write is answered once it is applied: what the target defers would take until it is indexed. */
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

/** A 404 under way is for good where a collection that was seen on a side is not listed there any more. */
export async function rejectIfDeleted(
  error: unknown,
  { endpoint, name }: { endpoint: Endpoint; name: string },
  context: RunContext,
): Promise<void> {
  if (!(error instanceof EngineError) || error.status !== 404) return
  const collectionNames = await withBackoff(context, () =>
    endpoint.engine.collections(context.tools.signal),
  )
  if (!collectionNames.includes(name)) throw collectionDeleted(name, endpoint)
}

/** The source or target has it no more. */
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
  throw new Rejected(`shard key ${key} is above 2^53, which cannot be read for sure`)
}

/** Numbers first; a pod that comes after a killed one must find the same order. */
export function compareShardKeys(left: ShardKey, right: ShardKey): number {
  if (typeof left !== typeof right) return typeof left === 'number' ? -1 : 1
  return left < right ? -1 : left > right ? 1 : 0
}

/** `config.params` of a collection. */
type CollectionParams = PlainObject

/** Why they do not, each in a sentence; empty when they do. The target may have more vectors. */
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

/** By name; the one unnamed vector under the empty name. */
function denseVectors({ vectors }: CollectionParams): PlainObject {
  if (!isPlainObject(vectors)) return {}
  return typeof vectors['size'] === 'number' ? { '': vectors } : vectors
}

function sparseVectors({ sparse_vectors: sparse }: CollectionParams): PlainObject {
  return isPlainObject(sparse) ? sparse : {}
}

const POLL_MS = 5_000
/** The number falls each time a segment is indexed; a large segment takes long. */
const STALL_TIMEOUT_MS = GREEN_TIMEOUT_SECONDS * 1000
const MAX_WAIT_MS = 12 * STALL_TIMEOUT_MS

/** A collection that is not green after so long is not waited for any more. */
const MAX_INDEXING_POLLS = 120

/** How many points of a collection are hidden until they are indexed or applied. */
function hiddenPoints({ config, update_queue: queue }: CollectionInfo, { role }: Endpoint): number {
  if (config.optimizer_config['prevent_unoptimized'] !== true) return 0
  const { deferred_points: deferred, length = 0 } = queue ?? {}
  // Our own writes to such a target were not waited for.
  if (role === 'target') return (deferred ?? 0) + length
  // 1.17.0 hides nothing, and holds back the writes themselves.
  return deferred ?? length
}

/** Whether what is written may be hidden at first. */
export function defersPoints({ config }: CollectionInfo): boolean {
  const { prevent_unoptimized: prevents, indexing_threshold: threshold } = config.optimizer_config
  return prevents === true && threshold !== 0
}

/** Waits, within bounds, until all points of a collection can be read; undefined: it is gone. */
export async function waitForReadablePoints(
  endpoint: Endpoint,
  name: string,
  context: RunContext,
): Promise<CollectionInfo | undefined> {
  const { tools, progress } = context
  let lowest = Infinity
  for (let waitedMs = 0, stalledMs = 0; ; waitedMs += POLL_MS, stalledMs += POLL_MS) {
    const info = await withBackoff(context, () =>
      endpoint.collections.collectionInfo(name, tools.signal),
    )
    const hidden = info === undefined ? 0 : hiddenPoints(info, endpoint)
    if (hidden === 0) return info
    if (hidden < lowest) stalledMs = 0
    lowest = Math.min(lowest, hidden)
    const description = `${hidden} of about ${info?.points_count ?? 0} points of ${name} at the ${endpoint.role}`
    if (stalledMs >= STALL_TIMEOUT_MS || waitedMs >= MAX_WAIT_MS)
      throw stillDeferred(description, waitedMs)
    tools.log.info({ collection: name, hidden }, `waiting until deferred points are indexed`)
    progress.reportWaiting(
      `waiting for ${description}, which cannot be read until they are indexed`,
    )
    await tools.time.sleep(POLL_MS, tools.signal)
    progress.check()
  }
}

/** Waits, for some minutes at most, until a collection has built its indexes. */
export async function waitForIndexing(
  { collections }: Endpoint,
  name: string,
  context: RunContext,
): Promise<void> {
  const { tools, progress } = context
  for (let poll = 0; poll < MAX_INDEXING_POLLS; poll += 1) {
    await tools.time.sleep(POLL_MS, tools.signal)
    progress.check()
    const info = await withBackoff(context, () => collections.collectionInfo(name, tools.signal))
    if (info?.status !== 'yellow') return
    progress.reportWaiting(`waiting until ${name} is indexed: it has more points than it shows`)
  }
}

function stillDeferred(description: string, waitedMs: number): EngineError {
  const minutes = Math.round(waitedMs / 60_000)
  const advice = 'pause writing until the collection is indexed, and create another VecMigration'
  return new EngineError(
    `${description} cannot be read: prevent_unoptimized defers them until they are indexed, and after ${minutes} minutes they are not (${advice})`,
  )
}
