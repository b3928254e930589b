/**
 * The topology of a collection: its identity, its configuration, and which node holds which shard.
 * Snapshots of several nodes form one backup only if all of them were taken of the same topology
 * while every replica was Active.
 */
import { createHash } from 'node:crypto'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { LocalShard, ManifestCollection } from '../../crds/contract/manifest.ts'
import { canonicalConfig, canonicalIndexParams } from '../canonical-config.ts'
import type { BackupClusterInfo, BackupCollectionInfo } from '../clients/engine/responses.ts'
import { isTransient, poll } from '../retry.ts'
import { canonicalJson } from './objects.ts'
import { requireSameVersion, rejectIfDeleted, waitForConfirmedChanges } from './source-cluster.ts'
import { engineForPod, ordinals, snapshotsForPod, type RunContext } from './context.ts'

export interface Topology {
  /** Equal for two topologies whose snapshots fit together. */
  fingerprint: string
  /** Equal for two collections whose single-shard snapshots fit together. */
  identity: string
  engineVersion: string
  shards: ManifestCollection['shards']
  /** What the manifest records about the collection in addition to its snapshots. */
  manifestFields: Omit<ManifestCollection, 'name' | 'snapshots'>
}

const POLL_MS = 5_000

/**
 * Waits, within bounds, until every replica of every shard is Active and no shard is being
 * transferred.
 */
export async function waitForTopology(name: string, context: RunContext): Promise<Topology> {
  const { tools, retryBudget, progress } = context
  const { time, log, signal } = tools
  await waitForConfirmedChanges(context)
  const limitMs = retryBudget.nextLimitMs()
  const afterPause = () => progress.flush()
  return poll({ time, signal, pauseMs: POLL_MS, afterPause }, async (state) => {
    const current = await readTopology(name, context)
    const waitedMs = state.waitedMs()
    retryBudget.consume(waitedMs, time.monotonicMs())
    if (typeof current !== 'string') return current
    if (waitedMs >= limitMs)
      throw new EngineError(`${current} (waited ${Math.round(waitedMs / 1000)} s)`)
    log.info({ collection: name, reason: current }, 'waiting until every replica is Active')
    progress.report()
    return undefined
  })
}

/**
 * Waits, within bounds, until every replica is Active; returns whether the collection then has that
 * topology.
 */
export async function waitForSameTopology(
  topology: Topology,
  name: string,
  context: RunContext,
): Promise<boolean> {
  if ((await findTopologyChange(topology, name, context)) === undefined) return true
  return (await waitForTopology(name, context)).fingerprint === topology.fingerprint
}

/** The shards that a node holds. */
export function shardsOnNode({ shards }: Topology, ordinal: number): LocalShard[] {
  return shards
    .filter(({ nodes }) => nodes.includes(ordinal))
    .map(({ shardId, shardKey }) => ({ shardId, ...(shardKey !== undefined && { shardKey }) }))
}

/**
 * Equal for two streams of a shard that fit the same collection, regardless of the source node. `shards` are those of the
 * collection: which points belong to one depends on the others of its shard key, whose number the configuration does
 * not have.
 */
export function shardFingerprint(
  { shardId, shardKey }: LocalShard,
  { identity, shards }: { identity: string; shards: readonly LocalShard[] },
) {
  const ofKey = shards.filter((shard) => shardKey !== undefined && shard.shardKey === shardKey)
  const ids = ofKey.map((shard) => shard.shardId).toSorted((a, b) => a - b)
  return fingerprintOf([shardId, shardKey ?? null, identity, ...(ids.length > 1 ? [ids] : [])])
}

/** The current topology, or the reason why no snapshots can be taken of it. */
export async function readTopology(name: string, context: RunContext): Promise<Topology | string> {
  const { signal } = context.tools
  try {
    const views = await Promise.all(
      ordinals(context).map((node) => readNodeTopology(name, node, context)),
    )
    const instability = findInstability(views.map(({ placement }) => placement))
    if (instability !== undefined) return instability
    const first = snapshotsForPod(context, 0)
    const [collection, aliases] = await Promise.all([
      first.collection(name, signal),
      first.aliases(name, signal),
    ])
    return buildTopology(views, collection, aliases)
  } catch (error) {
    return transientReason(error, name, context)
  }
}

