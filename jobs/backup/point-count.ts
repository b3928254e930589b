/** Point counts of a collection, by shard; a restore compares with them. */
import { EngineError } from '../../crds/contract/errors.ts'
import type { ManifestCollection, ShardSnapshot } from '../../crds/contract/manifest.ts'
import { countPoints, writeMarkers } from '../clients/engine/statistics.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { engineForPod, ordinals, type RunContext } from './context.ts'

type Shards = ManifestCollection['shards']
type CollectionShards = Pick<ManifestCollection, 'shards' | 'shardKeys' | 'pointsCount'>

/** By shard; a shard without information is left out. */
export interface ShardCounts {
  /** Shards whose replicas all have this number. */
  points: Map<number, number>
  /** Shards whose replicas have different numbers. */
  differing?: Map<number, ReplicaCounts>
  /** The last write of each replica; equal before and after only if no replica received a write. */
  writes: Map<number, string>
}

/** Nodes that count at the same time; each node counts one shard at a time. */
const MAX_PARALLEL_NODES = 8

/** Read before the first snapshot. Counts points only if the engine does not number its writes. */
export async function readCountsBefore(
  name: string,
  topology: CollectionShards,
  context: RunContext,
): Promise<ShardCounts> {
  const writes = await writeNumbers(name, topology.shards, context)
  const unnumbered = topology.shards.filter(({ shardId }) => !writes.has(shardId))
  const { points } = await countShardPoints(name, { ...topology, shards: unnumbered }, context)
  return { points, writes }
}

/** Read after the last snapshot. */
export async function readCountsAfter(
  name: string,
  topology: CollectionShards,
  context: RunContext,
): Promise<ShardCounts> {
  const counts = await countShardPoints(name, topology, context)
  return { ...counts, writes: await writeNumbers(name, topology.shards, context) }
}

/**
 * The point counts for the manifest. The count of a shard is included only if none of its replicas
 * received a write in the meantime. With an older engine the counts of the collection and of its
 * shard keys are also included if they are the same before and after, which is likely but not
 * proven. Where replicas differ, the snapshot that a shard was streamed into has the count of its
 * node; `streamed` is empty for the snapshots of nodes.
 */
export function manifestCounts(
  { shards, shardKeys }: Pick<ManifestCollection, 'shards' | 'shardKeys'>,
  before: ShardCounts,
  after: ShardCounts,
  streamed: readonly Pick<ShardSnapshot, 'shardId' | 'nodeIndex'>[] = [],
): Pick<ManifestCollection, 'shards' | 'shardKeys' | 'exactPointsCount'> {
  const proven = new Map<number, number>()
  const likely = new Map<number, number>()
  const differing = new Map<number, ReplicaCounts>()
  const isUnwritten = (id: number) =>
    before.writes.has(id) && before.writes.get(id) === after.writes.get(id)
  for (const [id, count] of after.points) {
    if (isUnwritten(id)) proven.set(id, count)
    if (isUnwritten(id) || before.points.get(id) === count) likely.set(id, count)
  }
  for (const [id, counts] of after.differing ?? []) {
    if (!isUnwritten(id)) continue
    differing.set(id, counts)
    const node = streamed.find(({ shardId }) => shardId === id)?.nodeIndex
    const count = counts.find(({ nodeIndex }) => nodeIndex === node)
    if (count !== undefined) proven.set(id, count.pointsCount)
  }
  const exactCount = (ids: number[], counts: Map<number, number>) => {
    const total = sumIfAllKnown(ids.map((id) => counts.get(id)))
    return total === undefined ? {} : { exactPointsCount: total }
  }
  return {
    shards: shards.map((entry) => {
      const replicaPointsCounts = differing.get(entry.shardId)
      return {
        ...entry,
        ...exactCount([entry.shardId], proven),
        ...(replicaPointsCounts !== undefined && { replicaPointsCounts }),
      }
    }),
    shardKeys: shardKeys.map((entry) => ({ ...entry, ...exactCount(entry.shardIds, likely) })),
    ...exactCount(
      shards.map(({ shardId }) => shardId),
      likely,
    ),
  }
}

/**
 * A reading without these shards: their snapshots are older than the reading, and clients may have
 * written in between, so nothing is known to equal the content of those snapshots.
 */
export function excludeShards(
  { points, writes }: Pick<ShardCounts, 'points' | 'writes'>,
  shardIds: Iterable<number>,
): ShardCounts {
  const remaining = { points: new Map(points), writes: new Map(writes) }
  for (const id of shardIds) {
    remaining.points.delete(id)
    remaining.writes.delete(id)
  }
  return remaining
}

/** Undefined if one of the counts is unknown. */
function sumIfAllKnown(counts: (number | undefined)[]): number | undefined {
  return counts.reduce<number | undefined>(
    (total, count) => (total === undefined || count === undefined ? undefined : total + count),
    0,
  )
}

/** Counts every replica on its own node: one that is missing points can be Active. */
async function countShardPoints(
  name: string,
  { shards, pointsCount }: Pick<CollectionShards, 'shards' | 'pointsCount'>,
  context: RunContext,
): Promise<Required<Omit<ShardCounts, 'writes'>>> {
  const { log, signal } = context.tools
  const counts = new Map<number, ReplicaCounts>(shards.map(({ shardId }) => [shardId, []]))
  const replicas = shards.flatMap(({ shardId, nodes }) => nodes.map((node) => ({ node, shardId })))
  await runGroupsConcurrently(
    [...Map.groupBy(replicas, ({ node }) => node).values()],
    MAX_PARALLEL_NODES,
    async ({ node, shardId }) => {
      const scope = { collection: name, shard: shardId, upperBound: pointsCount }
      try {
        const count = await countPoints(engineForPod(context, node), scope, signal)
        if (count.isExact) counts.get(shardId)?.push({ nodeIndex: node, pointsCount: count.points })
        else log.info({ collection: name, shard: shardId, reason: count.reason }, 'not counted')
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof EngineError)) throw error
        log.warn({ collection: name, shard: shardId, reason: error.message }, 'not counted')
      }
    },
  )
  const points = new Map<number, number>()
  const differing = new Map<number, ReplicaCounts>()
  for (const { shardId, nodes } of shards) {
    const counted = (counts.get(shardId) ?? []).toSorted((a, b) => a.nodeIndex - b.nodeIndex)
    const [first] = counted
    if (first === undefined || counted.length < nodes.length) continue
    const isEqual = counted.every(({ pointsCount: count }) => count === first.pointsCount)
    if (isEqual) points.set(shardId, first.pointsCount)
    else differing.set(shardId, counted)
  }
  return { points, differing }
}

async function writeNumbers(
  name: string,
  shards: Shards,
  context: RunContext,
): Promise<ShardCounts['writes']> {
  const { signal } = context.tools
  const requests = ordinals(context).map((node) =>
    writeMarkers(engineForPod(context, node), name, signal),
  )
  const byNode = await Promise.all(requests)
  return new Map(
    shards.flatMap(({ shardId, nodes }): [number, string][] => {
      const numbers = nodes.map((node) => byNode[node]?.get(shardId))
      return numbers.includes(undefined) ? [] : [[shardId, numbers.join()]]
    }),
  )
}

type ReplicaCounts = NonNullable<ManifestCollection['shards'][number]['replicaPointsCounts']>
