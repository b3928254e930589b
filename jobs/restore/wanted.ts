/** What is to be restored of a backup. */
import type {
  NodeCollection,
  NodeManifest,
  NodeSnapshot,
  ShardCollection,
  ShardManifest,
} from '../../crds/manifest.ts'

/** The manifest of another program may lack these. */
export type RestoredNode = Omit<NodeSnapshot, 'sha256'> & Partial<Pick<NodeSnapshot, 'sha256'>>

/** A collection by node, whoever backed it up. */
export interface NodeSource extends Omit<NodeCollection, 'snapshots'> {
  snapshots: RestoredNode[]
}

/** What is restored from: a manifest, with all that a restore must know. */
export type Source =
  | ShardManifest
  | (Omit<NodeManifest, 'collections' | 'engineVersion' | 'uid'> &
      Partial<Pick<NodeManifest, 'engineVersion' | 'uid'>> & { collections: NodeSource[] })

export type SourceSnapshot = Source['collections'][number]['snapshots'][number]

/** One collection that is to be restored. */
export type Wanted = NodeWanted | ShardWanted

/** From one snapshot of each node. */
export interface NodeWanted {
  method: 'Node'
  /** In the backup. */
  source: NodeSource
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
export function bytesOf({ snapshots }: { snapshots: readonly { sizeBytes: number }[] }): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
