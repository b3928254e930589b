/**
 * Resharding of a collection, driven from outside: the engine keeps its stage and two hash rings, and does
 * nothing by itself. While it is in progress, and as long as points of other shards are left, each replica
 * has points of its own.
 */
import { isDeepStrictEqual } from 'node:util'
import { refuse } from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import type { Collection, Resharding, Shard, ShardKey, Transfer } from './collection.ts'
import { sameId, type Point } from './points.ts'
import { ownerOf, pointsIn, shardOf } from './shard-points.ts'
import { abortTransfer, transfersOf } from './transfers.ts'

const STAGES = ['migrating', 'read', 'write'] as const

/** Shards of a shard key by the former hash ring, and by the one that is introduced. */
export function rings(
  { shards, resharding: current }: Collection,
  key: ShardKey | undefined,
): { old: number[]; next: number[] } {
  const ids = shards.filter((shard) => shard.key === key).map(({ id }) => id)
  const resharding = current?.key === key ? current : undefined
  if (resharding === undefined || resharding.stage === 'write') {
    const ring =
      resharding?.direction === 'down' ? ids.filter((id) => id !== resharding.shard) : ids
    return { old: ring, next: ring }
  }
  const others = ids.filter((id) => id !== resharding.shard)
  return resharding.direction === 'up' ? { old: others, next: ids } : { old: ids, next: others }
}

export function startResharding(
  cluster: EngineCluster,
  collection: Collection,
  name: string,
  {
    uuid = '',
    direction,
    peer_id: peer,
    shard_key: key,
  }: {
    uuid?: string
    direction: 'up' | 'down'
    peer_id?: number
    shard_key?: ShardKey
  },
): void {
  if (!cluster.reshardingEnabled) {
    refuse(400, 'Bad request: resharding is only supported in Qdrant Cloud')
  }
  if (peer !== undefined && !cluster.peers().some(({ id }) => id === peer)) {
    refuse(400, `Bad request: Peer ${peer} does not exist`)
  }
  checkKey(collection, name, key)
  if (collection.resharding !== undefined) {
    const words = `resharding ReshardState is already in progress for collection ${name}`
    refuse(400, `Bad request: ${words}`)
  }
  const { shards } = collection
  const ofKey = shards.filter((one) => one.key === key)
  const last = Math.max(...ofKey.map(({ id }) => id))
  const shard = direction === 'up' ? Math.max(...shards.map(({ id }) => id)) + 1 : last
  if (direction === 'down' && ofKey.length === 1) {
    refuse(400, `Bad request: cannot remove shard ${last} by resharding down, it is the last shard`)
  }
  const [first] = cluster.peers()
  const chosen = peer ?? first?.id ?? 0
  // The switch may have been turned on after the collection was made.
  collection.hasRing = true
  collection.copies ??= contents(collection)
  const keyed = key === undefined ? {} : { key }
  collection.resharding = { uuid, direction, shard, peer: chosen, stage: 'migrating', ...keyed }
  if (direction === 'up') {
    const added = { id: shard, peers: [chosen], states: { [chosen]: 'Resharding' }, ...keyed }
    collection.shards = [...shards, added]
    collection.copies[keyOf(shard, chosen)] = []
    countShards(collection, shard + 1)
  }
  cluster.changes += 1
}

function checkKey(collection: Collection, name: string, key: ShardKey | undefined): void {
  const isCustom = collection.config.params['sharding_method'] === 'custom'
  if (isCustom && key === undefined) {
    refuse(400, 'Bad request: must specify shard key on collection with custom sharding')
  }
  if (key !== undefined && !collection.shards.some((shard) => shard.key === key)) {
    refuse(400, `Bad request: sharding key "${key}" does not exist for collection ${name}`)
  }
}

/** Under custom sharding the number in the config is that of a new shard key. */
function countShards({ config }: Collection, count: number): void {
  if (config.params['sharding_method'] !== 'custom') config.params['shard_number'] = count
}

/** Its target gets what belongs to it, and from now on what is written. */
export function copyStreamed(
  collection: Collection,
  { from, to, shard, toShard }: { from: number; to: number; shard: number; toShard: number },
): void {
  const { copies = {} } = collection
  const { next } = rings(collection, collection.resharding?.key)
  const key = keyOf(toShard, to)
  const present = copies[key] ?? []
  const moved = (copies[keyOf(shard, from)] ?? []).filter(
    (point) => ownerOf(point, next) === toShard && !present.some((one) => sameId(one.id, point.id)),
  )
  copies[key] = [...present, ...moved]
}

