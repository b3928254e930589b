/**
 * Reads the metadata of a collection from its node snapshots. The manifest of another program lists
 * the snapshots, but not their content. The engine writes the configuration of the collection, its
 * shard keys, its payload indexes and the shards of the node into each snapshot. With these, the
 * restore proceeds as with a manifest of this operator.
 */
import { isDeepStrictEqual } from 'node:util'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Rejected } from '../../crds/contract/errors.ts'
import {
  ShardKey,
  type ForeignCollection,
  type LocalShard,
  type NodeCollection,
} from '../../crds/contract/manifest.ts'
import { parseExactJson } from '../../crds/engine/exact-json.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import {
  BLOCK,
  continuesSparseMap,
  isZeroBlock,
  paddedSize,
  parseHeader,
  type TarHeader,
} from '../tar.ts'
import type { SourceNodeCollection } from '../manifest-check.ts'

const COLLECTION_FILES = {
  config: 'config.json',
  keys: 'shard_key_mapping.json',
  indexes: 'payload_index.json',
}
const REPLICA_STATE = /^(0|[1-9]\d{0,9})\/replica_state\.json$/
const SHA256 = /^[0-9a-f]{64}$/i
const ACTIVE = 'Active'

const AnyObject = Type.Record(Type.String(), Type.Unknown())
const Config = Type.Object({ params: AnyObject, uuid: Type.Optional(Type.Unknown()) })
const Keys = Type.Array(
  Type.Object({ key: ShardKey, shard_ids: Type.Array(Type.Integer({ minimum: 0 })) }),
)
const IndexWithParams = Type.Object({ type: Type.String() })
const Indexes = Type.Object({
  schema: Type.Record(Type.String(), Type.Union([Type.String(), IndexWithParams])),
})
const ReplicaState = Type.Object({
  is_local: Type.Boolean(),
  this_peer_id: Type.String(),
  peers: Type.Record(Type.String(), Type.String()),
})

/** Metadata in the snapshot of one node. */
interface SnapshotMetadata {
  snapshot: Snapshot
  config: Static<typeof Config>
  keys: Static<typeof Keys>
  indexes: Static<typeof Indexes>
  /**
   * By shard id: the state of the replica on this node; undefined if the node has no replica of the
   * shard.
   */
  shards: Map<number, string | undefined>
}

/**
 * Throws `Rejected` if the snapshots are not of the same collection, or if a shard is in none of
 * them.
 */
export async function collectionFromSnapshots(
  { name, snapshots }: ForeignCollection,
  bucket: ObjectReader,
  signal: AbortSignal,
): Promise<SourceNodeCollection> {
  const metadata: SnapshotMetadata[] = []
  for (const snapshot of snapshots)
    metadata.push(await readSnapshotMetadata(snapshot, bucket, signal))
  const [first] = metadata
  if (first === undefined) throw new Rejected(`manifest.json: collection ${name} has no snapshots`)
  requireSameCollection(name, metadata)
  for (const { key } of first.keys) rejectUnsafeShardKey(name, key)
  const { uuid: _, ...config } = first.config
  const shardKeys = first.keys.map(({ key, shard_ids }) => ({
    key,
    shardIds: shard_ids.sort(byNumber),
  }))
  const listed = listShards(config, shardKeys, first.shards.size)
  rejectUnlistedShards(name, new Set(listed.map(({ shardId }) => shardId)), metadata)
  const shards = listed.map((shard) => ({
    ...shard,
    nodes: nodesWithShard(name, shard.shardId, metadata),
  }))
  return {
    ...{ name, config, shardKeys, shards, aliases: [] },
    payloadIndexes: Object.fromEntries(metadata.flatMap(({ indexes }) => parseIndexes(indexes))),
    snapshots: metadata.map(({ snapshot: { checksum, ...snapshot } }) => ({
      ...snapshot,
      ...(checksum != null && checksum !== '' && { checksum }),
      ...(checksum != null && SHA256.test(checksum) && { sha256: checksum.toLowerCase() }),
      localShards: shards
        .filter(({ nodes }) => nodes.includes(snapshot.nodeIndex))
        .map(({ nodes: _nodes, ...shard }) => shard),
    })),
  }
}

async function readSnapshotMetadata(
  snapshot: Snapshot,
  bucket: ObjectReader,
  signal: AbortSignal,
): Promise<SnapshotMetadata> {
  const { key } = snapshot
  const isMetadataFile = (name: string) =>
    Object.values(COLLECTION_FILES).includes(name) || REPLICA_STATE.test(name)
  const files = await readTarFiles(bucket, snapshot, isMetadataFile, signal)
  const read = <Schema extends TSchema>(name: string, schema: Schema) =>
    parseFile({ name, key, bytes: files.get(name) }, schema)
  const shards = [...files.keys()].flatMap((name) => {
    const [, id] = REPLICA_STATE.exec(name) ?? []
    if (id === undefined) return []
    const { is_local, this_peer_id, peers } = read(name, ReplicaState)
    return [[Number(id), is_local ? (peers[this_peer_id] ?? 'unknown') : undefined] as const]
  })
  return {
    snapshot,
    config: read(COLLECTION_FILES.config, Config),
    keys: files.has(COLLECTION_FILES.keys) ? read(COLLECTION_FILES.keys, Keys) : [],
    indexes: files.has(COLLECTION_FILES.indexes)
      ? read(COLLECTION_FILES.indexes, Indexes)
      : { schema: {} },
    shards: new Map(shards),
  }
}

