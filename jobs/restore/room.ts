/** What each node of the target is to take, and whether its disks are large enough for that. */
import { Rejected } from '../../crds/errors.ts'
import { humanSize } from '../../crds/size.ts'
import { patiently } from '../patience.ts'
import type { Places } from './places.ts'
import { ordinals, recoveryOn, type Inspection } from './work.ts'
import type { NodeWanted, ShardWanted, Wanted } from './wanted.ts'

/** Of one node. */
export interface Share {
  node: number
  /** What comes to it, by the backup's own sizes: copies are as large as their snapshots. */
  bytes: number
  /** All its disks together, in bytes; absent where the engine does not tell. */
  disk?: number
}

/** Throws where a snapshot of a node is larger than all its disks. */
export async function checkRoom(wanted: Wanted[], work: Inspection): Promise<void> {
  const byNode = wanted.filter((one): one is NodeWanted => one.method === 'Node')
  if (byNode.length === 0) return
  for (const [node, disk] of (await disksOf(work)).entries()) {
    const sizes = byNode.flatMap(({ source }) =>
      source.snapshots
        .filter(({ nodeIndex }) => nodeIndex === node)
        .map(({ sizeBytes }) => sizeBytes),
    )
    const largest = Math.max(0, ...sizes)
    if (disk === undefined || largest <= disk) continue
    throw new Rejected(
      `node ${node} has disks of ${humanSize(disk)}, but a snapshot of ${humanSize(largest)} is to go there`,
    )
  }
}

/** Throws where all that is to go to a node by shard is larger than all its disks. */
export function refuseShares(shares: Share[]): void {
  for (const { node, bytes, disk } of shares) {
    if (disk === undefined || bytes <= disk) continue
    throw new Rejected(
      `node ${node} has disks of ${humanSize(disk)}, but shards of ${humanSize(bytes)} are to go there`,
    )
  }
}

/** What each node gets of all collections that are backed up by shard. */
export async function sharesOf(
  wanted: Wanted[],
  places: Map<string, Places>,
  work: Inspection,
): Promise<Share[]> {
  const byShard = wanted.filter((one): one is ShardWanted => one.method === 'Shard')
  if (byShard.length === 0) return []
  return (await disksOf(work)).map((disk, node) => {
    const bytes = byShard.reduce(
      (sum, { source, name }) =>
        sum +
        source.snapshots
          .filter(({ shardId }) => places.get(name)?.get(shardId)?.includes(node) ?? false)
          .reduce((all, { sizeBytes }) => all + sizeBytes, 0),
      0,
    )
    return { node, bytes, ...(disk !== undefined && { disk }) }
  })
}

/** Of each node; undefined where the engine does not tell. */
function disksOf(work: Inspection): Promise<(number | undefined)[]> {
  const { signal } = work.tools
  const ask = (node: number) => patiently(work, () => recoveryOn(work, node).diskBytes(signal))
  return Promise.all(ordinals(work).map(ask))
}
