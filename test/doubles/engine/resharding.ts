/**
 * Resharding of a collection, driven from outside: the engine keeps its stage and two hash rings, and does
 * nothing by itself. While it is in progress, and as long as points of other shards are left, each replica
 * has points of its own.
 */
import { refuse } from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import type { Collection, Resharding, Shard, Transfer } from './collection.ts'
import { sameId, type Point } from './points.ts'
import { ownerOf, pointsIn } from './shard-points.ts'

const STAGES = ['migrating', 'read', 'write'] as const

/** Shards by the former hash ring, and by the one that is introduced. */
export function rings({ shards, resharding }: Collection): { old: number[]; next: number[] } {
  const ids = shards.map(({ id }) => id)
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
    shard_key?: unknown
  },
): void {
  if (!cluster.reshardingEnabled) {
    refuse(400, 'Bad request: resharding is only supported in Qdrant Cloud')
  }
  if (peer !== undefined && !cluster.peers().some(({ id }) => id === peer)) {
    refuse(400, `Bad request: Peer ${peer} does not exist`)
  }
  if (key !== undefined || collection.config.params['sharding_method'] === 'custom') {
    refuse(400, 'Bad request: the double knows resharding without shard keys only')
  }
  if (collection.resharding !== undefined) {
    const words = `resharding ReshardState is already in progress for collection ${name}`
    refuse(400, `Bad request: ${words}`)
  }
  const { shards } = collection
  const last = Math.max(...shards.map(({ id }) => id))
  const shard = direction === 'up' ? last + 1 : last
  if (direction === 'down' && shards.length === 1) {
    refuse(400, `Bad request: cannot remove shard ${last} by resharding down, it is the last shard`)
  }
  const [first] = cluster.peers()
  const chosen = peer ?? first?.id ?? 0
  // The switch may have been turned on after the collection was made.
  collection.hasRing = true
  collection.copies ??= contents(collection)
  collection.resharding = { uuid, direction, shard, peer: chosen, stage: 'migrating' }
  if (direction === 'up') {
    const added = { id: shard, peers: [chosen], states: { [chosen]: 'Resharding' } }
    collection.shards = [...shards, added]
    collection.copies[keyOf(shard, chosen)] = []
    collection.config.params['shard_number'] = shard + 1
  }
  cluster.changes += 1
}

/** Its target gets what belongs to it, and from now on what is written. */
export function copyStreamed(
  collection: Collection,
  { from, to, shard, toShard }: { from: number; to: number; shard: number; toShard: number },
): void {
  const { copies = {} } = collection
  const { next } = rings(collection)
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
  if (present < asked - 1) refuse(400, `Bad request: expected resharding stage before ${stage}`)
  if (stage === 'read') collection.cleaned = []
  collection.resharding = { ...resharding, stage }
  showPoints(collection)
}

export function finishResharding(cluster: EngineCluster, collection: Collection): void {
  const { direction, shard: last, stage } = required(collection)
  if (stage !== 'write') refuse(400, 'Bad request: expected write hash ring to be committed')
  if (direction === 'down') {
    collection.shards = collection.shards.filter(({ id }) => id !== last)
    forgetCopies(collection, last)
    collection.config.params['shard_number'] = last
  }
  delete collection.resharding
  showPoints(collection)
  settle(collection)
  cluster.changes += 1
}

export function abortResharding(cluster: EngineCluster, collection: Collection): void {
  const { direction, shard: last, stage } = required(collection)
  if (stage !== 'migrating') {
    const words =
      "can't abort resharding, because read hash ring has been committed already, resharding must be completed"
    refuse(400, `Bad request: ${words}`)
  }
  const { old } = rings(collection)
  if (direction === 'up') {
    collection.shards = collection.shards.filter(({ id }) => id !== last)
    forgetCopies(collection, last)
    collection.config.params['shard_number'] = last
  }
  delete collection.resharding
  for (const shard of collection.shards) {
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

/** A task that is complete is not started again before the next commit of the read ring. */
export function cleanShard(collection: Collection, shard: Shard, peer: number): void {
  const key = keyOf(shard.id, peer)
  const { copies, cleaned = [] } = collection
  if (cleaned.includes(key) || copies?.[key] === undefined) return
  const { next } = rings(collection)
  copies[key] = copies[key].filter((point) => ownerOf(point, next) === shard.id)
  collection.cleaned = [...cleaned, key]
  settle(collection)
}

/** Points of one replica that belong to a shard, by the larger of the two hash rings. */
export function belonging(collection: Collection, points: Point[], shard: number): Point[] {
  const { old, next } = rings(collection)
  const ring = next.length > old.length ? next : old
  return points.filter((point) => ownerOf(point, ring) === shard)
}

/** Writes go to both rings; what a former shard has lost by a commit is not created there again. */
export function writeCopies(collection: Collection, written: readonly Point[]): void {
  const { copies, shards, resharding } = collection
  if (copies === undefined) return
  const { old, next } = rings(collection)
  for (const point of written) {
    for (const shard of shards) {
      const isSender = ownerOf(point, old) === shard.id && ownerOf(point, next) !== shard.id
      if (ownerOf(point, old) !== shard.id && ownerOf(point, next) !== shard.id) continue
      for (const peer of shard.peers) {
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

export function deleteCopies({ copies }: Collection, isDeleted: (point: Point) => boolean): void {
  for (const [key, points] of Object.entries(copies ?? {})) {
    if (copies !== undefined) copies[key] = points.filter((point) => !isDeleted(point))
  }
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
  const { old, next } = rings(collection)
  const ring = resharding === undefined || resharding.stage !== 'migrating' ? next : old
  collection.points = shards
    .filter(({ id }) => ring.includes(id))
    .flatMap(({ id, peers }) =>
      (copies[keyOf(id, peers[0] ?? 0)] ?? []).filter((point) => ownerOf(point, ring) === id),
    )
}

/** Without points of other shards, each replica has those of its shard again. */
function settle(collection: Collection): void {
  const { copies, shards } = collection
  if (collection.resharding !== undefined || copies === undefined) return
  const isClean = shards.every((shard) =>
    shard.peers.every((peer) => {
      const held = copies[keyOf(shard.id, peer)] ?? []
      return held.every(
        (point) =>
          ownerOf(
            point,
            shards.map(({ id }) => id),
          ) === shard.id,
      )
    }),
  )
  if (isClean) delete collection.copies
}

function forgetCopies({ copies }: Collection, shard: number): void {
  for (const key of Object.keys(copies ?? {})) {
    if (key.startsWith(`${shard}/`)) delete copies?.[key]
  }
}

function required({ resharding }: Collection): Resharding {
  return resharding ?? refuse(400, 'Bad request: resharding is not in progress for collection')
}

export function keyOf(shard: number, peer: number): string {
  return `${shard}/${peer}`
}
