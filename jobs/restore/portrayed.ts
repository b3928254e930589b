/**
 * The manifest of another program says which snapshots there are, and nothing of what is in them. The
 * engine wrote that into the snapshots: the configuration of the collection, its shard keys and payload
 * indexes, and which shards a node held. It is read from there, so that what follows is the same.
 */
import { isDeepStrictEqual } from 'node:util'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Rejected } from '../../crds/errors.ts'
import {
  ShardKey,
  type LocalShard,
  type NodeCollection,
  type PlainCollection,
} from '../../crds/manifest.ts'
import { filesOf, type Snapshot, type Source } from './archive.ts'
import type { NodeSource } from './wanted.ts'

const COLLECTION = {
  config: 'config.json',
  keys: 'shard_key_mapping.json',
  indexes: 'payload_index.json',
}
const REPLICA_STATE = /^(0|[1-9]\d{0,9})\/replica_state\.json$/
const SHA256 = /^[0-9a-f]{64}$/i
const ACTIVE = 'Active'

const Free = Type.Record(Type.String(), Type.Unknown())
const Config = Type.Object({ params: Free, uuid: Type.Optional(Type.Unknown()) })
const Keys = Type.Array(
  Type.Object({ key: ShardKey, shard_ids: Type.Array(Type.Integer({ minimum: 0 })) }),
)
const Typed = Type.Object({ type: Type.String() })
const Indexes = Type.Object({
  schema: Type.Record(Type.String(), Type.Union([Type.String(), Typed])),
})
const ReplicaState = Type.Object({
  is_local: Type.Boolean(),
  this_peer_id: Type.String(),
  peers: Type.Record(Type.String(), Type.String()),
})

/** What the snapshot of one node says. */
interface Portrait {
  snapshot: Snapshot
  config: Static<typeof Config>
  keys: Static<typeof Keys>
  indexes: Static<typeof Indexes>
  /** By id of the shard: of those that are on the node, the state of their copy; undefined of others. */
  shards: Map<number, string | undefined>
}

/** Throws `Rejected` where the snapshots are not those of one collection, or a shard is in none of them. */
export async function portrayed(
  { name, snapshots }: PlainCollection,
  bucket: Source,
  signal: AbortSignal,
): Promise<NodeSource> {
  const portraits: Portrait[] = []
  for (const snapshot of snapshots) portraits.push(await portraitOf(snapshot, bucket, signal))
  const [first] = portraits
  if (first === undefined) throw new Rejected(`manifest.json: collection ${name} has no snapshots`)
  refuseDifferent(name, portraits)
  const { uuid: _, ...config } = first.config
  const shardKeys = first.keys.map(({ key, shard_ids }) => ({
    key,
    shardIds: shard_ids.sort(order),
  }))
  const listed = shardsOf(config, shardKeys, first.shards.size)
  refuseStray(name, new Set(listed.map(({ shardId }) => shardId)), portraits)
  const shards = listed.map((shard) => ({
    ...shard,
    nodes: holdersOf(name, shard.shardId, portraits),
  }))
  return {
    ...{ name, config, shardKeys, shards, aliases: [] },
    payloadIndexes: Object.fromEntries(portraits.flatMap(({ indexes }) => indexesIn(indexes))),
    snapshots: portraits.map(({ snapshot }) => ({
      ...snapshot,
      ...(snapshot.checksum !== undefined &&
        SHA256.test(snapshot.checksum) && { sha256: snapshot.checksum.toLowerCase() }),
      localShards: shards
        .filter(({ nodes }) => nodes.includes(snapshot.nodeIndex))
        .map(({ nodes: _nodes, ...shard }) => shard),
    })),
  }
}

async function portraitOf(
  snapshot: Snapshot,
  bucket: Source,
  signal: AbortSignal,
): Promise<Portrait> {
  const { key } = snapshot
  const isWanted = (name: string) =>
    Object.values(COLLECTION).includes(name) || REPLICA_STATE.test(name)
  const files = await filesOf(bucket, snapshot, isWanted, signal)
  const read = <Schema extends TSchema>(name: string, schema: Schema) =>
    checkedFile({ name, key, bytes: files.get(name) }, schema)
  const shards = [...files.keys()].flatMap((name) => {
    const [, id] = REPLICA_STATE.exec(name) ?? []
    if (id === undefined) return []
    const { is_local, this_peer_id, peers } = read(name, ReplicaState)
    return [[Number(id), is_local ? (peers[this_peer_id] ?? 'unknown') : undefined] as const]
  })
  return {
    snapshot,
    config: read(COLLECTION.config, Config),
    keys: files.has(COLLECTION.keys) ? read(COLLECTION.keys, Keys) : [],
    indexes: files.has(COLLECTION.indexes) ? read(COLLECTION.indexes, Indexes) : { schema: {} },
    shards: new Map(shards),
  }
}

