/**
 * Every node takes the snapshots of its shards, one after the other, several nodes at once. The engine
 * takes the snapshot of any shard for any other (facts 6.6): that each comes to its own is seen to here.
 */
import { EngineError } from '../../crds/errors.ts'
import type { ShardSnapshot } from '../../crds/manifest.ts'
import { inLanes } from '../lanes.ts'
import { patiently } from '../patience.ts'
import { attempted, untilIdle } from './attempts.ts'
import { bring } from './bring.ts'
import { refuseOtherShards } from './making.ts'
import { strayed } from './placing.ts'
import { settled } from './settled.ts'
import { firstCopies, type Copies } from './sight.ts'
import { recoveryOn, type Work } from './work.ts'
import type { ShardWanted } from './wanted.ts'

/** Nodes at once: as many streams pass through the memory of the Job. */
const AT_ONCE = 8

/** But for those that are back already. */
export async function recoverShards(
  wanted: ShardWanted,
  work: Work,
  back: readonly number[],
): Promise<void> {
  const { source, name } = wanted
  const left = source.snapshots.filter(({ shardId }) => !back.includes(shardId))
  if (left.length === 0) return
  const sight = await settled(name, work)
  refuseOtherShards(wanted, sight)
  const homes = homesOf(name, left, firstCopies(sight))
  const deliveries = left.map((snapshot) => ({ snapshot, node: homes.get(snapshot.shardId) ?? 0 }))
  const lanes = [...Map.groupBy(deliveries, ({ node }) => node).values()]
  const underWay = new Set<string>()
  await inLanes(lanes, AT_ONCE, async ({ snapshot, node }) => {
    const called = `${snapshot.shardId} on node ${node}`
    const begins = () => work.tally.step(`takes shards ${[...underWay.add(called)].join(', ')}`)
    const before = { points: undefined as number | undefined }
    const taking = { snapshot, node, begins, before }
    await attempted(
      {
        ...{ collection: name, node, shard: snapshot.shardId, bytes: snapshot.sizeBytes },
        act: () => recoverShard(wanted, taking, work),
        isDone: () => isRecovered(name, taking, work),
      },
      work,
    )
    underWay.delete(called)
    await work.tally.shardDone(snapshot)
  })
  await untilIdle(wanted, work)
  const places = new Map([...homes].map(([shard, node]) => [shard, [node]]))
  await settled(name, work, (copies) => strayed(places, copies))
}

/** The one node that holds each shard. */
function homesOf(name: string, snapshots: ShardSnapshot[], copies: Copies): Map<number, number> {
  return new Map(
    snapshots.map(({ shardId }) => {
      const [home, ...others] = copies.get(shardId)?.keys() ?? []
      if (home !== undefined && others.length === 0) return [shardId, home]
      throw new EngineError(`shard ${shardId} of ${name} has ${others.length + 1} copies, not one`)
    }),
  )
}

interface Taking {
  snapshot: ShardSnapshot
  node: number
  begins: () => void
  /** Points of the shard at the target before its first recovery. */
  before: { points: number | undefined }
}

async function recoverShard(
  wanted: ShardWanted,
  { snapshot, node, begins, before }: Taking,
  work: Work,
): Promise<void> {
  const { log, time } = work.tools
  const { name } = wanted
  const { shardId: shard, sizeBytes, sha256 } = snapshot
  await untilIdle(wanted, work, [node])
  const points = await refuseElsewhere(name, snapshot, node, work)
  before.points ??= points
  begins()
  const begun = time.now().getTime()
  const taker = { collection: name, shard }
  const way = await bring({ node, taker, snapshot, checksum: sha256 }, work)
  const seconds = (time.now().getTime() - begun) / 1000
  log.info({ collection: name, shard, node, bytes: sizeBytes, seconds, way }, work.tally.line())
}

/**
 * Whether a recovery whose answer was lost has succeeded: the shard had another number of points before,
 * and has that of its snapshot now. What cannot be proved is recovered again.
 */
async function isRecovered(
  name: string,
  { snapshot, node, before }: Taking,
  work: Work,
): Promise<boolean> {
  const { shardId, pointsCount } = snapshot
  if (pointsCount === undefined || before.points === undefined) return false
  if (before.points === pointsCount) return false
  const { signal } = work.tools
  const { local_shards } = await patiently(work, () =>
    recoveryOn(work, node).placement(name, signal),
  )
  const shard = local_shards.find(({ shard_id }) => shard_id === shardId)
  return shard?.state === 'Active' && shard.points_count === pointsCount
}

/**
 * Looked at just before: a node that does not hold the shard would become a second holder of it. Answers
 * how many points the shard has.
 */
async function refuseElsewhere(
  name: string,
  { shardId, shardKey }: ShardSnapshot,
  node: number,
  work: Work,
): Promise<number> {
  const { local_shards } = await recoveryOn(work, node).placement(name, work.tools.signal)
  const shard = local_shards.find(({ shard_id }) => shard_id === shardId)
  if (shard === undefined) {
    throw new EngineError(`shard ${shardId} of ${name} is no longer on node ${node}`, {
      status: 409,
    })
  }
  if ((shard.shard_key ?? undefined) === shardKey) return shard.points_count
  throw new EngineError(`shard ${shardId} of ${name} is there under another shard key`, {
    status: 409,
  })
}
