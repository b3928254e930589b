/** Point counts of a collection, by shard; a restore compares with them. */
import { EngineError } from '../../crds/contract/errors.ts'
import type { ManifestCollection } from '../../crds/contract/manifest.ts'
import { appliedWrites, countPoints } from '../clients/engine/statistics.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { engineForPod, ordinals, type RunContext } from './context.ts'

type Shards = ManifestCollection['shards']
type CollectionShards = Pick<ManifestCollection, 'shards' | 'shardKeys' | 'pointsCount'>

/** By shard; a shard without information is left out. */
export interface ShardCounts {
  points: Map<number, number>
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
  return {
    points: await countShardPoints(name, { ...topology, shards: unnumbered }, context),
    writes,
  }
}

/** Read after the last snapshot. */
export async function readCountsAfter(
  name: string,
  topology: CollectionShards,
  context: RunContext,
): Promise<ShardCounts> {
  const points = await countShardPoints(name, topology, context)
  return { points, writes: await writeNumbers(name, topology.shards, context) }
}

/**
 * The point counts for the manifest. The count of a shard is included only if none of its replicas
 * received a write in the meantime. With an older engine the counts of the collection and of its
 * shard keys are also included if they are the same before and after, which is likely but not
 * proven.
 */
export function manifestCounts(
  { shards, shardKeys }: Pick<ManifestCollection, 'shards' | 'shardKeys'>,
  before: ShardCounts,
  after: ShardCounts,
): Pick<ManifestCollection, 'shards' | 'shardKeys' | 'exactPointsCount'> {
  const proven = new Map<number, number>()
  const likely = new Map<number, number>()
  for (const [id, count] of after.points) {
    const isUnwritten = before.writes.has(id) && before.writes.get(id) === after.writes.get(id)
    if (isUnwritten) proven.set(id, count)
    if (isUnwritten || before.points.get(id) === count) likely.set(id, count)
  }
  const exactCount = (ids: number[], counts: Map<number, number>) => {
    const total = sumIfAllKnown(ids.map((id) => counts.get(id)))
    return total === undefined ? {} : { exactPointsCount: total }
  }
  return {
    shards: shards.map((entry) => ({ ...entry, ...exactCount([entry.shardId], proven) })),
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
  { points, writes }: ShardCounts,
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

/** Counts each shard on the first node that holds it. */
async function countShardPoints(
  name: string,
  { shards, pointsCount }: Pick<CollectionShards, 'shards' | 'pointsCount'>,
  context: RunContext,
): Promise<Map<number, number>> {
  const { log, signal } = context.tools
  const points = new Map<number, number>()
  const shardsByNode = [...Map.groupBy(shards, ({ nodes: [node = 0] }) => node)]
  await runGroupsConcurrently(
    shardsByNode.map(([node, ofNode]) => ofNode.map(({ shardId }) => ({ node, shardId }))),
    MAX_PARALLEL_NODES,
    async ({ node, shardId }) => {
      const scope = { collection: name, shard: shardId, upperBound: pointsCount }
      try {
        const count = await countPoints(engineForPod(context, node), scope, signal)
        if (count.isExact) points.set(shardId, count.points)
        else log.info({ collection: name, shard: shardId, reason: count.reason }, 'not counted')
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof EngineError)) throw error
        log.warn({ collection: name, shard: shardId, reason: error.message }, 'not counted')
      }
    },
  )
  return points
}

async function writeNumbers(
  name: string,
  shards: Shards,
  context: RunContext,
): Promise<ShardCounts['writes']> {
  const { signal } = context.tools
  const requests = ordinals(context).map((node) =>
    appliedWrites(engineForPod(context, node), name, signal),
  )
  const byNode = await Promise.all(requests)
  return new Map(
    shards.flatMap(({ shardId, nodes }): [number, string][] => {
      const numbers = nodes.map((node) => byNode[node]?.get(shardId))
      return numbers.includes(undefined) ? [] : [[shardId, numbers.join()]]
    }),
  )
}