function parseFile<Schema extends TSchema>(
  { name, key, bytes }: { name: string; key: string; bytes: Buffer | undefined },
  schema: Schema,
): Static<Schema> {
  const reject = (reason: string): never => {
    throw new Rejected(
      `${key}: ${reason}: it is no snapshot of a collection that this operator can read`,
    )
  }
  if (bytes === undefined) return reject(`it has no ${name}`)
  let value: unknown
  try {
    const text = bytes.toString()
    value =
      name === COLLECTION_FILES.config ? parseExactJson(text) : JSON.parse(text, keepPeerDigits)
  } catch {
    return reject(`${name} is not JSON`)
  }
  const error = Value.Errors(schema, value).First()
  return error === undefined ? value : reject(`${name}: ${error.path} ${error.message}`)
}

/** A peer id can have 64 bits, so its digits are compared. */
function keepPeerDigits(
  name: string,
  value: unknown,
  { source }: { source?: string } = {},
): unknown {
  return name === 'this_peer_id' && typeof value === 'number' ? source : value
}

/**
 * Snapshots do not fit together if the collection was recreated, changed or given other shard keys
 * between them.
 */
function requireSameCollection(name: string, [first, ...others]: SnapshotMetadata[]): void {
  const comparableParts = ({ config: { uuid, params }, keys }: SnapshotMetadata) => {
    const sorted = keys.map(({ key, shard_ids }) => [typeof key, key, shard_ids.toSorted(byNumber)])
    return { uuid, params, keys: sorted.toSorted() }
  }
  const expected = first && comparableParts(first)
  const different = others.find((entry) => !isDeepStrictEqual(comparableParts(entry), expected))
  if (different === undefined) return
  const nodes = `${first?.snapshot.nodeIndex} and ${different.snapshot.nodeIndex}`
  throw new Rejected(
    `the snapshots of ${name} from nodes ${nodes} have different configurations or shard keys: it was changed while it was backed up. Use another backup`,
  )
}

/** The restore would create it as another number. */
function rejectUnsafeShardKey(name: string, key: ShardKey): void {
  if (typeof key !== 'number' || Number.isSafeInteger(key)) return
  throw new Rejected(
    `shard key ${key} of ${name} is above 2^53, which cannot be read exactly: name the other collections in spec.collections, and recover the snapshots of this one with the engine`,
  )
}

/**
 * All shards by number if the engine assigns the points to shards; otherwise those of the shard
 * keys.
 */
function listShards(
  { params }: Pick<SnapshotMetadata['config'], 'params'>,
  shardKeys: NodeCollection['shardKeys'],
  foundCount: number,
): LocalShard[] {
  const { sharding_method: method, shard_number: count } = params
  if (method === 'custom') {
    return shardKeys.flatMap(({ key, shardIds }) =>
      shardIds.map((shardId) => ({ shardId, shardKey: key })),
    )
  }
  if (typeof count !== 'number') throw new Rejected('config.json: /params/shard_number is missing')
  // One missing shard is enough to reject the backup, so list at most one more than were found.
  return Array.from({ length: Math.min(count, foundCount + 1) }, (_, shardId) => ({ shardId }))
}

/** The engine restores only listed shards. */
function rejectUnlistedShards(
  name: string,
  listed: ReadonlySet<number>,
  metadata: SnapshotMetadata[],
): void {
  for (const { snapshot, shards } of metadata) {
    const unlisted = [...shards.keys()].find((id) => !listed.has(id))
    if (unlisted === undefined) continue
    throw new Rejected(
      `${snapshot.key} has shard ${unlisted}, which is none of ${name}: it was resharded while it was backed up. Use another backup`,
    )
  }
}

/**
 * Nodes with a replica of the shard. Throws if a replica was not Active: points may be missing in
 * it, and it may be restored last.
 */
function nodesWithShard(name: string, id: number, metadata: SnapshotMetadata[]): number[] {
  const holders = metadata.filter(({ shards }) => shards.get(id) !== undefined)
  const inactive = holders.find(({ shards }) => shards.get(id) !== ACTIVE)
  if (inactive !== undefined) {
    throw new Rejected(
      `shard ${id} of ${name} was ${inactive.shards.get(id)} on node ${inactive.snapshot.nodeIndex} when its snapshot was made: points may be missing in it. Use another backup`,
    )
  }
  const incomplete = metadata.find(({ shards }) => !shards.has(id))
  if (incomplete !== undefined) {
    throw new Rejected(`${incomplete.snapshot.key} does not know shard ${id} of ${name}`)
  }
  if (holders.length === 0) {
    throw new Rejected(`no node has a snapshot of shard ${id} of ${name}: use another backup`)
  }
  return holders.map(({ snapshot }) => snapshot.nodeIndex)
}

