/**
 * Validates a manifest: its schema, its completeness, its checksum, and that no shard is listed in
 * place of another. Also the types of a manifest as a restore reads it: one of this operator or of
 * another program.
 */
import { hash } from 'node:crypto'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { isShardSnapshotKey } from '../crds/contract/backup-keys.ts'
import { Rejected } from '../crds/contract/errors.ts'
import { MAX_MANIFEST_BYTES } from '../crds/contract/limits.ts'
import {
  ForeignManifest,
  MANIFEST_VERSION,
  NodeManifest,
  ShardManifest,
  type Manifest,
  type ManifestCollection,
  type NodeCollection,
  type ShardCollection,
  type ShardKey,
  type ShardSnapshot,
  type NodeSnapshot,
} from '../crds/contract/manifest.ts'
import { isExactNumber, roundedNumber } from '../crds/engine/exact-json.ts'
import { formatBytes } from '../crds/units.ts'

const NEWEST_VERSION = Math.max(...Object.values(MANIFEST_VERSION))

/** The version that a manifest declares; the rest is checked after that. */
const ManifestVersion = Type.Object({ manifestVersion: Type.Integer({ minimum: 1 }) })

const versionValidator = TypeCompiler.Compile(ManifestVersion)
const nodeValidator = TypeCompiler.Compile(NodeManifest)
const shardValidator = TypeCompiler.Compile(ShardManifest)
const foreignValidator = TypeCompiler.Compile(ForeignManifest)

/** Whether a JSON value declares no version: other programs write only a `ForeignManifest`. */
export function isForeignManifest(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !('manifestVersion' in value)
}

/** Parses the manifest of another program. Throws `Rejected` naming the invalid field. */
export function parseForeignManifest(value: unknown): ForeignManifest {
  const manifest = validate(foreignValidator, value)
  for (const { name, snapshots } of manifest.collections) {
    checkOrdinals(name, snapshots, manifest.nodeCount)
  }
  return manifest
}

/** Parses a manifest. Throws `Rejected` naming the invalid field. */
export function parseManifest(value: unknown): Manifest {
  const { manifestVersion } = validate(versionValidator, value)
  if (manifestVersion > NEWEST_VERSION) {
    throw new Rejected(
      `manifest.json: manifestVersion ${manifestVersion} is newer than this operator reads (${NEWEST_VERSION})`,
    )
  }
  if (manifestVersion === MANIFEST_VERSION.Shard) {
    const manifest = validate(shardValidator, value)
    verifyChecksum(manifest)
    manifest.collections.forEach(checkShardSnapshots)
    return manifest
  }
  const manifest = validate(nodeValidator, value)
  verifyChecksum(manifest)
  for (const collection of manifest.collections) checkNodeSnapshots(collection, manifest.nodeCount)
  return manifest
}

/** Requires one snapshot of each node, and every shard of the collection in one of them. */
function checkNodeSnapshots(collection: NodeCollection, nodeCount: number): void {
  const { name, snapshots, shards } = collection
  checkOrdinals(name, snapshots, nodeCount)
  for (const { shardId, nodes: ordinals } of shards) {
    const isStored = snapshots.some(
      ({ nodeIndex, localShards }) =>
        ordinals.includes(nodeIndex) && localShards.some((shard) => shard.shardId === shardId),
    )
    if (!isStored) {
      throw new Rejected(`manifest.json: collection ${name} has no snapshot of shard ${shardId}`)
    }
  }
  const storedIds = new Set(
    snapshots.flatMap(({ localShards }) => localShards.map((localShard) => localShard.shardId)),
  )
  const missing = expectedShardIds(collection, storedIds.size).find((id) => !storedIds.has(id))
  if (missing === undefined) return
  throw new Rejected(`manifest.json: collection ${name} has no snapshot of shard ${missing}`)
}

function checkOrdinals(name: string, snapshots: { nodeIndex: number }[], nodeCount: number): void {
  const nodes = snapshots.map(({ nodeIndex }) => nodeIndex).sort((a, b) => a - b)
  if (nodes.length === nodeCount && nodes.every((node, index) => node === index)) return
  throw new Rejected(
    `manifest.json: collection ${name} has snapshots of nodes ${nodes.join(', ')}, not of 0 to ${nodeCount - 1}`,
  )
}

/**
 * Requires every expected shard id, each with one snapshot under its own key. The engine accepts
 * the snapshot of another shard without an error, so no later step would notice.
 */
function checkShardSnapshots(collection: ShardCollection): void {
  const { name, snapshots, shards } = collection
  const reject = (detail: string): never => {
    throw new Rejected(`manifest.json: collection ${name} ${detail}`)
  }
  const duplicateShard = firstDuplicate(shards)
  if (duplicateShard !== undefined) reject(`lists shard ${duplicateShard} twice`)
  const keys = new Map(shards.map(({ shardId, shardKey }) => [shardId, shardKey]))
  for (const id of expectedShardIds(collection, shards.length)) {
    if (!keys.has(id)) reject(`has no shard ${id}`)
  }
  checkShardKeys(collection, keys, reject)
  const duplicateSnapshot = firstDuplicate(snapshots)
  if (duplicateSnapshot !== undefined) reject(`has two snapshots of shard ${duplicateSnapshot}`)
  const snapshotIds = new Set(snapshots.map(({ shardId }) => shardId))
  for (const id of keys.keys()) if (!snapshotIds.has(id)) reject(`has no snapshot of shard ${id}`)
  for (const snapshot of snapshots) {
    const detail = snapshotMismatch(name, snapshot, keys)
    if (detail !== undefined) reject(detail)
  }
}

