/**
 * What the recovery of a snapshot does to a collection of several nodes, as observed on the real engine
 * (docs/engine-notes.md#recovery-of-a-collection), with the damage that early recoveries and some priorities
 * cause.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { refuse } from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import type { Collection, Config, Fields, Shard, ShardKey } from './collection.ts'
import { parseJson } from './json.ts'
import type { Point } from './points.ts'
import { pointsOn, replacePoints } from './shard-points.ts'

/** A line in a snapshot: of every shard its id, of those the node held the points. */
export interface Content {
  collection: string
  config: Config
  payloadSchema: Record<string, Fields>
  shards: { id: number; key?: ShardKey; points?: Point[] }[]
}

export type Priority = 'snapshot' | 'replica' | 'no_sync'

export interface Taking {
  ordinal: number
  name: string
  bytes: Buffer
  priority: Priority
  checksum?: string | undefined
}

export function contentOf(cluster: EngineCluster, ordinal: number, name: string): Content {
  const collection = cluster.find(name)
  if (collection === undefined) throw new Error(`there is no ${name}`)
  const { id: peer } = cluster.peer(ordinal)
  const { config, payloadSchema, shards } = collection
  return {
    collection: name,
    config,
    payloadSchema,
    shards: shards.map((shard) => ({
      id: shard.id,
      ...(shard.key !== undefined && { key: shard.key }),
      ...(isHeld(cluster, shard, peer) && {
        points: pointsOn(collection, shard, cluster.peer(ordinal)),
      }),
    })),
  }
}

/** Recovers a snapshot on this node; its errors are reported before anything changes. */
export function takeSnapshot(cluster: EngineCluster, taking: Taking): void {
  const { ordinal, name, priority } = taking
  const content = checkedContent(taking)
  const known = cluster.find(name)
  if (known !== undefined) refuseOther(known.config, content.config)
  const collection = known ?? cluster.addRecovered(name, content.config, content.payloadSchema)
  const isHasty = (collection.unsettledUntil ?? 0) > Date.now()
  for (const shard of collection.shards) {
    const given = content.shards.find(({ id }) => id === shard.id)
    // Those before it have been replaced by then.
    if (given === undefined) {
      refuse(500, `Service internal error: No shard found: ${shard.id} at ./snapshots/tmp`)
    }
    if (given.points === undefined) continue
    replacePoints(collection, shard, given.points)
    assignShards(cluster, { collection, shard, ordinal, priority, isHasty })
  }
  collection.unsettledUntil = Date.now() + cluster.settleMs
}

/** What is in the bytes, unless they are not those that the call speaks of. */
export function checkedContent({ bytes, checksum }: Pick<Taking, 'bytes' | 'checksum'>): Content {
  const content = readContent(bytes)
  const actual = createHash('sha256').update(bytes).digest('hex')
  if (checksum !== undefined && checksum !== actual) {
    refuse(400, `Wrong input: Snapshot checksum mismatch: expected ${checksum}, got ${actual}`)
  }
  return content
}

interface Placing {
  collection: Collection
  shard: Shard
  ordinal: number
  priority: Priority
  /** The nodes have not yet applied the recovery before. */
  isHasty: boolean
}

/** The node becomes a holder of the shard, if it was not one before. */
function assignShards(cluster: EngineCluster, placing: Placing): void {
  const { collection, shard, ordinal, priority, isHasty } = placing
  const { id: peer } = cluster.peer(ordinal)
  const others = shard.peers.filter((other) => other !== peer)
  if (others.length === 0 || !cluster.enabled) {
    shard.peers = [peer]
    return
  }
  if (priority === 'replica') stopAll(cluster)
  if (priority === 'no_sync') {
    shard.peers = [...others, peer]
    return
  }
  const factor = Number(collection.config.params['replication_factor'])
  const [dropped] = others.slice(factor - 1)
  shard.peers = [peer, ...others.slice(0, factor - 1)]
  // Another node never hears of it: for good it lists the holder that was.
  const deaf = cluster.peers().find(({ id }) => id !== peer)
  if (isHasty && dropped !== undefined && deaf !== undefined) {
    shard.phantoms = { [deaf.ordinal]: [dropped] }
  }
}

/** For good: the entry is refused again at each restart. */
function stopAll(cluster: EngineCluster): never {
  for (const { ordinal } of cluster.peers()) {
    cluster.stopConsensus(ordinal, 'Failed to handle committed entries')
  }
  return refuse(500, 'Service internal error: Channel closed: sending on a closed channel')
}

function isHeld({ enabled }: EngineCluster, { peers }: Shard, peer: number): boolean {
  return !enabled || peers.includes(peer)
}

/** Whatever surrounds the line. */
export function readContent(bytes: Buffer): Content {
  const start = Math.max(bytes.indexOf('{"collection":'), 0)
  const line = bytes.subarray(start, Math.max(bytes.indexOf('\n', start), start)).toString()
  try {
    return parseJson(line) as Content
  } catch {
    const words = 'Failed to unpack tar archive: Malformed tar archive, reached unknown entry'
    return refuse(500, `Service internal error: ${words}`)
  }
}

function refuseOther({ params: found }: Config, { params: given }: Config): void {
  const isSame =
    isDeepStrictEqual({ ...found.vectors }, { ...given.vectors }) &&
    found['shard_number'] === given['shard_number']
  if (isSame) return
  refuse(400, 'Wrong input: Snapshot is not compatible with existing collection: other vectors')
}
