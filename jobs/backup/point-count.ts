/** The points of a collection, shard by shard: what a restore compares with. */
import { EngineError } from '../../crds/contract/errors.ts'
import type { ManifestCollection } from '../../crds/contract/manifest.ts'
import { appliedWrites, countPoints } from '../clients/engine/statistics.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { engineForPod, ordinals, type RunContext } from './context.ts'

type Shards = ManifestCollection['shards']
type CollectionShards = Pick<ManifestCollection, 'shards' | 'shardKeys' | 'pointsCount'>

/** By shard; a shard of which nothing is known is left out. */
export interface ShardCounts {
  points: Map<number, number>
  /** The last write of every copy; equal only where no copy took a write. */
  writes: Map<number, string>
}

/** Nodes that count at the same time; each counts one shard at a time. */
const MAX_PARALLEL_NODES = 8

/** Before the first snapshot. Points are counted only where the engine does not number its writes. */
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

/** After the last snapshot. */
export async function readCountsAfter(
  name: string,
  topology: CollectionShards,
  context: RunContext,
): Promise<ShardCounts> {
  const points = await countShardPoints(name, topology, context)
  return { points, writes: await writeNumbers(name, topology.shards, context) }
}

/**
 * What the manifest says of the points. The count of a shard stands there only if no copy of it took a
 * write meanwhile. The counts of the collection and of its keys stand there too where an older engine
 * counted the same before and after: that is likely, and proves nothing.
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
 * A reading without these shards: their snapshots are older than it, and clients may have written in
 * between. Nothing is then known to be equal to what those snapshots hold.
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

/** Undefined where one of them is not known. */
function sumIfAllKnown(counts: (number | undefined)[]): number | undefined {
  return counts.reduce<number | undefined>(
    (total, count) => (total === undefined || count === undefined ? undefined : total + count),
    0,
  )
}

/** Of every shard on the first node that holds it. */
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
