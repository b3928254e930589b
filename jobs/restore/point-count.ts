/**
 * Proof that the points are restored: counts every replica of every shard on its own node and
 * compares it with the other replicas and with the backup. A difference that the backup cannot
 * prove is a note; a proven loss is a failure, which is reported after all other steps.
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError } from '../../crds/contract/errors.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import {
  appliedWrites,
  countPoints,
  type CountScope,
  type PointCount,
} from '../clients/engine/statistics.ts'
import { poll, retryTransient, runGroupsConcurrently } from '../retry.ts'
import { engineForPod, ordinals, recoveryForPod, type RunContext } from './context.ts'
import type { RestoreItem } from '../manifest-check.ts'
import { replicaDifferences } from '../replica-differences.ts'

/**
 * Pauses between counts. A count reflects one moment and can lag behind the state that the nodes
 * agreed on. Most lags are short, so the first pauses are short.
 */
const PAUSES_MS = [100, 400, 1_500, 3_000, 5_000, 5_000, 5_000, 5_000]
/** Nodes that count at the same time; each node counts one shard at a time. */
const NODE_CONCURRENCY = 8
/** Estimates of equal replicas differ by less than this share. */
const ESTIMATE_TOLERANCE = 0.01

/** Of a node that reports no numbers of writes. */
const UNKNOWN: ReadonlyMap<number, number> = new Map()

type Shard = RestoreItem['source']['shards'][number]

/** Counts by shard id, then by ordinal of the node that holds the replica. */
export type Counts = Map<number, Map<number, PointCount>>

export interface CountResult {
  /** Total; undefined if a shard could not be counted, not even approximately. */
  points: number | undefined
  /** The proven loss, as text. */
  loss?: string
}

/** Throws if a node stays unavailable. */
export async function verifyPointCount(
  item: RestoreItem,
  context: RunContext,
): Promise<CountResult> {
  const { source, name } = item
  const { tools, progress } = context
  const counts = await countShards(item, shardIds(item), context)
  let loss = findLoss(item, counts)
  if (loss !== undefined || unprovenDifference(item, counts) !== undefined) {
    const written = await recount(item, counts, context)
    loss = findLoss(item, counts, written)
    const explained = loss === undefined ? findLoss(item, counts) : undefined
    if (explained !== undefined)
      progress.note(`${explained}; points of ${name} were written during the count`)
  }
  for (const note of countNotes(item, counts)) progress.note(note)
  const points = totalPoints(shardIds(item), counts)
  const fields = {
    collection: name,
    points,
    recorded: source.exactPointsCount ?? source.pointsCount,
  }
  tools.log.info(fields, `${name} has ${points ?? 'an unknown number of'} points`)
  return { points, ...(loss !== undefined && { loss }) }
}

/**
 * Repeats the counts of suspect shards until they match, for longer if points seem to be missing.
 * Returns the shards that clients wrote to meanwhile; none if the counts match.
 */
async function recount(
  item: RestoreItem,
  counts: Counts,
  context: RunContext,
): Promise<ReadonlySet<number>> {
  const { time, signal } = context.tools
  const before = await readWrites(item.name, context)
  const initial = new Map(counts)
  const pauseMs = findLoss(item, counts) === undefined ? PAUSES_MS.slice(0, 3) : PAUSES_MS
  const afterPause = () => context.progress.reported()
  const schedule = { time, signal, pauseMs, pauseFirst: true, afterPause }
  const isResolved = await poll(schedule, async ({ pauses }) => {
    const recounted = await countShards(item, suspectShards(item, counts), context)
    for (const [shard, replicas] of recounted) counts.set(shard, replicas)
    const isEqual =
      findLoss(item, counts) === undefined && unprovenDifference(item, counts) === undefined
    return isEqual || pauses === pauseMs.length ? isEqual : undefined
  })
  if (isResolved) return new Set()
  const after = await readWrites(item.name, context)
  return writtenShards({ writes: before, counts: initial }, { writes: after, counts })
}

