/**
 * The shape of a collection: which one it is, what it is, and which node holds which shard. Snapshots of
 * several nodes are one backup only when all of them were taken of one shape, and every copy was Active.
 */
import { createHash } from 'node:crypto'
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { LocalShard, ManifestCollection } from '../../crds/manifest.ts'
import type { SettlingPlacement, WholeCollection } from '../clients/engine-snapshots.ts'
import { isPassing } from '../patience.ts'
import { canonical } from './canonical.ts'
import { oneVersion, refuseDeleted } from './source.ts'
import { engineOn, ordinals, snapshotsOn, type Work } from './work.ts'

export interface Shape {
  /** Equal for two shapes whose snapshots fit together. */
  fingerprint: string
  /** Equal for two collections of which snapshots of single shards fit together. */
  identity: string
  engineVersion: string
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

/** Waits, within bounds, until every copy is Active; whether the collection is of that shape then. */
export async function isSettled(shape: Shape, name: string, work: Work): Promise<boolean> {
  if ((await whyUnlike(shape, name, work)) === undefined) return true
  return (await settledShape(name, work)).fingerprint === shape.fingerprint
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
  { identity }: Pick<Shape, 'identity'>,
) {
  return printOf([shardId, shardKey ?? null, identity])
}

/** The shape there is now, or why it is not one to take snapshots of. */
export async function look(name: string, work: Work): Promise<Shape | string> {
  const { signal } = work.tools
  try {
    const views = await Promise.all(ordinals(work).map((node) => viewOf(name, node, work)))
    const problem = unsettled(views.map(({ placement }) => placement))
    if (problem !== undefined) return problem
    const first = snapshotsOn(work, 0)
    const [collection, aliases] = await Promise.all([
      first.collection(name, signal),
      first.aliases(name, signal),
    ])
    return shapeOf(views, collection, aliases)
  } catch (error) {
    return passing(error, name, work)
  }
}

/**
 * Why the copies are not as the shape says on every node, at this moment; undefined where they are. It
 * asks less than `look`, for it is asked around each snapshot.
 */
export async function whyUnlike(
  { shards }: Shape,
  name: string,
  work: Work,
): Promise<string | undefined> {
  try {
    const { signal } = work.tools
    const asked = ordinals(work).map((node) => snapshotsOn(work, node).placement(name, signal))
    const placements = await Promise.all(asked)
    const problem = unsettled(placements)
    if (problem !== undefined) return problem
    const isSame = canonical(shardsIn(placements)) === canonical(shards)
    return isSame ? undefined : 'its shards are on other nodes than before'
  } catch (error) {
    return passing(error, name, work)
  }
}

/** What passes is told in words; what is for good is thrown. */
async function passing(error: unknown, name: string, work: Work): Promise<string> {
  if (error instanceof EngineError && error.status === 404) await refuseDeleted(name, work)
  if (!isPassing(error)) throw error
  return error.message
}

/** What a node says of a collection, of which every node must say the same. */
interface View {
  node: number
  placement: SettlingPlacement
  version: string
  uuid: string | undefined
}

async function viewOf(name: string, node: number, work: Work): Promise<View> {
  const { signal } = work.tools
  const snapshots = snapshotsOn(work, node)
  const [placement, version, { uuid }] = await Promise.all([
    snapshots.placement(name, signal),
    engineOn(work, node).version(signal),
    snapshots.identity(name, signal),
  ])
  return { node, placement, version, uuid }
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

/** Each node must know of the copies that the others hold, and of no others. */
function disagreement(placements: SettlingPlacement[]): string | undefined {
  const known = placements.map(copiesIn)
  const counts = known.map(({ length }) => length)
  if (new Set(counts).size > 1) {
    return `the nodes do not agree on the copies there are: they know of ${counts.join(', ')}`
  }
  const other = known.findIndex((copies) => copies.join() !== known[0]?.join())
  return other === -1
    ? undefined
    : `nodes 0 and ${other} do not agree on which node holds which shard`
}

function copiesIn({ peer_id, local_shards, remote_shards }: SettlingPlacement): string[] {
  const here = local_shards.map((shard) => ({ ...shard, peer_id }))
  return [...here, ...remote_shards].map(({ shard_id, peer_id }) => `${shard_id}@${peer_id}`).sort()
}

function holds(placement: SettlingPlacement | undefined, shard: number): boolean {
  return placement?.local_shards.some(({ shard_id }) => shard_id === shard) ?? false
}

function shapeOf(views: View[], collection: WholeCollection, aliases: string[]): Shape {
  const shards = shardsIn(views.map(({ placement }) => placement))
  const { config, points_count } = collection
  const engineVersion = oneVersion(views)
  const payloadIndexes = indexesIn(collection)
  const uuid = oneUuid(views)
  const identity = identityOf(collection, { uuid, version: engineVersion })
  return {
    fingerprint: printOf([shards, identity]),
    identity,
    engineVersion,
    shards,
    described: {
      engineVersion,
      config,
      payloadIndexes,
      aliases,
      shardKeys: keysOf(shards),
      shards,
      ...(points_count != null && { pointsCount: points_count }),
    },
  }
}

/** Equal as long as the collection is the same one, and what is in its segments is of the same form. */
export function identityOf(
  collection: WholeCollection,
  { uuid, version }: { uuid: string | undefined; version: string },
): string {
  return printOf([uuid ?? null, version, collection.config, indexesIn(collection)])
}

/** Their counts of points change all the time. */
function indexesIn({ payload_schema }: WholeCollection): ManifestCollection['payloadIndexes'] {
  return Object.fromEntries(
    Object.entries(payload_schema).map(([field, { data_type, params }]) => [
      field,
      { dataType: data_type, ...(params != null && { params }) },
    ]),
  )
}

/** A node that missed that the collection was dropped and created again holds the old one. */
export function oneUuid(views: { node: number; uuid: string | undefined }[]): string | undefined {
  const [uuid, ...others] = new Set(views.map((view) => view.uuid))
  if (others.length === 0) return uuid
  const each = views.map(({ node, uuid: own }) => `on node ${node} ${own ?? 'none'}`)
  throw new EngineError(`the nodes do not hold the same collection: its uuid is ${each.join(', ')}`)
}

function printOf(parts: unknown[]): string {
  return createHash('sha256').update(canonical(parts)).digest('hex').slice(0, 32)
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
