/** The bodies of the calls on shards, copies and aliases, as the engine reads them. */
import { checked, integer, list, oneOf, string, struct, untagged } from '../read.ts'
import type { ShardKey } from '../collection.ts'

type Fields = Record<string, unknown>

const shardKey = untagged<ShardKey>('ShardKey', string, integer('u64'))

/** Body of `PUT /collections/{c}/shards`. */
export const CreateShardKey = struct(
  'CreateShardingKey',
  {
    shard_key: shardKey,
    shards_number: integer('a nonzero u32'),
    replication_factor: integer('a nonzero u32'),
    placement: list(integer('u64')),
  },
  { required: ['shard_key'], aliases: { shard_number: 'shards_number' } },
)

/** Body of `POST /collections/{c}/shards/delete`. */
export const DropShardKey = struct(
  'DropShardingKey',
  { shard_key: shardKey },
  { required: ['shard_key'] },
)

/** Body of `PUT /collections/{c}/snapshots/recover`. */
export const RecoverSnapshot = struct(
  'SnapshotRecover',
  {
    location: string,
    priority: oneOf('no_sync', 'snapshot', 'replica'),
    checksum: checked(string, (text) =>
      /^[0-9a-f]{64}$/i.test(text) ? undefined : 'invalid_sha256_hash',
    ),
    api_key: string,
  },
  { required: ['location'] },
)

const shardMove = struct(
  'MoveShard',
  {
    shard_id: integer('u32'),
    to_shard_id: integer('u32'),
    from_peer_id: integer('u64'),
    to_peer_id: integer('u64'),
    method: oneOf('stream_records', 'snapshot', 'wal_delta', 'resharding_stream_records'),
  },
  { required: ['shard_id', 'from_peer_id', 'to_peer_id'] },
)
const transfer = struct(
  'AbortShardTransfer',
  {
    shard_id: integer('u32'),
    to_shard_id: integer('u32'),
    from_peer_id: integer('u64'),
    to_peer_id: integer('u64'),
  },
  { required: ['shard_id', 'from_peer_id', 'to_peer_id'] },
)
const replica = struct(
  'Replica',
  { shard_id: integer('u32'), peer_id: integer('u64') },
  { required: ['shard_id', 'peer_id'] },
)

const reshardingStart = struct(
  'StartResharding',
  {
    uuid: string,
    direction: oneOf('up', 'down'),
    peer_id: integer('u64'),
    shard_key: shardKey,
  },
  { required: ['direction'] },
)
const migration = struct(
  'FinishMigratingPoints',
  { shard_id: integer('u32'), peer_id: integer('u64') },
  { required: [] },
)
const nothing = struct('Nothing', {}, { required: [] })

/** Body of `POST /collections/{c}/cluster`. */
export const ChangeCluster = untagged<Fields>(
  'ClusterOperations',
  struct('Replicate', { replicate_shard: shardMove }, { required: ['replicate_shard'] }),
  struct('Move', { move_shard: shardMove }, { required: ['move_shard'] }),
  struct('Abort', { abort_transfer: transfer }, { required: ['abort_transfer'] }),
  struct('Drop', { drop_replica: replica }, { required: ['drop_replica'] }),
  struct('Start', { start_resharding: reshardingStart }, { required: ['start_resharding'] }),
  struct(
    'FinishMigration',
    { finish_migrating_points: migration },
    { required: ['finish_migrating_points'] },
  ),
  ...[
    'commit_read_hash_ring',
    'commit_write_hash_ring',
    'finish_resharding',
    'abort_resharding',
  ].map((name) => struct(name, { [name]: nothing }, { required: [name] })),
)

const action = (name: string, ...fields: string[]) =>
  struct(
    'AliasOperation',
    {
      [name]: struct(name, Object.fromEntries(fields.map((field) => [field, string])), {
        required: fields,
      }),
    },
    { required: [name] },
  )

/** Body of `POST /collections/aliases`. */
export const ChangeAliases = struct(
  'ChangeAliasesOperation',
  {
    actions: list(
      untagged<Fields>(
        'AliasOperations',
        action('create_alias', 'collection_name', 'alias_name'),
        action('delete_alias', 'alias_name'),
        action('rename_alias', 'old_alias_name', 'new_alias_name'),
      ),
    ),
  },
  { required: ['actions'] },
)
