/** Contract of `cluster shards`: its plan and its report. */
import { Type, type Static } from '@sinclair/typebox'
import { Timestamp } from '../schema.ts'
import { Connection, planFields } from './connection.ts'

const Count = () => Type.Integer({ minimum: 0 })

/** Plan of `cluster shards`. */
export const ShardsPlan = Type.Object({
  ...planFields,
  release: Type.String(),
  /** `replicas` is the number of pods of the StatefulSet. */
  cluster: Connection,
  /** Desired number of nodes; pods above it are drained and removed. */
  nodes: Type.Integer({ minimum: 1 }),
  repair: Type.Boolean(),
  balance: Type.Boolean(),
  maxTransfers: Type.Integer({ minimum: 1 }),
  /** Peers whose data is lost. */
  lost: Type.Array(Type.Number()),
  /** The recorded volumes of the lost peers: the Job reads them again before it drops a replica or removes a peer. */
  losses: Type.Optional(
    Type.Array(
      Type.Object({
        peer: Type.Number(),
        ordinal: Count(),
        /** Name of the data volume's claim. */
        claim: Type.String({ maxLength: 253 }),
        /** Its uid; absent if it is not recorded. */
        volume: Type.Optional(Type.String({ maxLength: 64 })),
      }),
    ),
  ),
  /** Pods with another template than the StatefulSet are updated. */
  update: Type.Optional(
    Type.Object({
      /** Revision of the template; the Job reads the current one from the StatefulSet. */
      revision: Type.String(),
      singleCopies: Type.Union([Type.Literal('Restart'), Type.Literal('Refuse')]),
      allowsLastCopy: Type.Boolean(),
    }),
  ),
  /** Present if spec.resharding is on, or a resharding has to be completed. */
  resharding: Type.Optional(
    Type.Object({
      numbers: Type.Array(
        Type.Object({
          collection: Type.String({ maxLength: 255 }),
          shards: Count(),
          /** The VecCollection that asks for it. */
          source: Type.Optional(Type.Object({ namespace: Type.String(), name: Type.String() })),
        }),
        { maxItems: 1000 },
      ),
      mayStart: Type.Boolean(),
    }),
  ),
  /** For how long replicas and nodes were defective when the Job was created, in seconds. */
  defects: Type.Record(Type.String(), Count()),
  /** End of the maintenance window: the Job ends at the first step after it. */
  endsAt: Type.Optional(Timestamp()),
  /** Topology zone of each pod, by ordinal. */
  zones: Type.Record(Type.String(), Type.String()),
  /** Capacity of each data volume in bytes. */
  volumeBytes: Type.Optional(Type.Integer({ minimum: 1 })),
  /** Whether nodes may be removed although shards then have fewer replicas. */
  allowsFewerReplicas: Type.Boolean(),
  /** What happens to the volume of a removed pod. */
  onScaleIn: Type.Union([Type.Literal('Delete'), Type.Literal('Keep')]),
})
export type ShardsPlan = Static<typeof ShardsPlan>

/** What a step is for. */
export type ShardPurpose = 'lost node' | 'repair' | 'scale-in' | 'update' | 'resharding' | 'balance'

/**
 * A resharding that the Job has started, recorded before each step that cannot be taken back.
 * `unknown`: an id of ours without a record, which is aborted if that is still possible.
 */
export const ReshardingRecord = Type.Object({
  collection: Type.String({ maxLength: 255 }),
  uuid: Type.String({ maxLength: 36 }),
  direction: Type.Union([Type.Literal('up'), Type.Literal('down')]),
  /** The shard that is added or removed. */
  shard: Count(),
  peer: Type.Number(),
  /** It can be aborted in `migrate` only. In `check` the engine has finished it. */
  stage: Type.Union([
    Type.Literal('unknown'),
    Type.Literal('migrate'),
    Type.Literal('commit'),
    Type.Literal('check'),
  ]),
  /** Completed parts of the stage. */
  done: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 2000 }),
  /** In stage `migrate`: how many points are copied, and about how many will be. For users. */
  points: Type.Optional(Type.Object({ copied: Count(), total: Count() })),
})
export type ReshardingRecord = Static<typeof ReshardingRecord>

/** A resharding that has begun, and what is known of it: each stage is an Event. */
export const ReshardingOutcome = Type.Object({
  uuid: Type.String({ maxLength: 36 }),
  collection: Type.String({ maxLength: 255 }),
  direction: Type.Union([Type.Literal('up'), Type.Literal('down')]),
  shard: Count(),
  /**
   * In `gone` the collection was deleted meanwhile. In `incomplete` another client has ended it, maybe before all points
   * were copied.
   */
  stage: Type.Union([
    Type.Literal('migrate'),
    Type.Literal('commit'),
    Type.Literal('completed'),
    Type.Literal('incomplete'),
    Type.Literal('aborted'),
    Type.Literal('gone'),
  ]),
})
export type ReshardingOutcome = Static<typeof ReshardingOutcome>