/** A replica that is copied as a whole has the points of its source. */
export function copyReplica({ copies }: Collection, { id }: Shard, { from, to }: Transfer): void {
  if (copies !== undefined) copies[keyOf(id, to)] = [...(copies[keyOf(id, from)] ?? [])]
}

export function finishMigration(
  cluster: EngineCluster,
  collection: Collection,
  { shard_id: id, peer_id: peer }: { shard_id?: number; peer_id?: number },
): void {
  const { direction, shard: last, peer: driver } = required(collection)
  const shard = collection.shards.find((one) => one.id === (id ?? last))
  const holder = peer ?? driver
  const expected = direction === 'up' ? 'Resharding' : 'ReshardingScaleDown'
  const state = shard?.states?.[holder] ?? 'Active'
  if (shard === undefined || state !== expected) {
    const words = `Replica ${holder} of shard ${shard?.id ?? id} has state Some(${state}), but expected Some(${expected})`
    refuse(400, `Wrong input: ${words}`)
  }
  delete shard.states?.[holder]
  cluster.changes += 1
}

/** Repeating a commit changes nothing; one that is too early is refused. */
export function commit(
  cluster: EngineCluster,
  collection: Collection,
  stage: 'read' | 'write',
): void {
  const resharding = required(collection)
  const [present, asked] = [STAGES.indexOf(resharding.stage), STAGES.indexOf(stage)]
  cluster.changes += 1
  if (present >= asked) return
  if (present < asked - 1) refuseStage(resharding.stage, 'read')
  if (stage === 'read') collection.cleaned = []
  collection.resharding = { ...resharding, stage }
  showPoints(collection)
}

export function finishResharding(cluster: EngineCluster, collection: Collection): void {
  const { direction, shard: last, stage } = required(collection)
  if (stage !== 'write') refuseStage(stage, 'write')
  if (direction === 'down') {
    collection.shards = collection.shards.filter(({ id }) => id !== last)
    forgetCopies(collection, last)
    countShards(collection, last)
  }
  delete collection.resharding
  showPoints(collection)
  settle(collection)
  cluster.changes += 1
}

export function abortResharding(cluster: EngineCluster, collection: Collection): void {
  const { direction, shard: last, stage, peer, key: shardKey } = required(collection)
  if (stage !== 'migrating') {
    const name = `${peer}/${last}/${shardKey === undefined ? 'None' : `Some(${JSON.stringify(shardKey)})`}`
    const words = `can't abort resharding ${name}, because read hash ring has been committed already, resharding must be completed`
    refuse(400, `Bad request: ${words}`)
  }
  const { old } = rings(collection, shardKey)
  if (direction === 'up') {
    collection.shards = collection.shards.filter(({ id }) => id !== last)
    forgetCopies(collection, last)
    countShards(collection, last)
  }
  delete collection.resharding
  for (const shard of collection.shards.filter((one) => one.key === shardKey)) {
    shard.arriving = (shard.arriving ?? []).filter(({ fromShard }) => fromShard === undefined)
    shard.states = Object.fromEntries(
      Object.entries(shard.states ?? {}).filter(([, state]) => state !== 'ReshardingScaleDown'),
    )
    for (const peer of shard.peers) {
      const key = keyOf(shard.id, peer)
      const { copies } = collection
      if (copies?.[key] !== undefined) {
        copies[key] = copies[key].filter((point) => ownerOf(point, old) === shard.id)
      }
    }
  }
  showPoints(collection)
  settle(collection)
  cluster.changes += 1
}

/**
 * A replica misses an update and is called Dead. That ends its transfers, and the resharding whose points it gets or
 * whose transfer it takes part in.
 */
export function killReplica(
  cluster: EngineCluster,
  collection: Collection,
  { shard: id, peer }: { shard: number; peer: number },
): void {
  const find = () => collection.shards.find((one) => one.id === id)
  const state = find()?.states?.[peer] ?? 'Active'
  const isReceiver = state === 'Resharding' || state === 'ReshardingScaleDown'
  const running = collection.shards.flatMap((shard) =>
    transfersOf(shard).map((transfer) => ({ shard, transfer })),
  )
  if (isReceiver && collection.resharding !== undefined) abortResharding(cluster, collection)
  const shard = find()
  if (shard === undefined) return
  shard.states = { ...shard.states, [peer]: 'Dead' }
  cluster.changes += 1
  for (const { shard: target, transfer } of running) {
    const isPart =
      (transfer.to === peer && target.id === id) ||
      (transfer.from === peer && (transfer.fromShard ?? target.id) === id)
    if (isPart && transfersOf(target).includes(transfer)) abortTransfer(cluster, target, transfer)
  }
}

