/** Engine responses: the fields that are read, validated on arrival. */
import { Type, type Static } from '@sinclair/typebox'

/** Results of changes to collections, aliases and shards, and of changes to points and indexes. */
export const BooleanResult = Type.Boolean()
export const OperationResult = Type.Object({})

/** `GET /`: the only response without an envelope. */
export const VersionInfo = Type.Object({ title: Type.String(), version: Type.String() })

const ConsensusThread = Type.Object({
  consensus_thread_status: Type.String(),
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