/** Kinds of steps that are counted. `reshard` is any step of a resharding. */
export const SHARD_STEPS = [
  ...(['replicate', 'repair', 'drop', 'removePeer', 'scaleDown', 'deleteVolume'] as const),
  ...(['updateNode', 'reshard'] as const),
] as const
export type ShardStepKind = (typeof SHARD_STEPS)[number]

/** Completed steps of one kind. */
export const FinishedSteps = Type.Object({
  step: Type.Union(SHARD_STEPS.map((step) => Type.Literal(step))),
  count: Count(),
  /** The last one, for users. Of copies only the number is known. */
  last: Type.Optional(Type.String({ maxLength: 512 })),
})
export type FinishedSteps = Static<typeof FinishedSteps>

/** A move that has begun; the source is dropped once the target is Active. */
export const ShardMove = Type.Object({
  collection: Type.String({ maxLength: 255 }),
  shard: Count(),
  /** Shard key: the engine gives the id of a deleted shard to another one. */
  key: Type.Optional(Type.Union([Type.String(), Type.Integer()])),
  from: Type.Number(),
  to: Type.Number(),
  /** Only in resharding: the shard that gets the points. */
  toShard: Type.Optional(Count()),
  /** Only of a transfer: it creates a replica that takes the place of no other. */
  isCreation: Type.Optional(Type.Boolean()),
})
export type ShardMove = Static<typeof ShardMove>

/** Progress of the work on shards; carried over from report to report. */
export const ShardsResult = Type.Object({
  startedAt: Timestamp(),
  /** The current step, for users: `docs/3: replicating from node 1 to node 4 (62 %)`. */
  step: Type.Optional(Type.String({ maxLength: 512 })),
  /** What the current steps are for. */
  purpose: Type.Optional(Type.String({ maxLength: 32 })),
  /** Steps completed by this Job. */
  stepsDone: Count(),
  /** The same by kind, and the volumes that were deleted: for Events and metrics. */
  finished: Type.Optional(Type.Array(FinishedSteps, { maxItems: SHARD_STEPS.length })),
  /** Steps that are planned, as far as they can be foreseen. */
  stepsLeft: Count(),
  bytesMoved: Count(),
  bytesLeft: Count(),
  bytesPerSecond: Type.Optional(Count()),
  secondsLeft: Type.Optional(Count()),
  /** Number of nodes over which the shards were balanced last; 0 after their number has changed. */
  balancedNodes: Type.Optional(Count()),
  /** Unfinished moves, from which the next pod or Job continues. */
  moves: Type.Array(ShardMove, { maxItems: 64 }),
  /** Transfers that were started and have not ended, as far as this Job knows. */
  transfers: Type.Optional(Type.Array(ShardMove, { maxItems: 64 })),
  /** Shards whose copies have failed, and that are not complete since: the next Job tries them after the others. */
  failed: Type.Optional(
    Type.Array(
      Type.Object({
        collection: Type.String({ maxLength: 255 }),
        shard: Count(),
        /** Peers on which a Job has created a replica of it and could not fill it: other nodes are tried. */
        createdOn: Type.Optional(Type.Array(Type.Number(), { maxItems: 64 })),
      }),
      { maxItems: 16 },
    ),
  ),
  /** The resharding in progress, from which the next pod or Job continues. */
  resharding: Type.Optional(ReshardingRecord),
  /** The latest ones, the newest last. */
  reshardings: Type.Optional(Type.Array(ReshardingOutcome, { maxItems: 16 })),
  /** The node whose peer is being removed, until its pod is removed too: another Job completes that. */
  removedPeer: Type.Optional(Type.Object({ ordinal: Count(), peer: Type.Number() })),
  /** Ordinal of a pod that is being removed; its volume claims are handled once it is gone. */
  removedOrdinal: Type.Optional(Count()),
  /** Why no further node is updated until a user or a repair changes something. */
  blocked: Type.Optional(
    Type.Object({
      reason: Type.String({ maxLength: 64 }),
      message: Type.String({ maxLength: 1024 }),
      /** The shard whose replicas are not known to be equal, if that is why. */
      differs: Type.Optional(Type.String({ maxLength: 300 })),
    }),
  ),
  /** The Job ended to let others work on the cluster; steps are left. */
  isYielded: Type.Optional(Type.Boolean()),
})
export type ShardsResult = Static<typeof ShardsResult>
