/** The check of a manifest: its schema, and that it is complete and nothing in it mistaken for another. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { Rejected } from '../errors.ts'
import { isShardSnapshotKey } from '../layout.ts'
import {
  MANIFEST_VERSION,
  NodeManifest,
  PlainManifest,
  ShardManifest,
  type Manifest,
  type ManifestCollection,
  type NodeCollection,
  type ShardCollection,
  type ShardKey,
  type ShardSnapshot,
} from '../manifest.ts'
import { checkChecksum } from './manifest-checksum.ts'

const NEWEST = Math.max(...Object.values(MANIFEST_VERSION))

/** Which of the two a manifest claims to be; the rest of it is checked after that. */
const Version = Type.Object({ manifestVersion: Type.Integer({ minimum: 1 }) })

const versions = TypeCompiler.Compile(Version)
const byNode = TypeCompiler.Compile(NodeManifest)
const byShard = TypeCompiler.Compile(ShardManifest)
const plain = TypeCompiler.Compile(PlainManifest)

/** Whether a JSON value claims no version: other programs write no more than a `PlainManifest`. */
export function isPlain(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !('manifestVersion' in value)
}

/** The manifest of another program in a JSON value. Throws `Rejected` naming the field that is wrong. */
export function checkedPlainManifest(value: unknown): PlainManifest {
  const manifest = checked(plain, value)
  for (const { name, snapshots } of manifest.collections) {
    checkEachNode(name, snapshots, manifest.nodeCount)
  }
  return manifest
}

/** The manifest in a JSON value. Throws `Rejected` naming the field that is wrong. */
export function checkedManifest(value: unknown): Manifest {
  const { manifestVersion } = checked(versions, value)
  if (manifestVersion > NEWEST) {
    throw new Rejected(
      `manifest.json: manifestVersion ${manifestVersion} is newer than this operator reads (${NEWEST})`,
    )
  }
  if (manifestVersion === MANIFEST_VERSION.Shard) {
    const manifest = checked(byShard, value)
    checkChecksum(manifest)
    manifest.collections.forEach(checkShards)
    return manifest
  }
  const manifest = checked(byNode, value)
  checkChecksum(manifest)
  for (const collection of manifest.collections) checkNodes(collection, manifest.nodeCount)
  return manifest
}

/** One snapshot of each node, and every shard the collection must have in one of them. */
function checkNodes(collection: NodeCollection, nodeCount: number): void {
  const { name, snapshots, shards } = collection
  checkEachNode(name, snapshots, nodeCount)
  for (const { shardId, nodes: holders } of shards) {
    const isHeld = snapshots.some(
      ({ nodeIndex, localShards }) =>
        holders.includes(nodeIndex) && localShards.some((shard) => shard.shardId === shardId),
    )
    if (!isHeld) {
      throw new Rejected(`manifest.json: collection ${name} has no snapshot of shard ${shardId}`)
    }
  }
  const held = new Set(
    snapshots.flatMap(({ localShards }) => localShards.map((one) => one.shardId)),
  )
  const missing = expectedIds(collection, held.size).find((id) => !held.has(id))
  if (missing === undefined) return
  throw new Rejected(`manifest.json: collection ${name} has no snapshot of shard ${missing}`)
}

function checkEachNode(name: string, snapshots: { nodeIndex: number }[], nodeCount: number): void {
  const nodes = snapshots.map(({ nodeIndex }) => nodeIndex).sort((a, b) => a - b)
  if (nodes.length === nodeCount && nodes.every((node, index) => node === index)) return
  throw new Rejected(
    `manifest.json: collection ${name} has snapshots of nodes ${nodes.join(', ')}, not of 0 to ${nodeCount - 1}`,
  )
}

/**
 * Every shard number there must be, each with one snapshot under its own key. The engine takes the
 * snapshot of another shard without complaint (facts 6.6), so nothing after this would notice.
 */
function checkShards(collection: ShardCollection): void {
  const { name, snapshots, shards } = collection
  const refuse = (problem: string): never => {
    throw new Rejected(`manifest.json: collection ${name} ${problem}`)
  }
  const twin = repeated(shards)
  if (twin !== undefined) refuse(`lists shard ${twin} twice`)
  const keys = new Map(shards.map(({ shardId, shardKey }) => [shardId, shardKey]))
  for (const id of expectedIds(collection, shards.length)) {
    if (!keys.has(id)) refuse(`lacks shard ${id}`)
  }
  checkKeys(collection, keys, refuse)
  const doubled = repeated(snapshots)
  if (doubled !== undefined) refuse(`has two snapshots of shard ${doubled}`)
  const taken = new Set(snapshots.map(({ shardId }) => shardId))
  for (const id of keys.keys()) if (!taken.has(id)) refuse(`has no snapshot of shard ${id}`)
  for (const snapshot of snapshots) {
    const problem = mistaken(name, snapshot, keys)
    if (problem !== undefined) refuse(problem)
  }
}

function checked<Schema extends TSchema>(
  schema: TypeCheck<Schema>,
  value: unknown,
): Static<Schema> {
  const error = schema.Errors(value).First()
  if (error === undefined) return value
  throw new Rejected(`manifest.json: ${error.path || 'the whole of it'}: ${error.message}`)
}

/** Ids of the shards a collection must have: under custom sharding those of its keys, else 0 and on. */
function expectedIds({ config, shardKeys }: ManifestCollection, listed: number): number[] {
  const { sharding_method: method, shard_number: count } = config.params
  if (method === 'custom') return shardKeys.flatMap(({ shardIds }) => shardIds)
  if (typeof count !== 'number') return []
  // Of one more than are listed one is missing, however many more there should be.
  return Array.from({ length: Math.min(count, listed + 1) }, (_, id) => id)
}

function checkKeys(
  { config, shardKeys }: ShardCollection,
  keys: Map<number, ShardKey | undefined>,
  refuse: (problem: string) => never,
): void {
  const listed = new Map(shardKeys.flatMap(({ key, shardIds }) => shardIds.map((id) => [id, key])))
  for (const [id, key] of keys) {
    if (config.params['sharding_method'] === 'custom' && key === undefined) {
      refuse(`lists shard ${id} without a shard key`)
    }
    if (listed.get(id) !== key) refuse(`does not list shard ${id} under its shard key`)
  }
}

function mistaken(
  collection: string,
  { shardId, shardKey, key }: ShardSnapshot,
  keys: Map<number, ShardKey | undefined>,
): string | undefined {
  if (!keys.has(shardId)) return `has a snapshot of shard ${shardId}, which it does not list`
  if (keys.get(shardId) !== shardKey) return `has shard ${shardId} under another shard key`
  if (isShardSnapshotKey(key, collection, shardId)) return undefined
  return `has ${key} as the snapshot of shard ${shardId}`
}

/** The first number that is there a second time. */
function repeated(shards: { shardId: number }[]): number | undefined {
  const seen = new Set<number>()
  return shards.find(({ shardId }) => seen.size === seen.add(shardId).size)?.shardId
}
