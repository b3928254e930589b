/** What is to be restored of a backup. */
import type {
  NodeCollection,
  NodeManifest,
  NodeSnapshot,
  ShardCollection,
  ShardManifest,
} from '../../crds/contract/manifest.ts'

/** The manifest of another program may lack these. */
export type SourceNodeSnapshot = Omit<NodeSnapshot, 'sha256'> &
  Partial<Pick<NodeSnapshot, 'sha256'>>

/** A collection by node, whoever backed it up. */
export interface SourceNodeCollection extends Omit<NodeCollection, 'snapshots'> {
  snapshots: SourceNodeSnapshot[]
}

/** What is restored from: a manifest, with all that a restore must know. */
export type SourceManifest =
  | ShardManifest
  | (Omit<NodeManifest, 'collections' | 'engineVersion' | 'uid'> &
      Partial<Pick<NodeManifest, 'engineVersion' | 'uid'>> & {
        collections: SourceNodeCollection[]
      })

export type SourceSnapshot = SourceManifest['collections'][number]['snapshots'][number]

/** One collection that is to be restored. */
export type RestoreItem = NodeItem | ShardItem

/** From one snapshot of each node. */
export interface NodeItem {
  method: 'Node'
  /** In the backup. */
  source: SourceNodeCollection
  /** Name at the target. */
  name: string
}

/** From one snapshot of each shard. */
export interface ShardItem {
  method: 'Shard'
  source: ShardCollection
  name: string
  /** Of the source. */
  nodeCount: number
}

/** Bytes of all its snapshots. */
export function snapshotBytes({
  snapshots,
}: {
  snapshots: readonly { sizeBytes: number }[]
}): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
