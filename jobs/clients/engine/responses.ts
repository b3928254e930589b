/** What the engine answers: the parts we read, checked where they arrive (facts: sections 1, 2 and 10). */
import { Type, type Static } from '@sinclair/typebox'

/** What a change of collections, aliases and shards answers, and what one of points and indexes does. */
export const BooleanResult = Type.Boolean()
export const OperationResult = Type.Object({})

/** `GET /`: the only answer without an envelope. */
export const VersionInfo = Type.Object({ title: Type.String(), version: Type.String() })

const ConsensusThread = Type.Object({
  consensus_thread_status: Type.String(),
  err: Type.Optional(Type.String()),
})

/** `GET /cluster` of a node that runs alone, or of one among others. */
export const ClusterStatus = Type.Union([
  Type.Object({ status: Type.Literal('disabled') }),
  Type.Object({
    status: Type.Literal('enabled'),
    peer_id: Type.Number(),
    peers: Type.Record(Type.String(), Type.Object({ uri: Type.String() })),
    raft_info: Type.Object({ leader: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }),
    consensus_thread_status: ConsensusThread,
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

/** `GET /collections/{c}/cluster`: which shards this node holds and which it knows elsewhere. */
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