interface Reading {
  /** By node: the number of the last write of each of its replicas, by shard; empty if unknown. */
  writes: readonly ReadonlyMap<number, number>[]
  counts: Counts
}

/** The shards of which a replica has applied writes between the two readings. */
export function writtenShards(before: Reading, after: Reading): Set<number> {
  const isWritten = (id: number, node: number, count: PointCount) => {
    const [first, last] = [before.writes[node] ?? UNKNOWN, after.writes[node] ?? UNKNOWN]
    // A node that does not number writes, or does not answer: only a changing count reveals them.
    if (first.size === 0 || last.size === 0)
      return !isDeepStrictEqual(before.counts.get(id)?.get(node), count)
    // Without a number, writes are queued.
    return !last.has(id) || first.get(id) !== last.get(id)
  }
  const written = [...after.counts].filter(([id, replicas]) =>
    [...replicas].some(([node, count]) => isWritten(id, node, count)),
  )
  return new Set(written.map(([id]) => id))
}

/**
 * Describes a proven loss of points; undefined if nothing proves a loss. Counts of shards that are
 * being written prove nothing.
 */
export function findLoss(
  { source, name }: Pick<RestoreItem, 'source' | 'name'>,
  counts: Counts,
  written: ReadonlySet<number> = new Set(),
): string | undefined {
  for (const shard of source.shards) {
    const { shardId } = shard
    if (written.has(shardId)) continue
    const loss = shardLoss(counts.get(shardId), shard) ?? emptyShard(source, shardId, counts)
    if (loss !== undefined) return `shard ${shardId} of ${name} ${loss}`
  }
  for (const { key, shardIds: ids, exactPointsCount = 0 } of source.shardKeys) {
    if (exactPointsCount === 0 || ids.some((id) => written.has(id))) continue
    if (exactTotal(ids, counts) === 0)
      return `${formatShardKey(key, name)} ${isEmpty(exactPointsCount)}`
  }
  const total = totalPoints([...counts.keys()], counts)
  const recorded = source.exactPointsCount ?? source.pointsCount ?? 0
  if (written.size === 0 && total === 0 && recorded > 0) {
    return `${name} ${isEmpty(recorded)}`
  }
  return undefined
}

function isEmpty(recorded: number): string {
  return `is empty after the restore, but ${recorded} points were counted when it was backed up`
}

/** The number that its node reported before and after the stream is an estimate, and more than zero points are some. */
function emptyShard(
  { snapshots }: RestoreItem['source'],
  id: number,
  counts: Counts,
): string | undefined {
  const snapshot = snapshots.find((one) => 'shardId' in one && one.shardId === id)
  const { pointsCount = 0 } = snapshot !== undefined && 'shardId' in snapshot ? snapshot : {}
  if (pointsCount === 0 || exactTotal([id], counts) !== 0) return undefined
  return `is empty after the restore, but about ${pointsCount} points were backed up`
}

/**
 * Replicas that were restored from the snapshots of nodes may differ as they did in the backup: the
 * engine fills them from one of these snapshots, or each from its own.
 */
function shardLoss(
  replicas: Map<number, PointCount> | undefined,
  {
    exactPointsCount,
    replicaPointsCounts,
  }: Pick<Shard, 'exactPointsCount' | 'replicaPointsCounts'>,
) {
  if (replicas === undefined || replicas.size === 0) return 'is on no node'
  const exact = [...replicas].flatMap(([node, count]) =>
    count.isExact ? [{ node, points: count.points }] : [],
  )
  const [lowest, ...others] = exact.toSorted((a, b) => a.points - b.points)
  const highest = others.at(-1)
  if (lowest === undefined) return undefined
  const recorded = replicaPointsCounts?.map(({ pointsCount }) => pointsCount) ?? []
  const snapshotPoints =
    exactPointsCount ?? (recorded.length > 0 ? Math.min(...recorded) : undefined)
  if (snapshotPoints !== undefined && lowest.points < snapshotPoints) {
    return `has ${lowest.points} points on node ${lowest.node}, but its snapshot holds ${snapshotPoints}`
  }
  if (highest === undefined || highest.points === lowest.points) return undefined
  const differedInBackup = exact.every(({ points }) => recorded.includes(points))
  if (exactPointsCount === undefined && differedInBackup) return undefined
  return `has ${lowest.points} points on node ${lowest.node}, but ${highest.points} on node ${highest.node}`
}

