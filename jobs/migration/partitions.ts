/**
 * How a collection is divided into lanes that are copied side by side: by its shard keys, and where these
 * are fewer than the lanes there may be, by ids, which the engine gives in ascending order.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import { comparePointIds, isPointId } from '../clients/engine/points.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import type { RunContext } from './context.ts'
import type { CopyScope, Partition } from './page-reader.ts'
import { compareShardKeys } from './source-collection.ts'

/** Each has a page of its own in memory; what is written at once is bounded for all together. */
export const MAX_PARTITIONS = 4
/** A lane that has fewer pages is over before it has gained anything. */
const MIN_PAGES = 16
/** Ids from which it is told where a collection is divided: with so many, parts differ by a few hundredths. */
const SAMPLE_SIZE = 1000
/** As many as strict mode lets us have may do. */
const MIN_SAMPLE_SIZE = 50

/** What is copied, and of how many points each page is at most. */
export interface CopyInput {
  scopes: readonly CopyScope[]
  /** As the source counts them, approximately. */
  points: number
  pageSize: number
  /** Whether a write is answered once it is applied. */
  wait: boolean
}

export interface Partitions {
  /** At work from the first moment on. */
  active: Partition[]
  /** They take the turn of those that come to their end. */
  queued: Partition[]
}

/** The lanes of a collection that is begun, or of what a pod before this one left. */
export async function resumePartitions(
  position: MigrationCheckpoint,
  input: CopyInput,
  context: RunContext,
): Promise<Partitions> {
  const { scopes } = input
  const { lanes: records, begun } = readRecord(position)
  if (records === undefined) return planPartitions(input, context)
  // A key that was deleted meanwhile has no points any more.
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

/** All of what the places hold. */
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

/** A place in parts with about as many points each. */
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

/** Their ids, as JSON; fewer where the source has, or allows, no more at once. */
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
