/**
 * manifest.json: what a backup holds, and all a restore must know to put it back. One JSON schema,
 * checked when the manifest is written and when it is read.
 */
import { Type, type Static } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Rejected } from './errors.ts'
import { Time } from './schema.ts'

export const MANIFEST_VERSION = 1

const Free = Type.Record(Type.String(), Type.Unknown())
const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Bytes = Type.Integer({ minimum: 0 })
const Ordinal = Type.Integer({ minimum: 0 })

/** A word and a number are different keys, also where they look alike. */
export const ShardKey = Type.Union([Type.String(), Type.Integer()])
export type ShardKey = Static<typeof ShardKey>

/** A shard a node holds, by its id and, under custom sharding, its key. */
export const LocalShard = Type.Object({
  shardId: Type.Integer({ minimum: 0 }),
  shardKey: Type.Optional(ShardKey),
})
export type LocalShard = Static<typeof LocalShard>

export const ManifestSnapshot = Type.Object({
  nodeIndex: Type.Integer({
    minimum: 0,
    description: 'Ordinal of the pod it came from and is restored to.',
  }),
  key: Type.String({ description: 'Full key of the object in the bucket.' }),
  snapshotName: Type.String({ description: 'Name the engine gave it.' }),
  sizeBytes: Bytes,
  checksum: Type.Optional(
    Type.String({ description: 'What the engine said; absent when it said none.' }),
  ),
  sha256: Type.String({ ...Sha256, description: 'Of the bytes as they were uploaded.' }),
  localShards: Type.Array(LocalShard, {
    description: 'Shards this node held; empty: it held none, and its snapshot has no points.',
  }),
})
export type ManifestSnapshot = Static<typeof ManifestSnapshot>

/** A shard and the nodes that held an Active copy of it. */
const Shard = Type.Object({
  shardId: Type.Integer({ minimum: 0 }),
  shardKey: Type.Optional(ShardKey),
  nodes: Type.Array(Ordinal, { minItems: 1 }),
})

export const ManifestCollection = Type.Object({
  name: Type.String({ minLength: 1 }),
  snapshots: Type.Array(ManifestSnapshot, { minItems: 1 }),
  config: Type.Object(
    { params: Free },
    { additionalProperties: true, description: '`config` as the engine showed it.' },
  ),
  payloadIndexes: Type.Record(
    Type.String(),
    Type.Object({
      dataType: Type.String(),
      params: Type.Optional(Free),
    }),
    { description: 'Payload indexes by field.' },
  ),
  aliases: Type.Array(Type.String()),
  shardKeys: Type.Array(
    Type.Object({ key: ShardKey, shardIds: Type.Array(Type.Integer({ minimum: 0 })) }),
    { description: 'Under custom sharding; else empty.' },
  ),
  shards: Type.Array(Shard),
  pointsCount: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Points as the engine counted them: approximate.' }),
  ),
  exactPointsCount: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Points counted one by one, where it was the same before and after.',
    }),
  ),
})
export type ManifestCollection = Static<typeof ManifestCollection>

export const Manifest = Type.Object(
  {
    manifestVersion: Type.Integer({ minimum: 1 }),
    backupName: Type.String(),
    uid: Type.String({ description: 'uid of the VecBackup.' }),
    cluster: Type.Object({ name: Type.String(), namespace: Type.String() }),
    nodeCount: Type.Integer({
      minimum: 1,
      description: 'Replicas of the source; the target of a restore must have as many.',
    }),
    engineVersion: Type.String(),
    createdAt: Time({ description: 'When the backup started.' }),
    collections: Type.Array(ManifestCollection, { description: 'Completed ones only.' }),
  },
  { $id: 'https://vec-operator.dev/manifest-v1.json' },
)
export type Manifest = Static<typeof Manifest>

const manifests = TypeCompiler.Compile(Manifest)

/** The manifest in a JSON value. Throws `Rejected` naming the field that is wrong. */
export function checkedManifest(value: unknown): Manifest {
  const error = manifests.Errors(value).First()
  if (error !== undefined) {
    throw new Rejected(`manifest.json: ${error.path || 'the whole of it'}: ${error.message}`)
  }
  const manifest = value as Manifest
  if (manifest.manifestVersion > MANIFEST_VERSION) {
    throw new Rejected(
      `manifest.json: manifestVersion ${manifest.manifestVersion} is newer than this operator reads (${MANIFEST_VERSION})`,
    )
  }
  for (const collection of manifest.collections) checkCollection(collection, manifest.nodeCount)
  return manifest
}

/** What a schema cannot say: one snapshot of each node, and every shard in one of them. */
function checkCollection({ name, snapshots, shards }: ManifestCollection, nodeCount: number): void {
  const nodes = snapshots.map(({ nodeIndex }) => nodeIndex).sort((a, b) => a - b)
  if (nodes.length !== nodeCount || nodes.some((node, index) => node !== index)) {
    throw new Rejected(
      `manifest.json: collection ${name} has snapshots of nodes ${nodes.join(', ')}, not of 0 to ${nodeCount - 1}`,
    )
  }
  for (const { shardId, nodes: holders } of shards) {
    const isHeld = snapshots.some(
      ({ nodeIndex, localShards }) =>
        holders.includes(nodeIndex) && localShards.some((shard) => shard.shardId === shardId),
    )
    if (!isHeld) {
      throw new Rejected(`manifest.json: collection ${name} has no snapshot of shard ${shardId}`)
    }
  }
}