/**
 * Why the replicas on any node currently differ from the topology; undefined if they match. Makes
 * fewer calls than `readTopology`, because it runs before and after each snapshot.
 */
export async function findTopologyChange(
  { shards }: Topology,
  name: string,
  context: RunContext,
): Promise<string | undefined> {
  try {
    const { signal } = context.tools
    const requests = ordinals(context).map((node) =>
      snapshotsForPod(context, node).collectionCluster(name, signal),
    )
    const placements = await Promise.all(requests)
    const instability = findInstability(placements)
    if (instability !== undefined) return instability
    const isSame = canonicalJson(listShards(placements)) === canonicalJson(shards)
    return isSame ? undefined : 'its shards are on other nodes than before'
  } catch (error) {
    return transientReason(error, name, context)
  }
}

/** Returns the message of a transient error; throws a permanent one. */
async function transientReason(error: unknown, name: string, context: RunContext): Promise<string> {
  if (error instanceof EngineError && error.status === 404) await rejectIfDeleted(name, context)
  if (!isTransient(error)) throw error
  return error.message
}

/** A node's view of a collection; all nodes must agree. */
interface NodeTopology {
  node: number
  placement: BackupClusterInfo
  version: string
  uuid: string | undefined
}

async function readNodeTopology(
  name: string,
  node: number,
  context: RunContext,
): Promise<NodeTopology> {
  const { signal } = context.tools
  const snapshots = snapshotsForPod(context, node)
  const [placement, version, { uuid }] = await Promise.all([
    snapshots.collectionCluster(name, signal),
    engineForPod(context, node).version(signal),
    snapshots.identity(name, signal),
  ])
  return { node, placement, version, uuid }
}

/** Why no snapshots can be taken of replicas that are placed like this; undefined if they can. */
export function findInstability(placements: BackupClusterInfo[]): string | undefined {
  const nodes = new Map(placements.map(({ peer_id }, ordinal) => [peer_id, ordinal]))
  const formatNode = (peer: number) => {
    const ordinal = nodes.get(peer)
    return ordinal === undefined ? `peer ${peer}, which is none of the pods` : `node ${ordinal}`
  }
  for (const placement of placements) {
    const { peer_id, local_shards, remote_shards, shard_transfers } = placement
    const replicas = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
    for (const { shard_id, state, peer_id: peer } of replicas) {
      if (state !== 'Active') return `shard ${shard_id} on ${formatNode(peer)} is ${state}`
      if (!hasShard(placements[nodes.get(peer) ?? -1], shard_id)) {
        return `shard ${shard_id} is said to be on ${formatNode(peer)}, but is not there`
      }
    }
    const [transfer] = shard_transfers
    if (transfer !== undefined) {
      const { shard_id, from, to } = transfer
      return `shard ${shard_id} is being transferred from ${formatNode(from)} to ${formatNode(to)}`
    }
    if ((placement.resharding_operations ?? []).length > 0) {
      return `the number of shards is being changed on ${formatNode(peer_id)}`
    }
  }
  return findInconsistency(placements)
}

/** Each node must know exactly the replicas that the other nodes hold. */
function findInconsistency(placements: BackupClusterInfo[]): string | undefined {
  const replicasByNode = placements.map(listReplicas)
  const counts = replicasByNode.map(({ length }) => length)
  if (new Set(counts).size > 1) {
    return `the nodes do not agree on the copies there are: they know of ${counts.join(', ')}`
  }
  const differingNode = replicasByNode.findIndex(
    (replicas) => replicas.join() !== replicasByNode[0]?.join(),
  )
  return differingNode === -1
    ? undefined
    : `nodes 0 and ${differingNode} do not agree on which node holds which shard`
}