/**
 * What becomes of these shards after a write while nodes are down; a shard of which a replica stays in service. The
 * engine names the state of a replica when it calls it Dead. The first call ends a resharding, which makes other
 * replicas that got points Active again: calls that name their former state are without effect.
 */
export function killMissing(
  cluster: EngineCluster,
  collection: Collection,
  shards: ReadonlySet<Shard>,
): number | undefined {
  const away = awayPeers(cluster)
  const missed = [...shards].flatMap((shard) => {
    const peers = shard.peers.filter((peer) => away.has(peer))
    const replicas = peers.map((peer) => ({ shard: shard.id, peer, state: stateOf(shard, peer) }))
    if (peers.length < shard.peers.length) return replicas
    // The last replica that is read is never called Dead; that of an added shard is not read yet.
    return replicas.filter(({ state }) => state === 'Resharding')
  })
  for (const { shard: id, peer, state } of missed) {
    const shard = collection.shards.find((one) => one.id === id)
    if (state === 'Dead' || shard === undefined || stateOf(shard, peer) !== state) continue
    killReplica(cluster, collection, { shard: id, peer })
  }
  return missed.find(({ state }) => state === 'ReshardingScaleDown')?.shard
}

function stateOf({ states }: Shard, peer: number): string {
  return states?.[peer] ?? 'Active'
}

function awayPeers(cluster: EngineCluster): Set<number> {
  const away = cluster.peers().filter(({ ordinal }) => cluster.away.has(ordinal))
  return new Set(away.map(({ id }) => id))
}

/** Shards that take part in the write of these points: by both hash rings. */
export function shardsOf(
  collection: Collection,
  points: readonly Pick<Point, 'id' | 'shard_key'>[],
): Set<Shard> {
  const owners = points.flatMap((point) => {
    if (collection.resharding === undefined) return [shardOf(collection, point)]
    const { old, next } = rings(collection, point.shard_key)
    const ids = [ownerOf(point, old), ownerOf(point, next)]
    return collection.shards.filter(({ id }) => ids.includes(id))
  })
  return new Set(owners.filter((shard) => shard !== undefined))
}

/** A task that is complete is not started again before the next commit of the read ring. */
export function cleanShard(collection: Collection, shard: Shard, peer: number): void {
  const key = keyOf(shard.id, peer)
  const { copies, cleaned = [] } = collection
  if (cleaned.includes(key) || copies?.[key] === undefined) return
  const { next } = rings(collection, shard.key)
  copies[key] = copies[key].filter((point) => ownerOf(point, next) === shard.id)
  collection.cleaned = [...cleaned, key]
  settle(collection)
}

/** Points of one replica that belong to a shard, by the larger of the two hash rings. */
export function belonging(collection: Collection, points: Point[], shard: number): Point[] {
  const key = collection.shards.find(({ id }) => id === shard)?.key
  const { old, next } = rings(collection, key)
  const ring = next.length > old.length ? next : old
  return points.filter((point) => ownerOf(point, ring) === shard)
}

/**
 * What is written of these points. While a shard is added to one shard key, and reads use it, the engine does not
 * create points of other shard keys whose ids belong to that shard; it acknowledges them.
 */
export function acceptedWrites(collection: Collection, written: readonly Point[]): Point[] {
  const { resharding, points } = collection
  if (resharding === undefined || resharding.direction === 'down') return [...written]
  if (resharding.stage === 'migrating') return [...written]
  const { next } = rings(collection, resharding.key)
  const exists = ({ id, shard_key: key }: Point) =>
    points.some((one) => one.shard_key === key && sameId(one.id, id))
  return written.filter(
    (point) =>
      point.shard_key === resharding.key ||
      ownerOf(point, next) !== resharding.shard ||
      exists(point),
  )
}