/** Shards with a proven loss; all shards if only a total differs. */
function suspectShards(item: RestoreItem, counts: Counts): number[] {
  const { source } = item
  const suspects = source.shards.flatMap((shard) => {
    const { shardId } = shard
    const loss = shardLoss(counts.get(shardId), shard) ?? emptyShard(source, shardId, counts)
    return loss === undefined ? [] : [shardId]
  })
  return suspects.length > 0 ? suspects : shardIds(item)
}

/**
 * Describes a total that differs from the count during the backup. The difference alone proves no
 * loss.
 */
export function unprovenDifference(
  { source, name }: Pick<RestoreItem, 'source' | 'name'>,
  counts: Counts,
): string | undefined {
  const scopes = [
    { where: name, ids: source.shards.map(({ shardId }) => shardId), source },
    ...source.shardKeys.map((shardKey) => ({
      where: formatShardKey(shardKey.key, name),
      ids: shardKey.shardIds,
      source: shardKey,
    })),
  ]
  for (const {
    where,
    ids,
    source: { exactPointsCount: recorded },
  } of scopes) {
    const total = exactTotal(ids, counts)
    if (recorded === undefined || total === undefined || total === recorded) continue
    return `${where} has ${total} points; ${recorded} were counted when it was backed up`
  }
  return undefined
}

function formatShardKey(key: ShardKey, name: string): string {
  return `shard key ${JSON.stringify(key)} of ${name}`
}

export function countNotes(
  { source, name }: Pick<RestoreItem, 'source' | 'name'>,
  counts: Counts,
): string[] {
  const all = [...counts.values()].flatMap((replicas) => [...replicas.values()])
  const inexact = all.find((count) => !count.isExact)
  const points = totalPoints([...counts.keys()], counts)
  const { exactPointsCount: recorded, pointsCount: estimate } = source
  // Without an exact recorded number, compare with the engine's estimate.
  const differs = recorded === undefined && inexact === undefined && points !== estimate
  const notes = [
    ...replicaDifferences({ name, shards: source.shards }, 'differed when it was backed up'),
    unprovenDifference({ source, name }, counts),
    inexact?.isExact === false
      ? `points of ${name} were not counted: ${inexact.reason}`
      : undefined,
    differs ? differenceNote(name, points, estimate) : undefined,
    ...[...counts].map(([shard, replicas]) => estimateDifference(shard, name, replicas)),
    snapshotDifference({ source, name }, counts),
  ]
  return notes.filter((note) => note !== undefined)
}

/** A manifest of another program has no number. */
function differenceNote(name: string, points: number | undefined, estimate: number | undefined) {
  const restored =
    points === undefined
      ? `the number of points of ${name} is unknown`
      : `${name} has ${points} points`
  return estimate === undefined
    ? `${restored}; the backup recorded no number to compare with`
    : `${restored}; about ${estimate} were recorded`
}

/**
 * Compares each shard with the number that its node reported before and after the stream, if no
 * better number was recorded.
 */
function snapshotDifference(
  { source, name }: Pick<RestoreItem, 'source' | 'name'>,
  counts: Counts,
): string | undefined {
  const proven = new Set(
    source.shards.flatMap(({ shardId, exactPointsCount }) =>
      exactPointsCount === undefined ? [] : [shardId],
    ),
  )
  for (const snapshot of source.snapshots) {
    if (!('shardId' in snapshot) || proven.has(snapshot.shardId)) continue
    const { shardId, pointsCount } = snapshot
    const points = exactTotal([shardId], counts)
    if (pointsCount === undefined || points === undefined || points === pointsCount) continue
    return `shard ${shardId} of ${name} has ${points} points; about ${pointsCount} were backed up`
  }
  return undefined
}

