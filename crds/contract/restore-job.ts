/** Contract of `restore run`: its plan, and what it tells in its report. */
import { Type, type Static } from '@sinclair/typebox'
import { RestoreState } from '../restore.ts'
import { Enum, Timestamp } from '../schema.ts'
import { S3Source } from '../storage.ts'
import { Connection, planFields } from './connection.ts'

/**
 * Plan of `restore run`. What stands in the immutable spec, such as the list of collections and their
 * mapping, may be long: the Job reads it there.
 */
export const RestorePlan = Type.Object({
  ...planFields,
  /** The target. */
  cluster: Connection,
  /** Where manifest.json lies: that of the backup, or the spec's own. */
  source: S3Source,
  /** The VecBackup, where the restore names one. */
  backup: Type.Optional(Type.Object({ name: Type.String(), uid: Type.String() })),
})
export type RestorePlan = Static<typeof RestorePlan>

/** One collection of a restore, as far as it is told in the annotation. */
export const RestoredCollection = Type.Object({
  /** At the target. */
  name: Type.String(),
  /** In the backup, when another. */
  originalName: Type.Optional(Type.String()),
  status: RestoreState('How far it is.'),
  /** Bytes of its snapshots. */
  bytes: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Points counted at the end, exactly where the engine allows that. */
  points: Type.Optional(Type.Integer({ minimum: 0 })),
  error: Type.Optional(Type.String()),
  /** Of a Failed one: all of it was done, such as its aliases, and its points are there. */
  isInPlace: Type.Optional(Type.Literal(true)),
})
export type RestoredCollection = Static<typeof RestoredCollection>

/** Where a restore stands while it runs; also what a pod that comes after a killed one goes on from. */
const RestoreCheckpoint = Type.Object({
  /** Name at the target. */
  collection: Type.String(),
  /** n of `total`. */
  number: Type.Integer({ minimum: 0 }),
  /** Nodes that have their snapshot, of a backup by node. */
  nodesDone: Type.Integer({ minimum: 0 }),
  nodes: Type.Integer({ minimum: 0 }),
  /** Of a backup by shard: ids of the shards that are back, and how many there are in all. */
  shardsDone: Type.Optional(Type.Array(Type.Integer({ minimum: 0 }))),
  shards: Type.Optional(Type.Integer({ minimum: 0 })),
  /**
   * Recoveries that a node may be at, for their answer has not come: by node, or a shard on it. Absent in
   * reports of releases that did not record them.
   */
  running: Type.Optional(
    Type.Array(
      Type.Object({
        node: Type.Integer({ minimum: 0 }),
        shard: Type.Optional(Type.Integer({ minimum: 0 })),
      }),
    ),
  ),
  /** True once this restore was about to make the collection: nobody else's data is in it. */
  isOurs: Type.Boolean(),
  /** Replication factor that the collection had, while this restore has it at 1. */
  factor: Type.Optional(Type.Integer({ minimum: 1 })),
  /** What is being done, for people. */
  step: Type.String(),
  bytesPerSecond: Type.Optional(Type.Integer({ minimum: 0 })),
  secondsLeft: Type.Optional(Type.Integer({ minimum: 0 })),
})

/** What of a restore is done. Failures come first in the list; what has no room there is counted. */
export const RestoreResult = Type.Object({
  /** When its first attempt started. */
  startedAt: Timestamp(),
  /** Downloading until the manifest has been read and fits the target. */
  phase: Enum(['Downloading', 'Restoring']),
  /** Collections to restore; 0 until they are known. */
  total: Type.Integer({ minimum: 0 }),
  completed: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
  /** Bytes of the snapshots that are back, and of all. */
  bytes: Type.Integer({ minimum: 0 }),
  bytesTotal: Type.Integer({ minimum: 0 }),
  /** Error of the first collection that failed, or of the whole. */
  error: Type.Optional(Type.String()),
  collections: Type.Array(RestoredCollection),
  /** How each collection ended, in their order, such as `300C2F148P`: also those without room in the list. */
  states: Type.Optional(Type.String()),
  /** Collections that are not in the list, by state. */
  unlisted: Type.Object({
    completed: Type.Integer({ minimum: 0 }),
    failed: Type.Integer({ minimum: 0 }),
    pending: Type.Integer({ minimum: 0 }),
  }),
  current: Type.Optional(RestoreCheckpoint),
  /** What a person should know although nothing failed, such as an alias that was left elsewhere. */
  notes: Type.Optional(Type.Array(Type.String())),
})
export type RestoreResult = Static<typeof RestoreResult>
