/**
 * What proves that the points are back: every copy of every shard is counted on its own node and compared
 * with the other copies and with the backup. What the backup cannot prove is a note; points that are
 * missing for certain are a failure, which is reported after everything else has been done.
 */
import { EngineError } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { countPoints, type CountScope, type PointCount } from '../clients/engine-counts.ts'
import { writesOn } from '../clients/engine-writes.ts'
import { inLanes } from '../lanes.ts'
import { patiently } from '../patience.ts'
import { engineOn, ordinals, recoveryOn, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

/** A count is of one moment, and may be behind what was settled: a little at first. */
const PAUSES_MS = [100, 400, 1_500, 3_000, 5_000, 5_000, 5_000, 5_000]
/** Nodes that count at the same time; each counts one shard at a time. */
const NODES_AT_ONCE = 8
/** Estimates of equal copies differ by less. */
const ESTIMATE_TOLERANCE = 0.01

/** Counts by shard, and by the ordinal of the node that holds the copy. */
export type Counts = Map<number, Map<number, PointCount>>

export interface Proof {
  /** In all; undefined where a shard could not be counted, not even roughly. */
  points: number | undefined
  /** What is certainly missing. */
  loss?: string
}

/** Throws where a node stays away. */
export async function provePoints(wanted: Wanted, work: Work): Promise<Proof> {
  const { source, name } = wanted
  const { tools, tally } = work
  const deferred = await deferredPoints(name, work)
  const counts = await countShards(wanted, idsOf(wanted), work)
  let loss = lossIn(wanted, counts)
  if (deferred > 0) {
    // They are in the shards, and in no count.
    tally.note(`${deferred} points of ${name} are not counted: they wait for the optimizers`)
    return { points: undefined }
  }
  if (loss !== undefined || weakDifference(wanted, counts) !== undefined) {
    const { isWritten } = await countAgain(wanted, counts, work)
    loss = lossIn(wanted, counts)
    if (loss !== undefined && isWritten) {
      tally.note(`${loss}; points of ${name} are written while they are counted`)
      loss = undefined
    }
  }
  for (const note of notesOn(wanted, counts)) tally.note(note)
  const points = totalOf(idsOf(wanted), counts)
  const fields = {
    collection: name,
    points,
    recorded: source.exactPointsCount ?? source.pointsCount,
  }
  tools.log.info(fields, `${name} has ${points ?? 'an unknown number of'} points`)
  return { points, ...(loss !== undefined && { loss }) }
}

/** Counts again what is not as it should be, until it is; for longer where points would be missing. */
async function countAgain(
  wanted: Wanted,
  counts: Counts,
  work: Work,
): Promise<{ isWritten: boolean }> {
  const { time, signal } = work.tools
  const before = await writesOf(wanted.name, work)
  const first = printOf(counts)
  const pauses = lossIn(wanted, counts) === undefined ? PAUSES_MS.slice(0, 3) : PAUSES_MS
  for (const pause of pauses) {
    await time.sleep(pause, signal)
    await work.tally.told()
    const again = await countShards(wanted, doubtful(wanted, counts), work)
    for (const [shard, copies] of again) counts.set(shard, copies)
    const isExplained =
      lossIn(wanted, counts) === undefined && weakDifference(wanted, counts) === undefined
    if (isExplained) return { isWritten: false }
  }
  const after = await writesOf(wanted.name, work)
  // An engine that numbers no writes shows them only by counts that change.
  return { isWritten: before === undefined ? first !== printOf(counts) : before !== after }
}

/** Points that are missing for certain, in words; undefined where nothing proves that any are. */
export function lossIn({ source, name }: Pick<Wanted, 'source' | 'name'>, counts: Counts) {
  for (const { shardId, exactPointsCount: held } of source.shards) {
    const loss = lossOf(counts.get(shardId), held)
    if (loss !== undefined) return `shard ${shardId} of ${name} ${loss}`
  }
  const total = totalOf([...counts.keys()], counts)
  const recorded = source.exactPointsCount ?? source.pointsCount ?? 0
  if (total === 0 && recorded > 0) {
    return `${name} came back empty, but ${recorded} points were counted when it was backed up`
  }
  return undefined
}

/** `held` is what its snapshot holds, where that is proven. */
function lossOf(copies: Map<number, PointCount> | undefined, held: number | undefined) {
  if (copies === undefined || copies.size === 0) return 'is on no node'
  const exact = [...copies].flatMap(([node, count]) =>
    count.isExact ? [{ node, points: count.points }] : [],
  )
  const [least, ...others] = exact.toSorted((one, other) => one.points - other.points)
  const most = others.at(-1)
  if (least === undefined) return undefined
  if (held !== undefined && least.points < held) {
    return `has ${least.points} points on node ${least.node}, but its snapshot holds ${held}`
  }
  if (most === undefined || most.points === least.points) return undefined
  return `has ${least.points} points on node ${least.node}, but ${most.points} on node ${most.node}`
}

/** Shards whose counts are not as they should be; all of them where only a total differs. */
function doubtful(wanted: Wanted, counts: Counts): number[] {
  const found = wanted.source.shards.flatMap(({ shardId, exactPointsCount: held }) =>
    lossOf(counts.get(shardId), held) === undefined ? [] : [shardId],
  )
  return found.length > 0 ? found : idsOf(wanted)
}

/** Another number than was counted during the backup: that proves nothing. */
export function weakDifference(
  { source, name }: Pick<Wanted, 'source' | 'name'>,
  counts: Counts,
): string | undefined {
  const scopes = [
    { where: name, ids: source.shards.map(({ shardId }) => shardId), source },
    ...source.shardKeys.map((one) => ({
      where: keyOf(one.key, name),
      ids: one.shardIds,
      source: one,
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

function keyOf(key: ShardKey, name: string): string {
  return `shard key ${JSON.stringify(key)} of ${name}`
}

export function notesOn(
  { source, name }: Pick<Wanted, 'source' | 'name'>,
  counts: Counts,
): string[] {
  const all = [...counts.values()].flatMap((copies) => [...copies.values()])
  const inexact = all.find((count) => !count.isExact)
  const points = totalOf([...counts.keys()], counts)
  const { exactPointsCount: recorded, pointsCount: about } = source
  // Without an exact number there is only the engine's estimate: it is shown.
  const isOther = recorded === undefined && inexact === undefined && points !== about
  const notes = [
    weakDifference({ source, name }, counts),
    inexact?.isExact === false
      ? `points of ${name} were not counted: ${inexact.reason}`
      : undefined,
    isOther
      ? `${name} has ${points ?? 'unknown'} points; about ${about ?? 'unknown'} were recorded`
      : undefined,
    ...[...counts].map(([shard, copies]) => unequalEstimates(shard, name, copies)),
    otherSnapshot({ source, name }, counts),
  ]
  return notes.filter((note) => note !== undefined)
}

/** By shard: as the node said before and after the stream, where no better number was recorded. */
function otherSnapshot(
  { source, name }: Pick<Wanted, 'source' | 'name'>,
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

function unequalEstimates(
  shard: number,
  name: string,
  copies: Map<number, PointCount>,
): string | undefined {
  const all = [...copies.values()]
  if (all.every((count) => count.isExact)) return undefined
  const points = all.flatMap((count) => (count.points === undefined ? [] : [count.points]))
  const [least, most] = [Math.min(...points), Math.max(...points)]
  if (points.length < 2 || most - least <= most * ESTIMATE_TOLERANCE) return undefined
  return `shard ${shard} of ${name} has about ${least} points on one node, and ${most} on another`
}

/** Of one copy of each shard, exact or not. */
function totalOf(ids: readonly number[], counts: Counts): number | undefined {
  const points = ids.map((id) => most([...(counts.get(id)?.values() ?? [])]))
  return points.some((one) => one === undefined)
    ? undefined
    : points.reduce<number>((sum, one) => sum + (one ?? 0), 0)
}

function most(copies: PointCount[]): number | undefined {
  const points = copies.flatMap((count) => (count.points === undefined ? [] : [count.points]))
  return points.length === 0 ? undefined : Math.max(...points)
}

function exactTotal(ids: readonly number[], counts: Counts): number | undefined {
  const isExact = ids.every((id) =>
    [...(counts.get(id)?.values() ?? [])].every((count) => count.isExact),
  )
  return isExact ? totalOf(ids, counts) : undefined
}

/** The copies of these shards, each as its own node counts it. */
async function countShards(wanted: Wanted, ids: number[], work: Work): Promise<Counts> {
  const { name } = wanted
  const { signal } = work.tools
  const counts: Counts = new Map(ids.map((id) => [id, new Map<number, PointCount>()]))
  const placements = await Promise.all(
    ordinals(work).map((node) =>
      patiently(work, () => recoveryOn(work, node).placement(name, signal)),
    ),
  )
  const lanes = placements.map(({ local_shards }, node) =>
    local_shards.flatMap(({ shard_id: shard, points_count: atMost }) =>
      counts.has(shard) ? [{ node, shard, atMost }] : [],
    ),
  )
  await inLanes(lanes, NODES_AT_ONCE, async ({ node, shard, atMost }) => {
    const scope = { collection: name, shard, atMost }
    counts.get(shard)?.set(node, await countOn(node, scope, work))
  })
  return counts
}

/** What cannot be counted is not known. */
async function countOn(node: number, scope: CountScope, work: Work): Promise<PointCount> {
  const { signal } = work.tools
  try {
    return await patiently(work, () => countPoints(engineOn(work, node), scope, signal))
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    return { isExact: false, reason: error.message }
  }
}

/** Of a collection with `prevent_unoptimized`: neither scrolled nor counted yet. */
async function deferredPoints(name: string, work: Work): Promise<number> {
  const { signal } = work.tools
  const live = await patiently(work, () => recoveryOn(work, 0).collection(name, signal))
  return live?.update_queue?.deferred_points ?? 0
}

/** The last write of every copy, in one text; undefined where an engine does not number them. */
async function writesOf(name: string, work: Work): Promise<string | undefined> {
  const { signal } = work.tools
  const asked = ordinals(work).map((node) => writesOn(engineOn(work, node), name, signal))
  const byNode = (await Promise.all(asked)).map((writes) => [...writes].sort(([a], [b]) => a - b))
  return byNode.every((writes) => writes.length === 0) ? undefined : JSON.stringify(byNode)
}

function printOf(counts: Counts): string {
  return JSON.stringify([...counts].map(([shard, copies]) => [shard, [...copies]]))
}

function idsOf({ source }: Pick<Wanted, 'source'>): number[] {
  return source.shards.map(({ shardId }) => shardId)
}
