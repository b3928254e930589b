/** What is to be restored of a backup. */
import type { ManifestCollection, NodeCollection, ShardCollection } from '../../crds/manifest.ts'

/** One collection that is to be restored. */
export type Wanted = NodeWanted | ShardWanted

/** From one snapshot of each node. */
export interface NodeWanted {
  method: 'Node'
  /** In the backup. */
  source: NodeCollection
  /** Name at the target. */
  name: string
}

/** From one snapshot of each shard. */
export interface ShardWanted {
  method: 'Shard'
  source: ShardCollection
  name: string
  /** Of the source. */
  nodeCount: number
}

/** Bytes of all its snapshots. */
export function bytesOf({ snapshots }: Pick<ManifestCollection, 'snapshots'>): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
