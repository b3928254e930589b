/** The points of a collection, shard by shard: what a restore compares with. */
import { EngineError } from '../../crds/errors.ts'
import type { ManifestCollection } from '../../crds/manifest.ts'
import { countPoints } from '../clients/engine-counts.ts'
import { writesOn } from '../clients/engine-writes.ts'
import { inLanes } from '../lanes.ts'
import { engineOn, ordinals, type Work } from './work.ts'

type Shards = ManifestCollection['shards']
type Described = Pick<ManifestCollection, 'shards' | 'shardKeys' | 'pointsCount'>

/** By shard; a shard of which nothing is known is left out. */
export interface Reading {
  points: Map<number, number>
  /** The last write of every copy; equal only where no copy took a write. */
  writes: Map<number, string>
}

/** Nodes that count at the same time; each counts one shard at a time. */
const NODES_AT_ONCE = 8

/** Before the first snapshot. Points are counted only where the engine does not number its writes. */
export async function readBefore(name: string, shape: Described, work: Work): Promise<Reading> {
  const writes = await writesOf(name, shape.shards, work)
  const unnumbered = shape.shards.filter(({ shardId }) => !writes.has(shardId))
  return { points: await pointsOf(name, { ...shape, shards: unnumbered }, work), writes }
}

/** After the last snapshot. */
export async function readAfter(name: string, shape: Described, work: Work): Promise<Reading> {
  const points = await pointsOf(name, shape, work)
  return { points, writes: await writesOf(name, shape.shards, work) }
}

/**
 * What the manifest says of the points. The count of a shard stands there only if no copy of it took a
 * write meanwhile. The counts of the collection and of its keys stand there too where an older engine
 * counted the same before and after: that is likely, and proves nothing.
 */
export function countsBetween(
  { shards, shardKeys }: Pick<ManifestCollection, 'shards' | 'shardKeys'>,
  before: Reading,
  after: Reading,
): Pick<ManifestCollection, 'shards' | 'shardKeys' | 'exactPointsCount'> {
  const proven = new Map<number, number>()
  const likely = new Map<number, number>()
  for (const [id, count] of after.points) {
    const isUnwritten = before.writes.has(id) && before.writes.get(id) === after.writes.get(id)
    if (isUnwritten) proven.set(id, count)
    if (isUnwritten || before.points.get(id) === count) likely.set(id, count)
  }
  const exact = (ids: number[], counts: Map<number, number>) => {
    const total = sum(ids.map((id) => counts.get(id)))
    return total === undefined ? {} : { exactPointsCount: total }
  }
  return {
    shards: shards.map((one) => ({ ...one, ...exact([one.shardId], proven) })),
    shardKeys: shardKeys.map((one) => ({ ...one, ...exact(one.shardIds, likely) })),
    ...exact(
      shards.map(({ shardId }) => shardId),
      likely,
    ),
  }
}

/**
 * A reading without these shards: their snapshots are older than it, and clients may have written in
 * between. Nothing is then known to be equal to what those snapshots hold.
 */
export function without({ points, writes }: Reading, shardIds: Iterable<number>): Reading {
  const rest = { points: new Map(points), writes: new Map(writes) }
  for (const id of shardIds) {
    rest.points.delete(id)
    rest.writes.delete(id)
  }
  return rest
}

/** Undefined where one of them is not known. */
function sum(counts: (number | undefined)[]): number | undefined {
  return counts.reduce<number | undefined>(
    (total, count) => (total === undefined || count === undefined ? undefined : total + count),
    0,
  )
}

/** Of every shard on the first node that holds it. */
async function pointsOf(
  name: string,
  { shards, pointsCount }: Pick<Described, 'shards' | 'pointsCount'>,
  work: Work,
): Promise<Map<number, number>> {
  const { log, signal } = work.tools
  const points = new Map<number, number>()
  const lanes = [...Map.groupBy(shards, ({ nodes: [node = 0] }) => node)]
  await inLanes(
    lanes.map(([node, ofNode]) => ofNode.map(({ shardId }) => ({ node, shardId }))),
    NODES_AT_ONCE,
    async ({ node, shardId }) => {
      const scope = { collection: name, shard: shardId, atMost: pointsCount }
      try {
        const count = await countPoints(engineOn(work, node), scope, signal)
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

async function writesOf(name: string, shards: Shards, work: Work): Promise<Reading['writes']> {
  const { signal } = work.tools
  const asked = ordinals(work).map((node) => writesOn(engineOn(work, node), name, signal))
  const byNode = await Promise.all(asked)
  return new Map(
    shards.flatMap(({ shardId, nodes }): [number, string][] => {
      const numbers = nodes.map((node) => byNode[node]?.get(shardId))
      return numbers.includes(undefined) ? [] : [[shardId, numbers.join()]]
    }),
  )
}
