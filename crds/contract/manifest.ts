/**
 * manifest.json: the content of a backup and everything a restore needs. Version 1 is by node, version 2 by
 * shard; each has one JSON schema (jobs/manifest-check.ts checks a manifest on writing and on reading).
 */
import { Type, type Static } from '@sinclair/typebox'
import { Timestamp } from '../schema.ts'

/** Version of the manifest by backup method. */
export const MANIFEST_VERSION = { Node: 1, Shard: 2 } as const

const FreeFormObject = Type.Record(Type.String(), Type.Unknown())
const ShardId = Type.Integer({ minimum: 0 })

/** A string and a number are different keys, even if they look alike. */
export const ShardKey = Type.Union([Type.String(), Type.Integer()])
export type ShardKey = Static<typeof ShardKey>

/** A shard: its id and, with custom sharding, its key. */
const shardIdentity = { shardId: ShardId, shardKey: Type.Optional(ShardKey) }

/** A shard on a node. */
export const LocalShard = Type.Object(shardIdentity)
export type LocalShard = Static<typeof LocalShard>

const storedObject = {
  key: Type.String({ description: 'Full key of the object in the bucket.' }),
  sizeBytes: Type.Integer({ minimum: 0 }),
  sha256: Type.String({
    pattern: '^[0-9a-f]{64}$',
    description: 'Of the bytes as they were uploaded.',
  }),
}

/** All shards of one node. */
export const NodeSnapshot = Type.Object({
  nodeIndex: Type.Integer({
    minimum: 0,
    description: 'Ordinal of the pod it came from and is restored to.',
  }),
  snapshotName: Type.String({ description: 'Name the engine gave it.' }),
  ...storedObject,
  checksum: Type.Optional(
    Type.String({ description: 'What the engine said; absent when it said none.' }),
  ),
  localShards: Type.Array(LocalShard, {
    description: 'Shards this node held; empty: it held none, and its snapshot has no points.',
  }),
})
export type NodeSnapshot = Static<typeof NodeSnapshot>

/** One shard, from one of the nodes with a replica. */
export const ShardSnapshot = Type.Object({
  ...shardIdentity,
  nodeIndex: Type.Integer({
    minimum: 0,
    description: 'Ordinal of the pod it was streamed from; it may be restored to any.',
  }),
  ...storedObject,
  pointsCount: Type.Optional(
    Type.Integer({
      minimum: 0,
      description:
        'Points of this replica as reported by its node, if the number was the same before and after the stream.',
    }),
  ),
})
export type ShardSnapshot = Static<typeof ShardSnapshot>

export type ManifestSnapshot = NodeSnapshot | ShardSnapshot

/** The fields of a collection in the manifest, without its snapshots. */
const collectionFields = {
  name: Type.String({ minLength: 1 }),
  engineVersion: Type.Optional(
    Type.String({
      description:
        'Release of every node, before and after its snapshots; absent in backups of earlier releases.',
    }),
  ),
  config: Type.Object(
    { params: FreeFormObject },
    { additionalProperties: true, description: '`config` as the engine showed it.' },
  ),
  payloadIndexes: Type.Record(
    Type.String(),
    Type.Object({
      dataType: Type.String(),
      params: Type.Optional(FreeFormObject),
    }),
    { description: 'Payload indexes by field.' },
  ),
  aliases: Type.Array(Type.String()),
  shardKeys: Type.Array(
    Type.Object({
      key: ShardKey,
      shardIds: Type.Array(ShardId),
      exactPointsCount: Type.Optional(
        Type.Integer({ minimum: 0, description: 'As that of the collection; by shard only.' }),
      ),
    }),
    { description: 'Under custom sharding; else empty.' },
  ),
  shards: Type.Array(
    Type.Object({
      ...shardIdentity,
      nodes: Type.Array(Type.Integer({ minimum: 0 }), {
        minItems: 1,
        description: 'Ordinals of the pods that held an Active copy of it.',
      }),
      exactPointsCount: Type.Optional(
        Type.Integer({
          minimum: 0,
          description:
            'Points of it counted one by one, where no copy of it took a write from before the first snapshot until after the last: its snapshot holds exactly these.',
        }),
      ),
      replicaPointsCounts: Type.Optional(
        Type.Array(
          Type.Object({
            nodeIndex: Type.Integer({ minimum: 0 }),
            pointsCount: Type.Integer({ minimum: 0 }),
          }),
          {
            minItems: 2,
            description:
              'Points of each replica, where they differ although no replica took a write from before the first snapshot until after the last. By node, the snapshot of each node holds those of its replica.',
          },
        ),
      ),
    }),
  ),
  pointsCount: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Points as the engine counted them: approximate.' }),
  ),
  exactPointsCount: Type.Optional(
    Type.Integer({
      minimum: 0,
      description:
        'Points counted one by one, where it was the same before and after. Points that were replaced meanwhile may be missing in the snapshots: it is compared, and proves nothing.',
    }),
  ),
}