/** Writes go to both rings; what a former shard has lost by a commit is not created there again. */
export function writeCopies(
  cluster: EngineCluster,
  collection: Collection,
  written: readonly Point[],
): void {
  const { copies, shards, resharding } = collection
  if (copies === undefined) return
  const away = awayPeers(cluster)
  for (const point of written) {
    const { old, next } = rings(collection, point.shard_key)
    for (const shard of shards) {
      const isSender = ownerOf(point, old) === shard.id && ownerOf(point, next) !== shard.id
      if (ownerOf(point, old) !== shard.id && ownerOf(point, next) !== shard.id) continue
      for (const peer of shard.peers) {
        if (away.has(peer)) continue
        const key = keyOf(shard.id, peer)
        const present = copies[key] ?? []
        const others = present.filter(({ id }) => !sameId(id, point.id))
        const updatesOnly =
          isSender && resharding?.stage === 'read' && resharding.direction === 'up'
        if (updatesOnly && others.length === present.length) continue
        copies[key] = [...others, point]
      }
    }
  }
}

export function deleteCopies(
  cluster: EngineCluster,
  { copies }: Collection,
  isDeleted: (point: Point) => boolean,
): void {
  const away = awayPeers(cluster)
  for (const [key, points] of Object.entries(copies ?? {})) {
    if (copies === undefined || away.has(Number(key.split('/')[1]))) continue
    copies[key] = points.filter((point) => !isDeleted(point))
  }
}

/** A shard none of whose replicas takes part in a write: the write fails, also for a client that does not wait. */
export function unreachable(cluster: EngineCluster, shards: ReadonlySet<Shard>): Shard | undefined {
  const away = awayPeers(cluster)
  return [...shards].find(({ peers }) => peers.length > 0 && peers.every((peer) => away.has(peer)))
}

function contents(collection: Collection): Record<string, Point[]> {
  return Object.fromEntries(
    collection.shards.flatMap((shard) =>
      shard.peers.map((peer) => [keyOf(shard.id, peer), pointsIn(collection, shard)]),
    ),
  )
}

/** What a read of the collection finds: on the shards that it asks, each point where the ring has it. */
function showPoints(collection: Collection): void {
  const { copies, shards, resharding } = collection
  if (copies === undefined) return
  collection.points = shards.flatMap((shard) => {
    const { id, peers, key } = shard
    const { old, next } = rings(collection, key)
    const ring = resharding === undefined || resharding.stage !== 'migrating' ? next : old
    const peer = peers.find((one) => stateOf(shard, one) !== 'Dead') ?? 0
    const held = ring.includes(id) ? (copies[keyOf(id, peer)] ?? []) : []
    return held.filter((point) => ownerOf(point, ring) === id)
  })
}

/** Without points of other shards and missed writes, each replica has the points of its shard again. */
function settle(collection: Collection): void {
  const { copies, shards } = collection
  if (collection.resharding !== undefined || copies === undefined) return
  const isClean = shards.every((shard) => {
    const { next } = rings(collection, shard.key)
    const all = shard.peers.map((peer) => copies[keyOf(shard.id, peer)] ?? [])
    return all.every(
      (held) =>
        held.every((point) => ownerOf(point, next) === shard.id) &&
        isDeepStrictEqual(byId(held), byId(all[0] ?? [])),
    )
  })
  if (isClean) delete collection.copies
}

function byId(points: readonly Point[]): Map<string, Point> {
  return new Map(points.map((point) => [String(point.id), point]))
}

function forgetCopies({ copies }: Collection, shard: number): void {
  for (const key of Object.keys(copies ?? {})) {
    if (key.startsWith(`${shard}/`)) delete copies?.[key]
  }
}

/** The engine's names of its stages. */
const STAGE_NAMES = {
  migrating: 'MigratingPoints',
  read: 'ReadHashRingCommitted',
  write: 'WriteHashRingCommitted',
}

function refuseStage(stage: Resharding['stage'], expected: Resharding['stage']): never {
  const words = `expected resharding stage ${STAGE_NAMES[expected]}, but resharding is at stage ${STAGE_NAMES[stage]}`
  refuse(400, `Bad request: ${words}`)
}

/**
 * What a count of the collection counts: each shard counts all that it holds, also what has moved. A shard that is added
 * takes part from the commit of the read ring on, one that is removed until the end.
 */
export function countedPoints({ copies, shards, resharding, points }: Collection): Point[] {
  if (copies === undefined) return points
  const isAdded = resharding?.direction === 'up' && resharding.stage === 'migrating'
  return shards.flatMap(({ id, peers }) =>
    isAdded && id === resharding.shard ? [] : (copies[keyOf(id, peers[0] ?? 0)] ?? []),
  )
}

function required({ resharding }: Collection): Resharding {
  return resharding ?? refuse(400, 'Bad request: resharding is not in progress for collection')
}

export function keyOf(shard: number, peer: number): string {
  return `${shard}/${peer}`
}