function estimateDifference(
  shard: number,
  name: string,
  replicas: Map<number, PointCount>,
): string | undefined {
  const all = [...replicas.values()]
  if (all.every((count) => count.isExact)) return undefined
  const points = all.flatMap((count) => (count.points === undefined ? [] : [count.points]))
  const [lowest, highest] = [Math.min(...points), Math.max(...points)]
  if (points.length < 2 || highest - lowest <= highest * ESTIMATE_TOLERANCE) return undefined
  return `shard ${shard} of ${name} has about ${lowest} points on one node, and ${highest} on another`
}

/**
 * Sum of the highest count of each shard, exact or estimated; undefined if a shard has no count.
 */
function totalPoints(ids: readonly number[], counts: Counts): number | undefined {
  const points = ids.map((id) => maxPoints([...(counts.get(id)?.values() ?? [])]))
  return points.some((count) => count === undefined)
    ? undefined
    : points.reduce<number>((sum, count) => sum + (count ?? 0), 0)
}

function maxPoints(replicas: PointCount[]): number | undefined {
  const points = replicas.flatMap((count) => (count.points === undefined ? [] : [count.points]))
  return points.length === 0 ? undefined : Math.max(...points)
}

function exactTotal(ids: readonly number[], counts: Counts): number | undefined {
  const isExact = ids.every((id) =>
    [...(counts.get(id)?.values() ?? [])].every((count) => count.isExact),
  )
  return isExact ? totalPoints(ids, counts) : undefined
}

/** Counts every replica of these shards on its own node. */
async function countShards(item: RestoreItem, ids: number[], context: RunContext): Promise<Counts> {
  const { name } = item
  const { signal } = context.tools
  const counts: Counts = new Map(ids.map((id) => [id, new Map<number, PointCount>()]))
  const groups = await Promise.all(
    ordinals(context).map(async (node) => {
      const engine = recoveryForPod(context, node)
      const { local_shards } = await retryTransient(context, () =>
        engine.collectionCluster(name, signal),
      )
      const deferred = await deferredPoints(name, node, context)
      return local_shards.flatMap(({ shard_id: shard, points_count: upperBound }) =>
        counts.has(shard) ? [{ node, shard, upperBound, deferred }] : [],
      )
    }),
  )
  await runGroupsConcurrently(groups, NODE_CONCURRENCY, async (replica) => {
    const { node, shard, upperBound, deferred } = replica
    const scope = { collection: name, shard, upperBound }
    // Deferred points are in the shards, but in no count.
    const reason = `${deferred} points are deferred until they are indexed`
    const count =
      deferred > 0 ? ({ isExact: false, reason } as const) : await countOnNode(node, scope, context)
    counts.get(shard)?.set(node, count)
  })
  return counts
}

/** Returns an inexact result with the reason if the node cannot count. */
async function countOnNode(
  node: number,
  scope: CountScope,
  context: RunContext,
): Promise<PointCount> {
  const { signal } = context.tools
  try {
    return await retryTransient(context, () =>
      countPoints(engineForPod(context, node), scope, signal),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    return { isExact: false, reason: error.message }
  }
}

/**
 * Points of a collection with `prevent_unoptimized` that cannot be scrolled or counted on a node yet: each node indexes
 * its own replicas. Includes those in one replica of each shard that the node does not hold.
 */
async function deferredPoints(name: string, node: number, context: RunContext): Promise<number> {
  const { signal } = context.tools
  const live = await retryTransient(context, () =>
    recoveryForPod(context, node).collection(name, signal),
  )
  return live?.update_queue?.deferred_points ?? 0
}

/** By node: the number of the last write of each of its replicas, by shard; empty if unknown. */
async function readWrites(name: string, context: RunContext): Promise<Map<number, number>[]> {
  const { signal } = context.tools
  const requests = ordinals(context).map((node) =>
    appliedWrites(engineForPod(context, node), name, signal),
  )
  return Promise.all(requests)
}

function shardIds({ source }: Pick<RestoreItem, 'source'>): number[] {
  return source.shards.map(({ shardId }) => shardId)
}
