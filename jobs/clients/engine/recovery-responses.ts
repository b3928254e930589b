/** Engine responses about nodes and about collections that are being restored. */
import { Type, type Static } from '@sinclair/typebox'
import { BackupClusterInfo } from './snapshots.ts'

/** Fields that are passed on or not read. */
export const AnyObject = Type.Record(Type.String(), Type.Unknown())
const Nullable = <T extends ReturnType<typeof Type.Number>>(type: T) =>
  Type.Union([type, Type.Null()])

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
      leader: Type.Optional(Nullable(Type.Number())),
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
    Type.Object({ deferred_points: Type.Optional(Nullable(Type.Number())) }),
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
      Type.Union([Type.Object({ disk_size: Type.Optional(Nullable(Type.Number())) }), Type.Null()]),
    ),
  }),
  collections: Type.Object({
    snapshots: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          running_snapshot_recovery: Type.Optional(Nullable(Type.Number())),
        }),
      ),
    ),
  }),
})
export type NodeTelemetry = Static<typeof NodeTelemetry>