export const NodeCollection = Type.Object({
  ...collectionFields,
  snapshots: Type.Array(NodeSnapshot, { minItems: 1, description: 'One of each node.' }),
})
export type NodeCollection = Static<typeof NodeCollection>

export const ShardCollection = Type.Object({
  ...collectionFields,
  replicationFactor: Type.Integer({
    minimum: 1,
    description: 'Replication factor of the collection in the source.',
  }),
  snapshots: Type.Array(ShardSnapshot, { description: 'One of each shard, by id.' }),
})
export type ShardCollection = Static<typeof ShardCollection>

export type ManifestCollection = NodeCollection | ShardCollection

const backupFields = {
  backupName: Type.String(),
  uid: Type.String({ description: 'uid of the VecBackup.' }),
  cluster: Type.Object({ name: Type.String(), namespace: Type.String() }),
  nodeCount: Type.Integer({ minimum: 1, description: 'Replicas of the source.' }),
  engineVersion: Type.String({ description: 'The newest of those of its collections.' }),
  createdAt: Timestamp({ description: 'When the backup started.' }),
  manifestSha256: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{64}$',
      description:
        'SHA-256 of this manifest without this field, in the canonical form of RFC 8785; absent in those of earlier releases.',
    }),
  ),
}

const Alias = Type.Object({ alias: Type.String(), collection: Type.String() })

/** All from the same moment, so that an alias that moves meanwhile belongs to one collection. */
const aliases = Type.Optional(
  Type.Array(Alias, {
    description:
      'Aliases as they were just before the manifest was written, all in one reading. Absent in manifests of earlier operators: then those of each collection hold.',
  }),
)

const deletedCollections = Type.Optional(
  Type.Array(Type.String(), {
    description:
      'Collections that clients deleted while a backup of all collections was taken, which are not in it. Absent if there are none.',
  }),
)

const COMPLETED_ONLY = { description: 'Completed ones only.' }

export const NodeManifest = Type.Object(
  {
    manifestVersion: Type.Literal(MANIFEST_VERSION.Node),
    ...backupFields,
    aliases,
    deletedCollections,
    collections: Type.Array(NodeCollection, COMPLETED_ONLY),
  },
  {
    $id: 'https://vec-operator.dev/manifest-v1.json',
    description: 'A backup by node: the target of a restore must have as many nodes.',
  },
)
export type NodeManifest = Static<typeof NodeManifest>

export const ShardManifest = Type.Object(
  {
    manifestVersion: Type.Literal(MANIFEST_VERSION.Shard),
    method: Type.Literal('Shard'),
    ...backupFields,
    aliases,
    deletedCollections,
    collections: Type.Array(ShardCollection, COMPLETED_ONLY),
  },
  {
    $id: 'https://vec-operator.dev/manifest-v2.json',
    description: 'A backup by shard: it may be restored to any number of nodes.',
  },
)
export type ShardManifest = Static<typeof ShardManifest>

export type Manifest = NodeManifest | ShardManifest

export function isShardManifest(manifest: {
  manifestVersion: Manifest['manifestVersion']
}): manifest is ShardManifest {
  return manifest.manifestVersion === MANIFEST_VERSION.Shard
}

const ForeignSnapshot = Type.Object({
  nodeIndex: Type.Integer({ minimum: 0 }),
  key: Type.String(),
  snapshotName: Type.String(),
  sizeBytes: Type.Integer({ minimum: 0 }),
  /** Programs whose field cannot be absent write an empty one. */
  checksum: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})

/** The fields of every manifest, also of other programs: a snapshot of each node, without its content. */
export const ForeignManifest = Type.Object({
  backupName: Type.String(),
  cluster: Type.Object({ name: Type.String(), namespace: Type.String() }),
  nodeCount: Type.Integer({ minimum: 1 }),
  createdAt: Timestamp(),
  collections: Type.Array(
    Type.Object({
      name: Type.String({ minLength: 1 }),
      snapshots: Type.Array(ForeignSnapshot, { minItems: 1 }),
    }),
  ),
})
export type ForeignManifest = Static<typeof ForeignManifest>
export type ForeignCollection = ForeignManifest['collections'][number]