function checkedFile<Schema extends TSchema>(
  { name, key, bytes }: { name: string; key: string; bytes: Buffer | undefined },
  schema: Schema,
): Static<Schema> {
  const refuse = (problem: string): never => {
    throw new Rejected(
      `${key}: ${problem}: it is no snapshot of a collection that this operator can read`,
    )
  }
  if (bytes === undefined) return refuse(`it has no ${name}`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString(), exactPeer)
  } catch {
    return refuse(`${name} is not JSON`)
  }
  const error = Value.Errors(schema, value).First()
  return error === undefined ? value : refuse(`${name}: ${error.path} ${error.message}`)
}

/** The id of a peer may have 64 bits: its digits are compared. */
function exactPeer(name: string, value: unknown, { source }: { source?: string } = {}): unknown {
  return name === 'this_peer_id' && typeof value === 'number' ? source : value
}

/** Taken while the collection was created again, changed or given other shard keys, they fit nothing. */
function refuseDifferent(name: string, [first, ...others]: Portrait[]): void {
  const partsOf = ({ config: { uuid, params }, keys }: Portrait) => {
    const sorted = keys.map(({ key, shard_ids }) => [typeof key, key, shard_ids.toSorted(order)])
    return { uuid, params, keys: sorted.toSorted() }
  }
  const parts = first && partsOf(first)
  const other = others.find((one) => !isDeepStrictEqual(partsOf(one), parts))
  if (other === undefined) return
  const nodes = `${first?.snapshot.nodeIndex} and ${other.snapshot.nodeIndex}`
  throw new Rejected(
    `the snapshots of ${name} from nodes ${nodes} have different configurations or shard keys: it was changed while it was backed up. Use another backup`,
  )
}

/** By their numbers where the engine places the points, else those of the shard keys. */
function shardsOf(
  { params }: Pick<Portrait['config'], 'params'>,
  shardKeys: NodeCollection['shardKeys'],
  found: number,
): LocalShard[] {
  const { sharding_method: method, shard_number: count } = params
  if (method === 'custom') {
    return shardKeys.flatMap(({ key, shardIds }) =>
      shardIds.map((shardId) => ({ shardId, shardKey: key })),
    )
  }
  if (typeof count !== 'number') throw new Rejected('config.json: /params/shard_number is missing')
  // Of one more than were found one is missing, however many more there should be.
  return Array.from({ length: Math.min(count, found + 1) }, (_, shardId) => ({ shardId }))
}

/** The engine restores no shard beyond those that are listed. */
function refuseStray(name: string, listed: ReadonlySet<number>, portraits: Portrait[]): void {
  for (const { snapshot, shards } of portraits) {
    const stray = [...shards.keys()].find((id) => !listed.has(id))
    if (stray === undefined) continue
    throw new Rejected(
      `${snapshot.key} has shard ${stray}, which is none of ${name}: it was resharded while it was backed up. Use another backup`,
    )
  }
}

/** The nodes with a copy of it. One that was not Active lacks points, and may be the last to be restored. */
function holdersOf(name: string, id: number, portraits: Portrait[]): number[] {
  const held = portraits.filter(({ shards }) => shards.get(id) !== undefined)
  const broken = held.find(({ shards }) => shards.get(id) !== ACTIVE)
  if (broken !== undefined) {
    throw new Rejected(
      `shard ${id} of ${name} was ${broken.shards.get(id)} on node ${broken.snapshot.nodeIndex} when its snapshot was made: points may be missing in it. Use another backup`,
    )
  }
  const unknown = portraits.find(({ shards }) => !shards.has(id))
  if (unknown !== undefined) {
    throw new Rejected(`${unknown.snapshot.key} does not know shard ${id} of ${name}`)
  }
  if (held.length === 0) {
    throw new Rejected(`no node has a snapshot of shard ${id} of ${name}: use another backup`)
  }
  return held.map(({ snapshot }) => snapshot.nodeIndex)
}

function indexesIn({ schema }: Static<typeof Indexes>) {
  return Object.entries(schema).map(
    ([field, index]) =>
      [
        field,
        typeof index === 'string' ? { dataType: index } : { dataType: index.type, params: index },
      ] as const,
  )
}

function order(one: number, other: number): number {
  return one - other
}
