/**
 * One node after the other gets its snapshot, by ordinal, and each is settled before the next: the shards
 * of a node move to it with its snapshot (facts 6.4, step 5).
 */
import { EngineError } from '../../crds/errors.ts'
import { humanSize } from '../../crds/size.ts'
import { patiently } from '../patience.ts'
import { attempted, untilIdle } from './attempts.ts'
import { bring } from './bring.ts'
import { strayed } from './placing.ts'
import { LastingDisagreement, settled } from './settled.ts'
import type { Copies } from './sight.ts'
import { recoveryOn, type Work } from './work.ts'
import type { NodeWanted, RestoredNode } from './wanted.ts'

/** Shards are not equally large; half of the expected points are more than a stray write brings. */
const LEAST_SHARE = 0.5

/** From the given node on: those before it have their snapshot. */
export async function recoverNodes(wanted: NodeWanted, work: Work, from: number): Promise<void> {
  const { source, name } = wanted
  const snapshots = source.snapshots.toSorted((one, other) => one.nodeIndex - other.nodeIndex)
  for (const snapshot of snapshots.slice(from)) {
    const { nodeIndex: node, sizeBytes: bytes } = snapshot
    const before = {}
    await attempted(
      {
        ...{ collection: name, node, bytes },
        act: () => recoverNode(wanted, { snapshot, before }, work),
        isDone: () => isRecovered(wanted, { snapshot, before }, work),
      },
      work,
    )
    await work.tally.nodeDone(snapshot)
  }
  await untilIdle(wanted, work)
}

interface Taking {
  snapshot: RestoredNode
  /** Points of the shards that the node held before its first recovery, by id. */
  before: { points?: Map<number, number> }
}

async function recoverNode(
  wanted: NodeWanted,
  { snapshot, before }: Taking,
  work: Work,
): Promise<void> {
  const { name } = wanted
  const { log, time } = work.tools
  const { nodeIndex: node, sizeBytes } = snapshot
  await untilIdle(wanted, work)
  before.points ??= await patiently(work, () => pointsOn(name, node, work))
  work.tally.step(`node ${node + 1}: takes ${humanSize(sizeBytes)}`)
  const begun = time.now().getTime()
  const way = await bring(
    { node, taker: { collection: name }, snapshot, checksum: checksumOf(snapshot) },
    work,
  )
  const seconds = (time.now().getTime() - begun) / 1000
  log.info({ collection: name, node, bytes: sizeBytes, seconds, way }, work.tally.line())
  await settled(name, work, (copies) => misplaced(snapshot, copies))
}

/**
 * Whether a recovery whose answer was lost has succeeded. A backup by node has no counts of its shards. So
 * all must be Active on this node alone now, and those that it held before have been empty. A recovery
 * that fails half-way leaves the shards that it found there inactive: where one has come to the node,
 * the others are back too. Where none has, they must have about as many points as such a part of the
 * collection has. What cannot be proved is recovered again.
 */
async function isRecovered(
  { source, name }: NodeWanted,
  { snapshot, before: { points: before } }: Taking,
  work: Work,
): Promise<boolean> {
  const held = snapshot.localShards.filter(({ shardId }) => before?.has(shardId) ?? true)
  if (held.some(({ shardId }) => before?.get(shardId) !== 0)) return false
  try {
    await settled(name, work, (copies) => misplaced(snapshot, copies))
  } catch (error) {
    if (!(error instanceof EngineError) || error instanceof LastingDisagreement) throw error
    return false
  }
  if (held.length < snapshot.localShards.length) return true
  const recorded = source.exactPointsCount ?? source.pointsCount ?? Infinity
  const now = await patiently(work, () => pointsOn(name, snapshot.nodeIndex, work))
  const found = held.reduce((sum, { shardId }) => sum + (now.get(shardId) ?? 0), 0)
  const share = (recorded * held.length) / source.shards.length
  return found > 0 && found >= share * LEAST_SHARE
}

/** Of the shards that a node holds, by id. */
async function pointsOn(name: string, node: number, work: Work): Promise<Map<number, number>> {
  const { local_shards } = await recoveryOn(work, node).placement(name, work.tools.signal)
  return new Map(local_shards.map(({ shard_id, points_count }) => [shard_id, points_count]))
}

/** Each shard of the snapshot is on its node, and there alone. */
export function misplaced(
  { nodeIndex, localShards }: Pick<RestoredNode, 'nodeIndex' | 'localShards'>,
  copies: Copies,
): string | undefined {
  return strayed(new Map(localShards.map(({ shardId }) => [shardId, [nodeIndex]])), copies)
}

/** What the engine said of it, or what was uploaded where it said nothing; another program may have recorded neither. */
function checksumOf({ checksum, sha256 }: RestoredNode): string | undefined {
  return (checksum ?? sha256)?.toLowerCase()
}
