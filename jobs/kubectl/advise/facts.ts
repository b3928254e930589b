/** What the rules of `advise` judge, and the form of their results. */
import type { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { UnindexedField } from '../../clients/engine/usage.ts'

/** A `warning` can cost data or availability; a `note` costs speed, memory or effort. */
export type AdviceLevel = 'warning' | 'note'

export interface Advice {
  rule: string
  level: AdviceLevel
  /** The engine's name of the collection, if it is about one. */
  collection?: string
  /** What was seen, with numbers. */
  seen: string
  /** Why it matters. */
  why: string
  /** What to set. */
  set: string
}

export interface NodeFacts {
  ordinal: number
  /** Topology zone and name of its Kubernetes node, as last recorded. */
  zone?: string
  kubernetesNode?: string
  /** Estimated size of its data. */
  dataBytes: number
  /** Size of the vectors that are not on disk. */
  vectorBytes: number
  /** Memory that the engine uses. */
  residentBytes?: number
  /** Cores that the engine sees. */
  cores?: number
}

export interface ShardFacts {
  id: number
  bytes: number
  /** Ordinals of the nodes with a replica. */
  nodes: number[]
}

export interface CollectionFacts {
  name: string
  factor: number
  /** Replicas that must confirm a write. */
  writeFactor: number
  shards: ShardFacts[]
}

export interface Facts {
  cluster: VecCluster
  now: Date
  /** Empty if the engine could not be asked. */
  nodes: NodeFacts[]
  collections: CollectionFacts[]
  unindexed: UnindexedField[]
  /** Of this cluster; undefined if they could not be read. */
  schedules: VecBackupSchedule[] | undefined
  /** Capacity of each data volume. */
  volumeBytes: number
  /** The latest patch of each minor version that this release knows. */
  knownVersions: readonly string[]
}