function listReplicas({ peer_id, local_shards, remote_shards }: BackupClusterInfo): string[] {
  const local = local_shards.map((shard) => ({ ...shard, peer_id }))
  return [...local, ...remote_shards]
    .map(({ shard_id, peer_id }) => `${shard_id}@${peer_id}`)
    .sort()
}

function hasShard(placement: BackupClusterInfo | undefined, shard: number): boolean {
  return placement?.local_shards.some(({ shard_id }) => shard_id === shard) ?? false
}

function buildTopology(
  views: NodeTopology[],
  collection: BackupCollectionInfo,
  aliases: string[],
): Topology {
  const shards = listShards(views.map(({ placement }) => placement))
  const { config, points_count } = collection
  const engineVersion = requireSameVersion(views)
  const payloadIndexes = readPayloadIndexes(collection)
  const uuid = requireSameUuid(views)
  const identity = collectionIdentity(collection, { uuid, version: engineVersion })
  return {
    fingerprint: fingerprintOf([shards, identity]),
    identity,
    engineVersion,
    shards,
    manifestFields: {
      engineVersion,
      config: canonicalConfig(config),
      payloadIndexes,
      aliases,
      shardKeys: groupByShardKey(shards),
      shards,
      ...(points_count != null && { pointsCount: points_count }),
    },
  }
}

/** Equal as long as the collection is the same one and its segments have the same format. */
export function collectionIdentity(
  collection: BackupCollectionInfo,
  { uuid, version }: { uuid: string | undefined; version: string },
): string {
  return fingerprintOf([
    uuid ?? null,
    version,
    canonicalConfig(collection.config),
    readPayloadIndexes(collection),
  ])
}

/** Without their point counts, which change all the time. */
function readPayloadIndexes({
  payload_schema,
}: BackupCollectionInfo): ManifestCollection['payloadIndexes'] {
  return Object.fromEntries(
    Object.entries(payload_schema).map(([field, { data_type, params }]) => [
      field,
      { dataType: data_type, ...(params != null && { params: canonicalIndexParams(params) }) },
    ]),
  )
}

/** A node that missed that the collection was dropped and recreated still holds the old one. */
export function requireSameUuid(
  views: { node: number; uuid: string | undefined }[],
): string | undefined {
  const [uuid, ...others] = new Set(views.map((view) => view.uuid))
  if (others.length === 0) return uuid
  const each = views.map(({ node, uuid: nodeUuid }) => `on node ${node} ${nodeUuid ?? 'none'}`)
  throw new EngineError(`the nodes do not hold the same collection: its uuid is ${each.join(', ')}`)
}

function fingerprintOf(parts: unknown[]): string {
  return createHash('sha256').update(canonicalJson(parts)).digest('hex').slice(0, 32)
}

function listShards(placements: BackupClusterInfo[]): Topology['shards'] {
  const shards = new Map<number, Topology['shards'][number]>()
  placements.forEach(({ local_shards }, ordinal) => {
    for (const { shard_id, shard_key } of local_shards) {
      rejectUnsafeShardKey(shard_key)
      const existing = shards.get(shard_id)
      if (existing !== undefined) existing.nodes.push(ordinal)
      else {
        const key = shard_key == null ? {} : { shardKey: shard_key }
        shards.set(shard_id, { shardId: shard_id, ...key, nodes: [ordinal] })
      }
    }
  })
  return [...shards.values()].sort((a, b) => a.shardId - b.shardId)
}

/** A restore would turn it into a different key. */
function rejectUnsafeShardKey(key: string | number | null | undefined): void {
  if (typeof key === 'number' && !Number.isSafeInteger(key)) {
    throw new Rejected(`shard key ${key} is above 2^53, which a manifest cannot hold`)
  }
}

function groupByShardKey(shards: Topology['shards']): ManifestCollection['shardKeys'] {
  const keys = new Map<string | number, number[]>()
  for (const { shardId, shardKey } of shards) {
    if (shardKey !== undefined) keys.set(shardKey, [...(keys.get(shardKey) ?? []), shardId])
  }
  return [...keys].map(([key, shardIds]) => ({ key, shardIds }))
}
