/** Contract of `restore run`: its plan and its report. */
import { Type, type Static } from '@sinclair/typebox'
import { RestoreState } from '../restore.ts'
import { Enum, Timestamp } from '../schema.ts'
import { S3Source } from '../storage.ts'
import { Connection, planFields } from './connection.ts'

/**
 * Plan of `restore run`. The Job reads the other fields, such as the list of collections and their mapping,
 * from the immutable spec, because they may be long.
 */
export const RestorePlan = Type.Object({
  ...planFields,
  /** The target. */
  cluster: Connection,
  /** Location of manifest.json: that of the backup, or the one in the spec. */
  source: S3Source,
  /** The VecBackup, if the restore names one. */
  backup: Type.Optional(Type.Object({ name: Type.String(), uid: Type.String() })),
})
export type RestorePlan = Static<typeof RestorePlan>

/** One collection of a restore, as reported in the annotation. */
export const RestoredCollection = Type.Object({
  /** At the target. */
  name: Type.String(),
  /** Name in the backup, if different. */
  originalName: Type.Optional(Type.String()),
  status: RestoreState('How far it is.'),
  /** Bytes of its snapshots. */
  bytes: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Points counted at the end; exact if the engine can count them exactly. */
  points: Type.Optional(Type.Integer({ minimum: 0 })),
  error: Type.Optional(Type.String()),
  /** For a Failed collection: every step is done, its aliases included, and its points exist. */
  isInPlace: Type.Optional(Type.Literal(true)),
  /** The first digits of its uuid, once it is restored: the pod that ends the restore compares them. */
  uuid: Type.Optional(Type.String()),
})
export type RestoredCollection = Static<typeof RestoredCollection>

/** Checkpoint of a running restore, from which the pod that replaces a killed one continues. */
const RestoreCheckpoint = Type.Object({
  /** Name at the target. */
  collection: Type.String(),
  /** n of `total`. */
  number: Type.Integer({ minimum: 0 }),
  /** Backup by node: the nodes that have recovered their snapshot. */
  nodesDone: Type.Integer({ minimum: 0 }),
  nodes: Type.Integer({ minimum: 0 }),
  /** Backup by shard: ids of the recovered shards, and the total. */
  shardsDone: Type.Optional(Type.Array(Type.Integer({ minimum: 0 }))),
  shards: Type.Optional(Type.Integer({ minimum: 0 })),
  /**
   * Recoveries that may still be running on a node, because no response has arrived: by node, or by shard on
   * a node. Absent in reports of releases that did not record them.
   */
  running: Type.Optional(
    Type.Array(
      Type.Object({
        node: Type.Integer({ minimum: 0 }),
        shard: Type.Optional(Type.Integer({ minimum: 0 })),
      }),
    ),
  ),
  /** True from just before this restore creates the collection: it contains no other data. */
  isOurs: Type.Boolean(),
  /** uuid of the collection at the target, where the engine reports it: another one has another. */
  uuid: Type.Optional(Type.String()),
  /** Original replication factor of the collection while this restore sets it to 1. */
  factor: Type.Optional(Type.Integer({ minimum: 1 })),
  /** Human-readable current step. */
  step: Type.String(),
  bytesPerSecond: Type.Optional(Type.Integer({ minimum: 0 })),
  secondsLeft: Type.Optional(Type.Integer({ minimum: 0 })),
})

/** Progress of a restore. The list has failures first; collections that do not fit are counted. */
export const RestoreResult = Type.Object({
  /** When its first attempt started. */
  startedAt: Timestamp(),
  /** Downloading until the manifest is read and checked against the target. */
  phase: Enum(['Downloading', 'Restoring']),
  /** Collections to restore; 0 until they are known. */
  total: Type.Integer({ minimum: 0 }),
  completed: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
  /** Bytes of the recovered snapshots, and of all. */
  bytes: Type.Integer({ minimum: 0 }),
  bytesTotal: Type.Integer({ minimum: 0 }),
  /** Error of the first failed collection, or of the whole restore. */
  error: Type.Optional(Type.String()),
  collections: Type.Array(RestoredCollection),
  /** Outcomes of all collections in their order, such as `300C2F148P`, including those that do not fit in the list. */
  states: Type.Optional(Type.String()),
  /** Which collections did not exist at the target when they were checked, in their order, such as `3A2O`. */
  absent: Type.Optional(Type.String()),
  /** Collections that are not in the list, by state. */
  unlisted: Type.Object({
    completed: Type.Integer({ minimum: 0 }),
    failed: Type.Integer({ minimum: 0 }),
    pending: Type.Integer({ minimum: 0 }),
  }),
  current: Type.Optional(RestoreCheckpoint),
  /** Warnings of a restore without failures, such as an alias that still points to another collection. */
  notes: Type.Optional(Type.Array(Type.String())),
})
export type RestoreResult = Static<typeof RestoreResult>
