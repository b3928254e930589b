/**
 * One node after the other gets its snapshot, by ordinal, and each is settled before the next: the shards
 * of a node move to it with its snapshot (facts 6.4, step 5).
 */
import type { NodeSnapshot } from '../../crds/manifest.ts'
import { humanSize } from '../../crds/size.ts'
import { attempted, untilIdle } from './attempts.ts'
import { bring } from './bring.ts'
import { strayed } from './placing.ts'
import { settled } from './settled.ts'
import type { Copies } from './sight.ts'
import { ordinals, type Work } from './work.ts'
import type { NodeWanted } from './wanted.ts'

/** From the given node on: those before it have their snapshot. */
export async function recoverNodes(
  { source, name }: NodeWanted,
  work: Work,
  from: number,
): Promise<void> {
  const snapshots = source.snapshots.toSorted((one, other) => one.nodeIndex - other.nodeIndex)
  for (const snapshot of snapshots.slice(from)) {
    const of = { collection: name, node: snapshot.nodeIndex }
    await attempted(of, () => recoverNode(name, snapshot, work), work)
    await work.tally.nodeDone(snapshot)
  }
}

async function recoverNode(name: string, snapshot: NodeSnapshot, work: Work): Promise<void> {
  const { log, time } = work.tools
  const { nodeIndex: node, sizeBytes } = snapshot
  await Promise.all(ordinals(work).map((other) => untilIdle(name, other, work)))
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

/** Each shard of the snapshot is on its node, and there alone. */
export function misplaced(
  { nodeIndex, localShards }: Pick<NodeSnapshot, 'nodeIndex' | 'localShards'>,
  copies: Copies,
): string | undefined {
  return strayed(new Map(localShards.map(({ shardId }) => [shardId, [nodeIndex]])), copies)
}

/** What the engine said of it, or what was uploaded where it said nothing. */
function checksumOf({ checksum, sha256 }: NodeSnapshot): string {
  return (checksum ?? sha256).toLowerCase()
}
