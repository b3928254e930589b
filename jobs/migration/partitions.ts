/**
 * Divides a collection into partitions that are copied concurrently: by shard key and, if there are
 * fewer keys than partitions allowed, also by id range, because the engine returns ids in ascending
 * order.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import { comparePointIds, isPointId } from '../clients/engine/points.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import { resolveTargetName, type RunContext } from './context.ts'
import type { CopyScope, Partition } from './page-reader.ts'
import { compareShardKeys, shardingMethod, type SourceCollection } from './source-collection.ts'

/**
 * Each partition has its own page in memory; concurrent writes are limited across all partitions.
 */
export const MAX_PARTITIONS = 4
/** A partition with fewer pages ends before concurrency gains anything. */
const MIN_PAGES = 16
/**
 * Number of sampled ids that determine the boundaries: with this number the sizes of the parts
 * differ by a few percent.
 */
const SAMPLE_SIZE = 1000
/** A sample that strict mode reduces is sufficient down to this size. */
const MIN_SAMPLE_SIZE = 50

/** The scopes to copy: one per shard key with custom sharding, otherwise the whole collection. */
export function copyScopes(
  { name, info, keys }: SourceCollection,
  context: RunContext,
): CopyScope[] {
  const scope = { name, targetName: resolveTargetName(name, context.options) }
  if (shardingMethod(info.config.params) !== 'custom') return [scope]
  return keys.map(({ key }) => ({ ...scope, shardKey: key }))
}

/** What to copy, and the maximum number of points per page. */
export interface CopyInput {
  scopes: readonly CopyScope[]
  /** Approximate number, as reported by the source. */
  points: number
  pageSize: number
  /** Whether the target responds only after it applies a write. */
  wait: boolean
}

export interface Partitions {
  /** In progress from the start. */
  active: Partition[]
  /** Each starts when another partition ends. */
  queued: Partition[]
}

/** The partitions of a collection that starts, or those that an earlier pod left unfinished. */
export async function resumePartitions(
  position: MigrationCheckpoint,
  input: CopyInput,
  context: RunContext,
): Promise<Partitions> {
  const { scopes } = input
  const { lanes: records, begun } = readRecord(position)
  if (records === undefined) return planPartitions(input, context)
  // A key that was deleted in the meantime has no points any more.
  const active = scopes.flatMap((scope) =>
    records
      .filter(({ shardKey }) => shardKey === scope.shardKey)
      .map(({ offset, until }) => ({ ...scope, offset, until })),
  )
  const queued = scopes.filter(
    ({ shardKey }) =>
      shardKey !== undefined && begun !== undefined && compareShardKeys(shardKey, begun) > 0,
  )
  return { active, queued }
}

interface RecordedPartitions {
  lanes?: Pick<Partition, 'shardKey' | 'offset' | 'until'>[] | undefined
  begun?: ShardKey | undefined
}

function readRecord({ lanes, begun, shardKey, offset }: MigrationCheckpoint): RecordedPartitions {
  const isLegacy = lanes === undefined && (shardKey ?? offset) !== undefined
  return isLegacy ? { lanes: [{ shardKey, offset }], begun: shardKey } : { lanes, begun }
}

/** Partitions that cover all points of the scopes. */
export async function planPartitions(
  { scopes, points, pageSize }: CopyInput,
  context: RunContext,
): Promise<Partitions> {
  const pages = points / pageSize / Math.max(1, scopes.length)
  const partCount = Math.min(
    Math.floor(MAX_PARTITIONS / scopes.length),
    Math.floor(pages / MIN_PAGES),
  )
  if (partCount < 2) return { active: [], queued: [...scopes] }
  const active: Partition[] = []
  for (const scope of scopes) active.push(...(await splitScope(scope, partCount, context)))
  return { active, queued: [] }
}

/** Splits a scope into parts with approximately equal numbers of points. */
async function splitScope(
  scope: CopyScope,
  partCount: number,
  context: RunContext,
): Promise<Partition[]> {
  const ids = await sampleIds(scope, SAMPLE_SIZE, context)
  if (ids.length < MIN_SAMPLE_SIZE || !ids.every(isPointId)) return [scope]
  const sorted = ids.toSorted(comparePointIds)
  const boundaries = Array.from(
    { length: partCount - 1 },
    (_, n) => sorted[Math.floor(((n + 1) * sorted.length) / partCount)],
  )
  return [undefined, ...boundaries].map((offset, n) => ({ ...scope, offset, until: boundaries[n] }))
}

/** Ids of random points, as JSON; fewer if the source has fewer or its strict mode allows fewer. */
export async function sampleIds(
  { name, shardKey }: CopyScope,
  count: number,
  context: RunContext,
): Promise<string[]> {
  const { source, tools } = context
  for (let limit = count; ; limit = Math.floor(limit / 2)) {
    try {
      return await withBackoff(context, () =>
        source.points.sampleIds(name, limit, shardKey, tools.signal),
      )
    } catch (error) {
      if (limit <= 1 || !isTooLarge(error)) throw error
    }
  }
}