function validate<Schema extends TSchema>(
  schema: TypeCheck<Schema>,
  value: unknown,
): Static<Schema> {
  const error = schema.Errors(value).First()
  if (error === undefined) return value
  throw new Rejected(`manifest.json: ${error.path || 'the whole of it'}: ${error.message}`)
}

/**
 * The expected shard ids of a collection: with custom sharding those of its keys, otherwise 0 and
 * up.
 */
function expectedShardIds(
  { config, shardKeys }: ManifestCollection,
  listedCount: number,
): number[] {
  const { sharding_method: method, shard_number: count } = config.params
  if (method === 'custom') return shardKeys.flatMap(({ shardIds }) => shardIds)
  if (typeof count !== 'number') return []
  // One id more than are listed is enough to find a missing one, however large the count.
  return Array.from({ length: Math.min(count, listedCount + 1) }, (_, id) => id)
}

function checkShardKeys(
  { config, shardKeys }: ShardCollection,
  keys: Map<number, ShardKey | undefined>,
  reject: (detail: string) => never,
): void {
  const keysByShard = new Map(
    shardKeys.flatMap(({ key, shardIds }) => shardIds.map((id) => [id, key])),
  )
  for (const [id, key] of keys) {
    if (config.params['sharding_method'] === 'custom' && key === undefined) {
      reject(`lists shard ${id} without a shard key`)
    }
    if (keysByShard.get(id) !== key) reject(`does not list shard ${id} under its shard key`)
  }
}

function snapshotMismatch(
  collection: string,
  { shardId, shardKey, key }: ShardSnapshot,
  keys: Map<number, ShardKey | undefined>,
): string | undefined {
  if (!keys.has(shardId)) return `has a snapshot of shard ${shardId}, which it does not list`
  if (keys.get(shardId) !== shardKey) return `has shard ${shardId} under another shard key`
  if (isShardSnapshotKey(key, collection, shardId)) return undefined
  return `has ${key} as the snapshot of shard ${shardId}`
}

/** The first duplicate id. */
function firstDuplicate(shards: { shardId: number }[]): number | undefined {
  const seen = new Set<number>()
  return shards.find(({ shardId }) => seen.size === seen.add(shardId).size)?.shardId
}

/** What an engine reports about a collection is nested only a few levels deep. */
const MAX_DEPTH = 100

/** The manifest with its checksum. Throws `Rejected` if it is larger than any that a restore reads. */
export function withChecksum<M extends Manifest>(manifest: M): M {
  const complete = { ...manifest, manifestSha256: manifestChecksum(manifest) }
  const bytes = Buffer.byteLength(JSON.stringify(complete))
  if (bytes <= MAX_MANIFEST_BYTES) return complete
  const { length } = manifest.collections
  throw new Rejected(
    `manifest.json of ${length} collections would have ${formatBytes(bytes)}, and a restore reads ${formatBytes(MAX_MANIFEST_BYTES)}: name fewer of them in spec.collections, in several VecBackups`,
  )
}

/**
 * Throws `Rejected` if the manifest was changed after it was written; earlier releases wrote no
 * checksum.
 */
export function verifyChecksum(manifest: Manifest): void {
  const { manifestSha256: recorded } = manifest
  if (recorded === undefined) return
  const actual = manifestChecksum(manifest)
  if (actual === recorded) return
  throw new Rejected(
    `manifest.json: manifestSha256 is ${recorded}, but its other fields have the SHA-256 ${actual}: it was changed after it was written. Use another backup, or remove manifestSha256 if the change is intended`,
  )
}

function manifestChecksum(manifest: Manifest): string {
  return hash('sha256', canonicalJson({ ...manifest, manifestSha256: undefined }))
}

/** As RFC 8785 has it, with numbers of 64 bits: what reads them otherwise gets the same checksum. */
function canonicalJson(value: unknown, depth = 0): string {
  if (depth > MAX_DEPTH) {
    throw new Rejected(`manifest.json: its fields are nested more than ${MAX_DEPTH} levels deep`)
  }
  if (isExactNumber(value)) return JSON.stringify(roundedNumber(value))
  if (Array.isArray(value)) return `[${value.map((a) => canonicalJson(a, depth + 1)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonicalJson(field, depth + 1)}`).join(',')}}`
}

/** The manifest of another program may omit the checksum. */
export type SourceNodeSnapshot = Omit<NodeSnapshot, 'sha256'> &
  Partial<Pick<NodeSnapshot, 'sha256'>>

/** A collection of a backup by node, written by this operator or by another program. */
export interface SourceNodeCollection extends Omit<NodeCollection, 'snapshots'> {
  snapshots: SourceNodeSnapshot[]
}

/** Manifest of the source, with everything that a restore needs. */
export type SourceManifest =
  | ShardManifest
  | (Omit<NodeManifest, 'collections' | 'engineVersion' | 'uid'> &
      Partial<Pick<NodeManifest, 'engineVersion' | 'uid'>> & {
        collections: SourceNodeCollection[]
      })

export type SourceSnapshot = SourceManifest['collections'][number]['snapshots'][number]

/** One collection to restore. */
export type RestoreItem = NodeItem | ShardItem

/** A collection with one snapshot per node. */
export interface NodeItem {
  method: 'Node'
  /** The collection in the backup. */
  source: SourceNodeCollection
  /** Name at the target. */
  name: string
}

/** A collection with one snapshot per shard. */
export interface ShardItem {
  method: 'Shard'
  source: ShardCollection
  name: string
  /** Number of nodes of the source. */
  nodeCount: number
}

/** Total size of the snapshots in bytes. */
export function snapshotBytes({
  snapshots,
}: {
  snapshots: readonly { sizeBytes: number }[]
}): number {
  return snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
