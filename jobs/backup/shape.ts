/**
 * The shape of a collection: what it is, and which node holds which shard. Snapshots of several nodes
 * are one backup only when all of them were taken of one shape, and every copy was Active.
 */
import { createHash } from 'node:crypto'
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { LocalShard, ManifestCollection } from '../../crds/manifest.ts'
import type { SettlingPlacement, WholeCollection } from '../clients/engine-snapshots.ts'
import { isPassing } from '../patience.ts'
import { engineOn, ordinals, snapshotsOn, type Work } from './work.ts'

export interface Shape {
  /** Equal for two shapes whose snapshots fit together. */
  fingerprint: string
  shards: ManifestCollection['shards']
  /** What the manifest says of the collection besides its snapshots. */
  described: Omit<ManifestCollection, 'name' | 'snapshots'>
}

const POLL_MS = 5_000

/** Waits, within bounds, until every copy of every shard is Active and none is on its way. */
export async function settledShape(name: string, work: Work): Promise<Shape> {
  const { tools, patience } = work
  const { time, log, signal } = tools
  const limit = patience.share()
  const start = time.now().getTime()
  for (let waited = 0; ; waited = time.now().getTime() - start) {
    const found = await look(name, work)
    if (typeof found !== 'string') {
      patience.spend(waited)
      return found
    }
    if (waited >= limit) {
      patience.spend(waited)
      throw new EngineError(`${found} (waited ${Math.round(waited / 1000)} s)`)
    }
    log.info({ collection: name, reason: found }, 'waits until every copy is Active')
    work.tally.tell()
    await time.sleep(POLL_MS, signal)
    await work.tally.told()
  }
}

/** Which shards a node holds. */
export function shardsOn({ shards }: Shape, ordinal: number): LocalShard[] {
  return shards
    .filter(({ nodes }) => nodes.includes(ordinal))
    .map(({ shardId, shardKey }) => ({ shardId, ...(shardKey !== undefined && { shardKey }) }))
}

/** Equal for two streams of a shard that fit the same collection, from whichever node they come. */
export function shardPrint(
  { shardId, shardKey }: LocalShard,
  { config }: Pick<WholeCollection, 'config'>,
): string {
  return printOf([shardId, shardKey ?? null, ...fitting(config)])
}

/** The shape there is now, or why it is not one to take snapshots of. */
export async function look(name: string, work: Work): Promise<Shape | string> {
  const { signal } = work.tools
  try {
    const placements = []
    for (const ordinal of ordinals(work)) {
      placements.push(await snapshotsOn(work, ordinal).placement(name, signal))
    }
    const problem = unsettled(placements)
    if (problem !== undefined) return problem
    const first = snapshotsOn(work, 0)
    const collection = await first.collection(name, signal)
    return shapeOf(placements, collection, await first.aliases(name, signal))
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) await refuseDeleted(name, work)
    if (!isPassing(error)) throw error
    return error.message
  }
}

/** A 404 may be about a snapshot; one about the collection is for good. */
export async function refuseDeleted(name: string, work: Work): Promise<void> {
  const names = await engineOn(work, 0).collections(work.tools.signal)
  if (!names.includes(name)) throw new Rejected(`collection ${name} was deleted during the backup`)
}

function unsettled(placements: SettlingPlacement[]): string | undefined {
  const nodes = new Map(placements.map(({ peer_id }, ordinal) => [peer_id, ordinal]))
  const node = (peer: number) => {
    const ordinal = nodes.get(peer)
    return ordinal === undefined ? `peer ${peer}, which is none of the pods` : `node ${ordinal}`
  }
  for (const placement of placements) {
    const { peer_id, local_shards, remote_shards, shard_transfers } = placement
    const copies = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
    for (const { shard_id, state, peer_id: peer } of copies) {
      if (state !== 'Active') return `shard ${shard_id} on ${node(peer)} is ${state}`
      if (!holds(placements[nodes.get(peer) ?? -1], shard_id)) {
        return `shard ${shard_id} is said to be on ${node(peer)}, but is not there`
      }
    }
    const [transfer] = shard_transfers
    if (transfer !== undefined) {
      const { shard_id, from, to } = transfer
      return `shard ${shard_id} is on its way from ${node(from)} to ${node(to)}`
    }
    if ((placement.resharding_operations ?? []).length > 0) {
      return `the number of shards is being changed on ${node(peer_id)}`
    }
  }
  return disagreement(placements)
}

/** Each node must know of the copies that the others hold. */
function disagreement(placements: SettlingPlacement[]): string | undefined {
  const known = (placement: SettlingPlacement) =>
    placement.local_shards.length + placement.remote_shards.length
  const counts = placements.map(known)
  if (new Set(counts).size <= 1) return undefined
  return `the nodes do not agree on the copies there are: they know of ${counts.join(', ')}`
}

function holds(placement: SettlingPlacement | undefined, shard: number): boolean {
  return placement?.local_shards.some(({ shard_id }) => shard_id === shard) ?? false
}

function shapeOf(
  placements: SettlingPlacement[],
  { config, payload_schema, points_count }: WholeCollection,
  aliases: string[],
): Shape {
  const shards = shardsIn(placements)
  return {
    fingerprint: printOf([shards, ...fitting(config)]),
    shards,
    described: {
      config,
      payloadIndexes: Object.fromEntries(
        Object.entries(payload_schema).map(([field, { data_type, params }]) => [
          field,
          { dataType: data_type, ...(params != null && { params }) },
        ]),
      ),
      aliases,
      shardKeys: keysOf(shards),
      shards,
      ...(points_count != null && { pointsCount: points_count }),
    },
  }
}

/** What a snapshot must have in common with the collection it is restored to. */
function fitting({ params }: WholeCollection['config']): unknown[] {
  const { vectors, sparse_vectors, shard_number, sharding_method } = params
  return [vectors, sparse_vectors, shard_number, sharding_method]
}

function printOf(parts: unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts, inOrder)).digest('hex').slice(0, 32)
}

/** Nodes differ in the order of what they say. */
function inOrder(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}

function shardsIn(placements: SettlingPlacement[]): Shape['shards'] {
  const shards = new Map<number, Shape['shards'][number]>()
  placements.forEach(({ local_shards }, ordinal) => {
    for (const { shard_id, shard_key } of local_shards) {
      refuseUnsafe(shard_key)
      const known = shards.get(shard_id)
      if (known !== undefined) known.nodes.push(ordinal)
      else {
        const key = shard_key == null ? {} : { shardKey: shard_key }
        shards.set(shard_id, { shardId: shard_id, ...key, nodes: [ordinal] })
      }
    }
  })
  return [...shards.values()].sort((one, other) => one.shardId - other.shardId)
}

/** A restore would make another key of it. */
function refuseUnsafe(key: string | number | null | undefined): void {
  if (typeof key === 'number' && !Number.isSafeInteger(key)) {
    throw new Rejected(`shard key ${key} is above 2^53, which a manifest cannot hold`)
  }
}

function keysOf(shards: Shape['shards']): ManifestCollection['shardKeys'] {
  const keys = new Map<string | number, number[]>()
  for (const { shardId, shardKey } of shards) {
    if (shardKey !== undefined) keys.set(shardKey, [...(keys.get(shardKey) ?? []), shardId])
  }
  return [...keys].map(([key, shardIds]) => ({ key, shardIds }))
}
