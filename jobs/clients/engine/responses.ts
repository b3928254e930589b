/** Engine responses: the fields that are read, validated on arrival. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'

/** Fields that are passed on or not read. */
export const AnyObject = Type.Record(Type.String(), Type.Unknown())

/** Results of changes to collections, aliases and shards, and of changes to points and indexes. */
export const BooleanResult = Type.Boolean()
export const OperationResult = Type.Object({})

/** `GET /`: the only response without an envelope. */
export const VersionInfo = Type.Object({ title: Type.String(), version: Type.String() })

const ConsensusThread = Type.Object({
  consensus_thread_status: Type.String(),
  /** When a working thread last did something, by the clock of the node. */
  last_update: Type.Optional(Type.String()),
  err: Type.Optional(Type.String()),
})

/** `GET /cluster` of a standalone node, or of a node in a cluster. */
export const ClusterStatus = Type.Union([
  Type.Object({ status: Type.Literal('disabled') }),
  Type.Object({
    status: Type.Literal('enabled'),
    peer_id: Type.Number(),
    peers: Type.Record(Type.String(), Type.Object({ uri: Type.String() })),
    raft_info: Type.Object({ leader: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }),
    consensus_thread_status: ConsensusThread,
    /** By the uri of each peer that the last message of the consensus did not reach; the leader sends some each second. */
    message_send_failures: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  }),
])
export type ClusterStatus = Static<typeof ClusterStatus>

export const CollectionList = Type.Object({
  collections: Type.Array(Type.Object({ name: Type.String() })),
})

const shardFields = {
  shard_id: Type.Integer(),
  shard_key: Type.Optional(Type.Union([Type.String(), Type.Integer()])),
  state: Type.String(),
}

/** `GET /collections/{c}/cluster`: the shards on this node and those it knows on other nodes. */
export const CollectionClusterInfo = Type.Object({
  peer_id: Type.Number(),
  shard_count: Type.Integer(),
  local_shards: Type.Array(Type.Object({ ...shardFields, points_count: Type.Integer() })),
  remote_shards: Type.Array(Type.Object({ ...shardFields, peer_id: Type.Number() })),
  shard_transfers: Type.Array(
    Type.Object({ shard_id: Type.Integer(), from: Type.Number(), to: Type.Number() }),
  ),
})
export type CollectionClusterInfo = Static<typeof CollectionClusterInfo>

// Snapshots.

export const Snapshot = Type.Object({
  name: Type.String({ minLength: 1 }),
  size: Type.Integer({ minimum: 0 }),
  /** Hex SHA-256; absent if the engine keeps snapshots in a store of its own. */
  checksum: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})
export type Snapshot = Static<typeof Snapshot>
export const SnapshotList = Type.Array(Snapshot)

/** Everything in `GET /collections/{c}` that defines the collection. */
export const BackupCollectionInfo = Type.Object({
  points_count: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  config: Type.Object({ params: AnyObject }, { additionalProperties: true }),
  payload_schema: Type.Record(
    Type.String(),
    Type.Object({
      data_type: Type.String(),
      params: Type.Optional(Type.Union([AnyObject, Type.Null()])),
    }),
  ),
})
export type BackupCollectionInfo = Static<typeof BackupCollectionInfo>

/** Where shards are, and whether their number is being changed. */
export const BackupClusterInfo = Type.Composite([
  CollectionClusterInfo,
  Type.Object({ resharding_operations: Type.Optional(Type.Array(Type.Unknown())) }),
])
export type BackupClusterInfo = Static<typeof BackupClusterInfo>

export const CountResult = Type.Object({ count: Type.Integer({ minimum: 0 }) })

/** Releases differ in what they omit. */
const Nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]))
const Bytes = Nullable(Type.Number({ minimum: 0 }))

/**
 * `GET /telemetry?details_level=3`, the first level that lists shards; releases differ in what they
 * omit.
 */
export const SnapshotTelemetry = Type.Object({
  app: Type.Object({ startup: Nullable(Type.String()) }),
  collections: Type.Object({
    collections: Nullable(
      Type.Array(
        Type.Object({
          id: Type.String(),
          config: Nullable(Type.Object({ uuid: Nullable(Type.String()) })),
          shards: Nullable(
            Type.Array(
              Type.Object({
                local: Nullable(
                  Type.Object({ vectors_size_bytes: Bytes, payloads_size_bytes: Bytes }),
                ),
              }),
            ),
          ),
        }),
      ),
    ),
    snapshots: Nullable(
      Type.Array(
        Type.Object({
          id: Type.String(),
          running_snapshots: Nullable(Type.Integer({ minimum: 0 })),
          total_snapshot_creations: Nullable(Type.Integer({ minimum: 0 })),
        }),
      ),
    ),
  }),
})
export type SnapshotTelemetry = Static<typeof SnapshotTelemetry>

/** Aliases of one collection. */
export const AliasList = Type.Object({
  aliases: Type.Array(Type.Object({ alias_name: Type.String() })),
})

// Recovery and shard transfers.

/** `GET /cluster` of a node: how far it has applied the consensus log. */
export const ConsensusStatus = Type.Union([
  Type.Object({ status: Type.Literal('disabled') }),
  Type.Object({
    status: Type.Literal('enabled'),
    peer_id: Type.Number(),
    peers: Type.Record(Type.String(), Type.Unknown()),
    raft_info: Type.Object({
      commit: Type.Number(),
      pending_operations: Type.Number(),
      leader: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
    }),
    consensus_thread_status: Type.Object({
      consensus_thread_status: Type.String(),
      err: Type.Optional(Type.String()),
    }),
  }),
])
export type ConsensusStatus = Static<typeof ConsensusStatus>

/** `GET /collections/{c}`: the fields that a restore reads. */
export const RestoreCollectionInfo = Type.Object({
  status: Type.String(),
  optimizer_status: Type.Unknown(),
  points_count: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  config: Type.Object({ params: AnyObject }, { additionalProperties: true }),
  payload_schema: Type.Optional(Type.Record(Type.String(), AnyObject)),
  /** From 1.17 on; deferred points are in the shards but are neither found nor counted. */
  update_queue: Type.Optional(
    Type.Object({ deferred_points: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }),
  ),
})
export type RestoreCollectionInfo = Static<typeof RestoreCollectionInfo>

/** Where shards are; `comment` reports the progress of a transfer. */
export const RestoreClusterInfo = Type.Composite([
  Type.Omit(BackupClusterInfo, ['shard_transfers']),
  Type.Object({
    shard_transfers: Type.Array(
      Type.Object({
        shard_id: Type.Integer(),
        from: Type.Number(),
        to: Type.Number(),
        comment: Type.Optional(Type.Union([Type.String(), Type.Null()])),
      }),
    ),
  }),
])
export type RestoreClusterInfo = Static<typeof RestoreClusterInfo>

/** `GET /telemetry?details_level=2`: the disks of a node and its running recoveries. */
export const NodeTelemetry = Type.Object({
  app: Type.Object({
    system: Type.Optional(
      Type.Union([
        Type.Object({ disk_size: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }),
        Type.Null(),
      ]),
    ),
  }),
  collections: Type.Object({
    snapshots: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          running_snapshot_recovery: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
        }),
      ),
    ),
  }),
})
export type NodeTelemetry = Static<typeof NodeTelemetry>
