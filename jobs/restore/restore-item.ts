/** Types of a backup as a restore reads it, and of the collections to restore. */
import type {
  NodeCollection,
  NodeManifest,
  NodeSnapshot,
  ShardCollection,
  ShardManifest,
} from '../../crds/contract/manifest.ts'

/** The manifest of another program may omit the checksum. */
export type SourceNodeSnapshot = Omit<NodeSnapshot, 'sha256'> &
  Partial<Pick<NodeSnapshot, 'sha256'>>

/** A collection of a backup by node, written by this operator or by another program. */
export interface SourceNodeCollection extends Omit<NodeCollection, 'snapshots'> {
  snapshots: SourceNodeSnapshot[]
}

/** Manifest of the source, with everything that a restore needs. */
export type SourceManifest =
  | ShardManifest
  | (Omit<NodeManifest, 'collections' | 'engineVersion' | 'uid'> &
      Partial<Pick<NodeManifest, 'engineVersion' | 'uid'>> & {
        collections: SourceNodeCollection[]
      })

export type SourceSnapshot = SourceManifest['collections'][number]['snapshots'][number]

/** One collection to restore. */
export type RestoreItem = NodeItem | ShardItem

/** A collection with one snapshot per node. */
export interface NodeItem {
  method: 'Node'
  /** The collection in the backup. */
  source: SourceNodeCollection
  /** Name at the target. */
  name: string
}

/** A collection with one snapshot per shard. */
export interface ShardItem {
  method: 'Shard'
  source: ShardCollection
  name: string
  /** Number of nodes of the source. */
  nodeCount: number
}

/** Total size of the snapshots in bytes. */
export function snapshotBytes({
  snapshots,
}: {
  snapshots: readonly { sizeBytes: number }[]
}): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
