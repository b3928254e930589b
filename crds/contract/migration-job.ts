/** Contract of `migration run`: its plan and its report. */
import { Type, type Static } from '@sinclair/typebox'
import { MigrationState } from '../migration.ts'
import { Timestamp } from '../schema.ts'
import { Connection, planFields } from './connection.ts'
import { ShardKey } from './manifest.ts'

/** The source of the points: a managed cluster, or any engine by its URL. */
export const MigrationSource = Type.Union([
  Type.Object({ cluster: Connection }),
  Type.Object({
    url: Type.String(),
    /** Key of the API key in the mounted Secret; absent when the source has no API key. */
    apiKey: Type.Optional(Type.String()),
    /** Key of the certificate authority in the mounted Secret. */
    ca: Type.Optional(Type.String()),
  }),
])
export type MigrationSource = Static<typeof MigrationSource>

/**
 * Plan of `migration run`. The Job reads the other fields, such as the list of collections and their mapping,
 * from the immutable spec, because they may be long.
 */
export const MigrationPlan = Type.Object({
  ...planFields,
  source: MigrationSource,
  target: Connection,
})
export type MigrationPlan = Static<typeof MigrationPlan>

const PointCount = Type.Integer({ minimum: 0 })

/** One collection of a migration, as reported in the annotation. */
export const MigratedCollection = Type.Object({
  /** At the source. */
  name: Type.String(),
  targetName: Type.String(),
  status: MigrationState('How far it is.'),
  pointsTotal: Type.Optional(PointCount),
  pointsCopied: Type.Optional(PointCount),
  /** Human-readable result of the final comparison. */
  proof: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
})
export type MigratedCollection = Static<typeof MigratedCollection>

/** Points of a collection that are copied in order: those of a shard key, or a range of ids. */
export const MigrationPartition = Type.Object({
  /** Set with custom sharding. */
  shardKey: Type.Optional(ShardKey),
  /** First id of the next page, as JSON; absent: the first id of the collection. */
  offset: Type.Optional(Type.String()),
  /** First id of the next partition, as JSON; absent: to the last id of the collection. */
  until: Type.Optional(Type.String()),
})
export type MigrationPartition = Static<typeof MigrationPartition>

/** Checkpoint of the current collection, from which the pod that replaces a killed one continues. */
export const MigrationCheckpoint = Type.Object({
  /** At the source. */
  collection: Type.String(),
  /** True from just before this migration creates the collection: it contains no other points. */
  isOurs: Type.Boolean(),
  /** Set once that collection exists: points in it are those of this migration. */
  isCreated: Type.Optional(Type.Boolean()),
  /** uuid of the target collection, where the engine reports it: another one has another. */
  targetUuid: Type.Optional(Type.String()),
  /** Approximate number of points in the target collection before the first batch; 0 only if it was empty. */
  before: PointCount,
  /** Value of the target collection to restore after the copy; it is 0 during the copy. */
  indexingThreshold: Type.Optional(Type.Number()),
  /** Partitions in progress; absent before the first page. */
  lanes: Type.Optional(Type.Array(MigrationPartition)),
  /** With custom sharding, the last shard key that is started; later keys in their order are not. */
  begun: Type.Optional(ShardKey),
  /** Format of a release that copied key by key: the one partition in progress. */
  shardKey: Type.Optional(ShardKey),
  offset: Type.Optional(Type.String()),
  /** Points written so far. */
  copied: PointCount,
})
export type MigrationCheckpoint = Static<typeof MigrationCheckpoint>

/** Progress of a migration. The list has failures first; collections that do not fit are counted. */
export const MigrationResult = Type.Object({
  /** When its first attempt started. */
  startedAt: Timestamp(),
  /** Collections to copy. */
  total: Type.Integer({ minimum: 0 }),
  completed: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
  pointsTotal: PointCount,
  pointsCopied: PointCount,
  /** Error of the first failed collection, or of the whole migration. */
  error: Type.Optional(Type.String()),
  collections: Type.Array(MigratedCollection),
  /** Collections that are not in the list, by state. */
  unlisted: Type.Object({
    completed: Type.Integer({ minimum: 0 }),
    failed: Type.Integer({ minimum: 0 }),
    pending: Type.Integer({ minimum: 0 }),
  }),
  /** Fingerprints of the completed collections that are not in the list: they are never copied again. */
  finished: Type.Optional(Type.String()),
  /** The same for the failed collections: clients may write to the part that was copied. */
  failedFingerprints: Type.Optional(Type.String()),
  /**
   * The first eight digits of the uuid of the target of each listed collection, in their order, `-` where unknown: the
   * pod that ends the migration compares them.
   */
  uuids: Type.Optional(Type.String()),
  position: Type.Optional(MigrationCheckpoint),
})
export type MigrationResult = Static<typeof MigrationResult>
