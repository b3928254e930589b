/**
 * One view of a cluster's nodes and shards, combined from what every node reports (observe.ts), and
 * the desired state that it is compared with (plan.ts).
 */

import type { ReshardingRecord } from '../../../crds/contract/shards-job.ts'

/** Where a replica can be repaired from, and what is known about it. */
export type ReplicaState =
  | 'Active'
  /** The target of a transfer that is listed, or recovered from a snapshot: the engine is working on it. */
  | 'InTransfer'
  /** Repaired by the engine from an Active replica, usually. */
  | 'Dead'
  /** Any other state without a transfer, which the engine does not repair: Partial, Initializing, ManualRecovery. */
  | 'Incomplete'
  /** Reported as Active, but its node cannot read it. */
  | 'Unreadable'
  /**
   * In observations at least half a minute apart, nodes that had applied the same changes reported different states of it:
   * those that call it Dead do not write to it. Another replica of the shard is Active for all nodes that answer.
   */
  | 'Disputed'
  /** Gets points of other shards; of a shard that existed before, it is complete without them. */
  | 'Resharding'

export interface ReplicaView {
  /** Peer id of the node that holds it. */
  peer: number
  /** `Active` only if every node that answered reports it as Active. */
  state: ReplicaState
}

/** A replica on the node of this ordinal; without a number, the node has not counted its points. */
export interface CountedReplica {
  ordinal: number
  points?: number
}

export interface ShardView {
  id: number
  key?: string | number
  /** Estimated size of one replica in bytes; at least 1. */
  bytes: number
  replicas: ReplicaView[]
  /** The numbers of points of its Active replicas, if they were compared and are not known to be equal. */
  difference?: readonly CountedReplica[]
  /** Number of points, as the node with the most of them reports it. */
  points?: number
}

/** A resharding in progress: the engine adds one shard, or removes the one with the highest id. */
export interface ReshardingView {
  /** Absent if the engine does not report it. */
  uuid?: string
  direction: 'up' | 'down'
  shard: number
  peer: number
}

export interface CollectionView {
  name: string
  /** Number of replicas that each shard should have. */
  factor: number
  shards: ShardView[]
  resharding?: ReshardingView
}

export interface PeerView {
  id: number
  /** Ordinal of the pod at the peer's address; absent if its address is not that of a pod. */
  ordinal?: number
  /** The pod at this ordinal answered, with this peer id. */
  isMember: boolean
  /** Topology zone of its pod, if known. */
  zone?: string
  /** Free bytes on its data volume, if known. */
  freeBytes?: number
}

export interface TransferView {
  collection: string
  shard: number
  from: number
  to: number
  /** Only in resharding: the shard that gets the points. */
  toShard?: number
  /** The engine's own description of its progress. */
  comment?: string
  /** No Job has started it, and it has made no progress since then: a user has to end it. */
  stalledSince?: string
}

/** A reason and a message for the status: why nothing can be done now. */
export interface Obstruction {
  reason: string
  message: string
  /** The shard whose replicas are not known to be equal, if that is why. */
  differs?: string
}

/** An update of pods to the template of their StatefulSet that is not complete. */
export interface UpdateView {
  /** metadata.generation of the StatefulSet. */
  generation: number
  /** Kubernetes replaces outdated pods with this ordinal or a higher one. */
  partition: number
  /** Ordinals of the pods with another template. */
  outdated: number[]
  /** Ordinals of the pods that are not ready, do not exist or are about to stop. */
  unready: number[]
  /** By ordinal: what changes when the pod is another one, restarts, or becomes ready or not. */
  runs: string[]
}

export interface ClusterView {
  /** Every peer that a member lists, sorted by id. */
  peers: PeerView[]
  /** Number of pods of the StatefulSet. */
  nodes: number
  collections: CollectionView[]
  transfers: TransferView[]
  update?: UpdateView
  /**
   * The nodes report different states, which is usual for seconds after a change: nothing is
   * planned until they agree.
   */
  unsettled?: string
  /** Planning is not possible: the cluster is split, or most of its nodes do not answer. */
  broken?: Obstruction
}

/** A move that this operator started: the source is dropped once the target is Active. */
export interface Move {
  collection: string
  shard: number
  /** Shard key: the engine gives the id of a deleted shard to another one. */
  key?: string | number
  from: number
  to: number
}

export interface DesiredNumber {
  collection: string
  shards: number
  /** The VecCollection that asks for it. */
  source?: { namespace: string; name: string }
}

export interface DesiredResharding {
  /** What the ids of our reshardings begin with. */
  owner: string
  /** Desired number of shards of collections that have one. */
  numbers: readonly DesiredNumber[]
  /** Whether one may be started; one in progress is always continued. */
  mayStart: boolean
  /** What the Job has recorded of the one in progress. */
  current?: ReshardingRecord
}

export interface DesiredUpdate {
  /** Whether a node may restart that has shards of collections with a single replica. */
  singleCopies: 'Restart' | 'Refuse'
  /** A user accepts that the last Active replica of a shard restarts. */
  allowsLastCopy: boolean
}

/** What is known of a shard with a copy that has failed. */
export interface CopyFailure {
  /** Peers to which no further copy is tried, and why. Absent as long as there are none. */
  givenUp?: ReadonlyMap<number, string>
  /**
   * Peers on which a Job has created a replica of the shard that has never been Active: other nodes are tried. Absent if
   * there are none.
   */
  createdOn?: readonly number[]
}

export interface DesiredShards {
  /** Pods with this ordinal or a higher one are drained and removed. */
  nodes: number
  /** Whether missing and defective replicas are created again. */
  repair: boolean
  /** Whether nodes may be removed although shards then have fewer replicas than their factor. */
  allowsFewerReplicas: boolean
  /** Whether replicas are moved to nodes with less data. */
  balance: boolean
  /** How outdated pods are updated; absent if they are not. */
  update?: DesiredUpdate
  /** Peers whose data is lost: their replicas are dropped, and they are removed. */
  lost: readonly number[]
  /** Transfers at the same time. */
  maxTransfers: number
  /** Unfinished moves of an earlier attempt. */
  moves: readonly Move[]
  /** Absent if no number of shards is changed. */
  resharding?: DesiredResharding
  /** Copies of shards that have failed; absent if none were made. */
  copyFailure?: (shard: { collection: string; id: number }) => CopyFailure | undefined
  /** Peers to which copies have failed too often, and how: they get no new replica. Absent if there are none. */
  closedTargets?: ReadonlyMap<number, string>
  /** Whether the target of a move has fewer points than its source: the move is undone. Absent if none has. */
  hasFewerPoints?: (move: Move) => boolean
  /** For how long a replica or node has been defective (defects.ts); 0 if it is not. */
  defectSeconds: (defect: string) => number
  /** Whether the Job has started this transfer: it ends, or the Job aborts it. Absent if that is not known of any. */
  isOwnCopy?: (transfer: TransferView) => boolean
}
