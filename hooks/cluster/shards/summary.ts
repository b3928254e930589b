/** What is known about the shards and nodes of a cluster when a decision is made. */
import type { StatefulSet } from '../../../crds/kubernetes.ts'
import type { NodeStatus } from '../../../crds/cluster-status.ts'
import type { Connection } from '../../../crds/contract/connection.ts'
import type {
  ReshardingOutcome,
  ReshardingRecord,
  ShardMove,
  ShardPurpose,
  ShardsPlan,
} from '../../../crds/contract/shards-job.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import type { ShardNumber } from '../../../crds/collection-ownership.ts'

/** What a Job on the shards would be asked to do. */
export type ShardsTarget = Pick<
  ShardsPlan,
  | 'nodes'
  | 'repair'
  | 'balance'
  | 'lost'
  | 'maxTransfers'
  | 'allowsFewerReplicas'
  | 'update'
  | 'resharding'
>

/**
 * The targets that may be due, in order of priority: repairs and lost nodes, then the removal of
 * nodes, then the update of pods, then another number of shards, then balance.
 */
export interface ShardTargets {
  repair: ShardsTarget
  drain?: ShardsTarget
  update?: ShardsTarget
  reshard?: ShardsTarget
  balance?: ShardsTarget
}
export type Goal = keyof ShardTargets

/** The planner's answer about one target, without the step itself. */
export type PlanOutcome =
  | { is: 'done' }
  | { is: 'step'; purpose: ShardPurpose }
  /** Something is in progress. */
  | {
      is: 'waiting'
      purpose: ShardPurpose | 'transfer' | 'agreement'
      message: string
      /** The shard whose replicas are not known to be equal, if that is why. */
      differs?: string
    }
  /** A user has to act. */
  | { is: 'refused'; reason: string; message: string; differs?: string }

/** What Kubernetes knows about the node of one ordinal. */
export interface NodeFacts {
  ordinal: number
  /** uid of its data volume's claim; absent if it is not known. */
  volume?: string
  /** The claim does not exist. */
  isVolumeMissing?: true
  /** Capacity of the data volume; absent while its claim is not bound. */
  volumeBytes?: number
  /** Estimated size of the data on the node; absent if the node has not reported it. */
  dataBytes?: number
  /** Kubernetes node and its topology zone. */
  node?: string
  zone?: string
  /** The Kubernetes node on which it ran last does not exist any more. */
  isNodeGone?: true
  /** Revision of its pod's template. */
  revision?: string
  /** The scheduler finds no node for the pod. */
  isUnschedulable?: true
  /** For how long both have been so in each observation, in seconds. */
  goneSeconds?: number
}

/** A peer that a member of the cluster lists. */
export interface PeerFacts {
  id: number
  /** Ordinal of the pod at its address. */
  ordinal?: number
  /** That pod answered with this id. */
  isMember: boolean
}

export interface ShardFacts {
  /** By ordinal, one of each pod of the StatefulSet. */
  nodes: NodeFacts[]
  peers: PeerFacts[]
  /** Desired number of shards of the collections that have one; absent if it may not be changed. */
  shardNumbers?: ShardNumber[]
}

export interface ShardsSummary extends ShardFacts {
  /** When the nodes were asked. */
  at: string
  collections: number
  /** Replicas that all shards should have on the present nodes, and those of them that are Active. */
  replicas: number
  activeReplicas: number
  targets: ShardTargets
  /** The resharding that the nodes report, if it is one of this cluster, or whose replicas are checked. */
  resharding?: ReshardingRecord
  /** How the resharding of the last report has ended; absent if it has not. */
  endedResharding?: Pick<ReshardingOutcome, 'uuid' | 'stage'>
  /** For how long replicas and nodes have been defective, in seconds, in each observation. */
  defects: ShardsPlan['defects']
  /** Since when the nodes have not agreed, in each observation; absent if they agree. */
  unsettledSince?: string
  /** A transfer that an ended Job has started is in progress: only another Job aborts it if it makes no progress. */
  isTransferLeft?: true
  /** Nothing can be planned: the cluster is split, or most of its nodes do not answer. */
  obstruction?: ConditionReason
  plans: {
    repair: PlanOutcome
    drain?: PlanOutcome
    update?: PlanOutcome
    reshard?: PlanOutcome
    balance?: PlanOutcome
  }
  /** Why no further node is updated until a repair or a user changes something. */
  closedGate?: ConditionReason
  /** Shards without an Active replica on a node that answers, by the silent peer that holds one. */
  onlyOn: { peer: number; shards: string[] }[]
  /** Completed backups of the cluster, the newest first; read only if a shard has no Active replica. */
  backups: string[]
}

export interface ShardsQuery {
  /** `replicas` is the number of pods of the StatefulSet. */
  connection: Connection
  /** Name of the volume claim template of the data volume. */
  claimTemplate: string
  /** Capacity of each data volume in bytes. */
  volumeBytes?: number
  /** The nodes as recorded when all of them were members. */
  recorded: NodeStatus[]
  /** Unfinished moves of the last Job. */
  moves: ShardMove[]
  /** Transfers that the last Job has started, and that had not ended. */
  transfers?: ShardMove[]
  /** The cluster's uid, and the resharding that its last Job has left. */
  uid: string
  resharding?: ReshardingRecord
  /** Which namespaces may ask for a number of shards; absent if none may. */
  mayReshard?: (namespace: string) => boolean
  /** As the targets are computed from it. */
  statefulSet?: StatefulSet
  targets: (facts: ShardFacts) => ShardTargets
}

export interface ShardPorts {
  /** Asks every pod for its shards, reads volumes and Kubernetes nodes, and plans each target. */
  shards(query: ShardsQuery, signal: AbortSignal): Promise<ShardsSummary>
  /** Names of those claims that a user must delete before nodes with these ordinals are added. */
  retainedVolumes(namespace: string, claims: string[]): Promise<string[]>
}