function parseIndexes({ schema }: Static<typeof Indexes>) {
  return Object.entries(schema).map(
    ([field, index]) =>
      [
        field,
        typeof index === 'string' ? { dataType: index } : { dataType: index.type, params: index },
      ] as const,
  )
}

function byNumber(a: number, b: number): number {
  return a - b
}

/** Bytes per read: most small files are then read together with their neighbours. */
const WINDOW_BYTES = 64 * 1024
/** A shard has about fifty files, and a node has up to a thousand shards. */
const MAX_FILES = 200_000
/**
 * A map block describes 21 parts of a file: a write-ahead log of 1 GiB that is split at every page
 * needs fewer blocks than this.
 */
const MAX_MAPS = 10_000
/**
 * Limit for all selected files together: each one describes a shard or a collection in a few lines.
 */
const MAX_METADATA_BYTES = 16 * 1024 * 1024
/** GNU tar writes a name of more than a hundred bytes as a file before the file that it names. */
const LONG_NAME = 'L'

export type Snapshot = ForeignCollection['snapshots'][number]

/** The methods of a bucket that reading needs. */
export type ObjectReader = Pick<Bucket, 'name' | 'bytes'>

/** The selected files by name. Throws `Rejected` if the object is not a complete tar. */
export async function readTarFiles(
  bucket: ObjectReader,
  snapshot: Snapshot,
  isSelected: (name: string) => boolean,
  signal: AbortSignal,
): Promise<Map<string, Buffer>> {
  const reader = new BufferedReader(bucket, snapshot, signal)
  const files = new Map<string, Buffer>()
  let [offset, bytesLeft, longName] = [0, MAX_METADATA_BYTES, '']
  for (let count = 0; count < MAX_FILES; count += 1) {
    const block = await reader.read(offset, BLOCK)
    if (isZeroBlock(block)) return files
    const header = parseHeader(block) ?? reader.reject(`has no tar header at byte ${offset}`)
    offset = await contentOffset(reader, offset + BLOCK, header)
    const name = (longName === '' ? header.name : longName).replace(/^\.\//, '')
    longName = ''
    const isLongName = header.type === LONG_NAME
    if (isLongName || isSelected(name)) {
      bytesLeft -= header.size
      if (bytesLeft < 0) reader.reject(`has more than ${MAX_METADATA_BYTES} bytes of metadata`)
      const content = await reader.read(offset, header.size)
      if (isLongName) longName = content.toString().replaceAll('\0', '')
      else files.set(name, Buffer.from(content))
    }
    offset += paddedSize(header.size)
  }
  return reader.reject(`has more than ${MAX_FILES} files`)
}

/** Start of the content, after the map of a sparse file. */
async function contentOffset(
  reader: BufferedReader,
  start: number,
  { hasMoreSparseMap: hasMoreMap }: TarHeader,
): Promise<number> {
  let offset = start
  for (let isMap = hasMoreMap; isMap; offset += BLOCK) {
    if (offset > start + MAX_MAPS * BLOCK)
      reader.reject(`has a sparse file without end at byte ${start}`)
    isMap = continuesSparseMap(await reader.read(offset, BLOCK))
  }
  return offset
}

/** Reads an object in windows and caches the last one. */
class BufferedReader {
  readonly #bucket: ObjectReader
  readonly #snapshot: Snapshot
  readonly #signal: AbortSignal
  #start = 0
  #bytes: Buffer = Buffer.alloc(0)

  constructor(bucket: ObjectReader, snapshot: Snapshot, signal: AbortSignal) {
    this.#bucket = bucket
    this.#snapshot = snapshot
    this.#signal = signal
  }

  async read(from: number, length: number): Promise<Buffer> {
    const { key, sizeBytes } = this.#snapshot
    if (from + length > sizeBytes)
      this.reject(`ends at byte ${sizeBytes}, before the end of its tar`)
    if (from < this.#start || from + length > this.#start + this.#bytes.length) {
      const readLength = Math.min(Math.max(length, WINDOW_BYTES), sizeBytes - from)
      this.#bytes = await this.#bucket.bytes(key, { from, length: readLength }, this.#signal)
      this.#start = from
      if (this.#bytes.length < length)
        this.reject(`has less than the ${sizeBytes} bytes of the manifest`)
    }
    return this.#bytes.subarray(from - this.#start, from - this.#start + length)
  }

  reject(reason: string): never {
    throw new Rejected(`s3://${this.#bucket.name}/${this.#snapshot.key} ${reason}`)
  }
}
