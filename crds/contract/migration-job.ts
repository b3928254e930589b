/** Contract of `migration run`: its plan, and what it tells in its report. */
import { Type, type Static } from '@sinclair/typebox'
import { MigrationState } from '../migration.ts'
import { Timestamp } from '../schema.ts'
import { Connection, planFields } from './connection.ts'
import { ShardKey } from './manifest.ts'

/** Points are read from a managed cluster, or from any engine by its address. */
export const MigrationSource = Type.Union([
  Type.Object({ cluster: Connection }),
  Type.Object({
    url: Type.String(),
    /** Key of its API key within the Secret that is mounted; absent where it has none. */
    apiKey: Type.Optional(Type.String()),
    /** Key of its certificate authority within the Secret that is mounted. */
    ca: Type.Optional(Type.String()),
  }),
])
export type MigrationSource = Static<typeof MigrationSource>

/**
 * Plan of `migration run`. What else stands in the immutable spec, such as the list of collections and
 * their mapping, may be long: the Job reads it there.
 */
export const MigrationPlan = Type.Object({
  ...planFields,
  source: MigrationSource,
  target: Connection,
})
export type MigrationPlan = Static<typeof MigrationPlan>

const PointCount = Type.Integer({ minimum: 0 })

/** One collection of a migration, as far as it is told in the annotation. */
export const MigratedCollection = Type.Object({
  /** At the source. */
  name: Type.String(),
  targetName: Type.String(),
  status: MigrationState('How far it is.'),
  pointsTotal: Type.Optional(PointCount),
  pointsCopied: Type.Optional(PointCount),
  /** What was compared at its end, for people. */
  proof: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
})
export type MigratedCollection = Static<typeof MigratedCollection>

/** Points of a collection that are copied one after the other: under a shard key, or a part of the ids. */
export const MigrationPartition = Type.Object({
  /** Under custom sharding. */
  shardKey: Type.Optional(ShardKey),
  /** Id the next page begins with, as JSON; absent: the first there is. */
  offset: Type.Optional(Type.String()),
  /** Id that belongs to the next lane, as JSON; absent: to the last there is. */
  until: Type.Optional(Type.String()),
})
export type MigrationPartition = Static<typeof MigrationPartition>

/** Where the collection at work stands: what a pod that comes after a killed one goes on from. */
export const MigrationCheckpoint = Type.Object({
  /** At the source. */
  collection: Type.String(),
  /** True once this migration was about to make the collection: nobody else's points are in it. */
  isOurs: Type.Boolean(),
  /** Points in the target collection before the first batch: 0 where there were none, else about as many. */
  before: PointCount,
  /** Of the target collection, while it is 0 for the time of the copy: what is to be put back. */
  indexingThreshold: Type.Optional(Type.Number()),
  /** What is begun and not at its end; absent before the first page. */
  lanes: Type.Optional(Type.Array(MigrationPartition)),
  /** Under custom sharding the last key that is begun; those behind it in their order are not. */
  begun: Type.Optional(ShardKey),
  /** As a release that copied key by key told it: the one lane that was begun. */
  shardKey: Type.Optional(ShardKey),
  offset: Type.Optional(Type.String()),
  /** Points that are written, up to there. */
  copied: PointCount,
})
export type MigrationCheckpoint = Static<typeof MigrationCheckpoint>

/** What of a migration is done. Failures come first in the list; what has no room there is counted. */
export const MigrationResult = Type.Object({
  /** When its first attempt started. */
  startedAt: Timestamp(),
  /** Collections to copy. */
  total: Type.Integer({ minimum: 0 }),
  completed: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
  pointsTotal: PointCount,
  pointsCopied: PointCount,
  /** Error of the first collection that failed, or of the whole. */
  error: Type.Optional(Type.String()),
  collections: Type.Array(MigratedCollection),
  /** Collections that are not in the list, by state. */
  unlisted: Type.Object({
    completed: Type.Integer({ minimum: 0 }),
    failed: Type.Integer({ minimum: 0 }),
    pending: Type.Integer({ minimum: 0 }),
  }),
  /** Fingerprints of the completed ones that are not in the list: those are never copied again. */
  finished: Type.Optional(Type.String()),
  position: Type.Optional(MigrationCheckpoint),
})
export type MigrationResult = Static<typeof MigrationResult>
