/** POST /collections/{c}/cluster: transfers of shards, and dropping replicas. */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { ChangeCluster } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Collection, Shard } from '../collection.ts'
import { readBody } from '../read.ts'
import {
  abortResharding,
  commit,
  copyReplica,
  copyStreamed,
  finishMigration,
  finishResharding,
  startResharding,
} from '../resharding.ts'
import { abortTransfer, agreeOn, startTransfer, transfersOf } from '../transfers.ts'
import { found, timeoutOf } from './collections.ts'

interface Move {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
  method?: string
  to_shard_id?: number
}

interface Change {
  replicate_shard?: Move
  move_shard?: Move
  abort_transfer?: Move
  drop_replica?: { shard_id: number; peer_id: number }
  start_resharding?: Parameters<typeof startResharding>[3]
  finish_migrating_points?: Parameters<typeof finishMigration>[2]
  commit_read_hash_ring?: object
  commit_write_hash_ring?: object
  finish_resharding?: object
  abort_resharding?: object
}

export function changeReplicas(
  request: EngineRequest,
  cluster: EngineCluster,
  name: string,
): EngineAnswer {
  timeoutOf(request)
  const collection = found(cluster, name)
  const { shards } = collection
  const body = readBody(ChangeCluster, request.body) as Change
  if (changeResharding(cluster, collection, { name, body })) return ok(true)
  const {
    replicate_shard: copy,
    move_shard: move,
    abort_transfer: abort,
    drop_replica: drop,
  } = body
  const { shard_id: id = -1 } = copy ?? move ?? abort ?? drop ?? {}
  const shard = shards.find((one) => one.id === id)
  const way = copy ?? move
  if (abort !== undefined) return abortKnown(cluster, collection, { name, ...abort })
  if (shard === undefined) return refuse(400, `Bad request: Shard ${id} of ${name} does not exist`)
  if (way?.method === 'resharding_stream_records') {
    startStream(cluster, collection, { shard, way })
  } else if (way !== undefined) {
    start(cluster, collection, { shard, ...way, sync: copy !== undefined })
  } else if (drop !== undefined) dropReplica(cluster, collection, { shard, peer: drop.peer_id })
  return ok(true)
}

/** Whether the body was one of resharding. */
function changeResharding(
  cluster: EngineCluster,
  collection: Collection,
  { name, body }: { name: string; body: Change },
): boolean {
  if (body.start_resharding !== undefined) {
    startResharding(cluster, collection, name, body.start_resharding)
  } else if (body.finish_migrating_points !== undefined) {
    finishMigration(cluster, collection, body.finish_migrating_points)
  } else if (body.commit_read_hash_ring !== undefined) commit(cluster, collection, 'read')
  else if (body.commit_write_hash_ring !== undefined) commit(cluster, collection, 'write')
  else if (body.finish_resharding !== undefined) finishResharding(cluster, collection)
  else if (body.abort_resharding !== undefined) abortResharding(cluster, collection)
  else return false
  return true
}

/** The source may be on the same node as the target, which is another shard. */
function startStream(
  cluster: EngineCluster,
  collection: Collection,
  { shard, way }: { shard: Shard; way: Move },
): void {
  const { from_peer_id: from, to_peer_id: to, to_shard_id: toShard = -1 } = way
  for (const peer of [to, from]) checkPeer(cluster, peer)
  if (collection.resharding === undefined) {
    const words = "can't start resharding transfer, because resharding is not in progress"
    refuse(400, `Wrong input: ${words}`)
  }
  const state = shard.states?.[from] ?? 'Active'
  if (state !== 'Active' && state !== 'ReshardingScaleDown') {
    refuse(400, `Bad request: Shard ${shard.id} is not active on peer ${from}`)
  }
  const target =
    collection.shards.find((one) => one.id === toShard) ??
    refuse(500, `Service internal error: Destination shard ${shard.id} does not exist`)
  const running = collection.shards
    .flatMap((one) => transfersOf(one))
    .filter(({ fromShard }) => fromShard === shard.id)
  const conflict = running.find((one) =>
    [one.from, one.to].some((peer) => [from, to].includes(peer)),
  )
  if (conflict !== undefined) {
    const words = `is already involved in transfer ${conflict.from} -> ${conflict.to}`
    refuse(400, `Bad request: Shard ${shard.id} ${words}`)
  }
  if (target.states?.[to] === 'Dead') {
    const words = `because destination shard ${to}/${toShard} is dead`
    refuse(400, `Bad request: Resharding shard transfer can't be started, ${words}`)
  }
  const kind = collection.resharding.direction === 'up' ? 'Resharding' : 'ReshardingScaleDown'
  target.states = { ...target.states, [to]: kind }
  startTransfer(cluster, target, {
    ...{ from, to, state: kind, sync: true, fromShard: shard.id },
    abort: () => collection.resharding && abortResharding(cluster, collection),
  })
  copyStreamed(collection, { from, to, shard: shard.id, toShard })
}

function start(
  cluster: EngineCluster,
  collection: Collection,
  {
    shard,
    from_peer_id: from,
    to_peer_id: to,
    method = 'snapshot',
    sync,
  }: Move & { shard: Shard; sync: boolean },
): void {
  if (from === to) {
    const part = sync ? 'replicate_shard' : 'move_shard'
    const words = `cannot transfer shard to itself, "to_peer_id" must be different than ${from} in "from_peer_id"`
    refuse(422, `Validation error in JSON body: [${part}.to_peer_id: ${words}]`)
  }
  for (const peer of [to, from]) checkPeer(cluster, peer)
  const transfers = transfersOf(shard)
  if (!isActive(shard, from)) {
    refuse(400, `Bad request: Shard ${shard.id} is not active on peer ${from}`)
  }
  const conflict = transfers.find((one) =>
    [one.from, one.to].some((peer) => [from, to].includes(peer)),
  )
  if (conflict !== undefined) {
    const words = `is already involved in transfer ${conflict.from} -> ${conflict.to}`
    refuse(400, `Bad request: Shard ${shard.id} ${words}`)
  }
  const state = method === 'stream_records' ? 'Partial' : 'Recovery'
  startTransfer(cluster, shard, { from, to, state, sync })
  copyReplica(collection, shard, { from, to, state, sync, until: 0 })
}

/** A transfer of a resharding is found only by both of its shards. */
function abortKnown(
  cluster: EngineCluster,
  { shards }: Collection,
  { name, shard_id, to_shard_id, from_peer_id: from, to_peer_id: to }: Move & { name: string },
): EngineAnswer {
  const shard = shards.find(({ id }) => id === (to_shard_id ?? shard_id))
  const fromShard = to_shard_id === undefined ? undefined : shard_id
  const transfers = shard === undefined ? [] : transfersOf(shard)
  const transfer = transfers.find(
    (one) => one.from === from && one.to === to && one.fromShard === fromShard,
  )
  if (shard === undefined || transfer === undefined) {
    const words = `Shard transfer ${from} -> ${to} for collection ${name}:${shard_id} does not exist`
    return refuse(404, `Not found: ${words}`)
  }
  abortTransfer(cluster, shard, transfer)
  return ok(true)
}

function checkPeer(cluster: EngineCluster, peer: number): void {
  if (cluster.peers().some(({ id }) => id === peer)) return
  refuse(400, `Bad request: Peer ${peer} does not exist`)
}

function isActive(shard: Shard, peer: number): boolean {
  if (!shard.peers.includes(peer) || transfersOf(shard).some(({ to }) => to === peer)) return false
  return (shard.states?.[peer] ?? 'Active') === 'Active'
}

function dropReplica(
  cluster: EngineCluster,
  { shards }: Collection,
  { shard, peer }: { shard: Shard; peer: number },
): void {
  if (Object.values(shard.phantoms ?? {}).some((peers) => peers.includes(peer))) {
    delete shard.phantoms
    return
  }
  checkPeer(cluster, peer)
  if (!shard.peers.includes(peer)) {
    refuse(400, `Bad request: Peer ${peer} has no replica of shard ${shard.id}`)
  }
  const others = shard.peers.filter((other) => other !== peer)
  const isLastActive = isActive(shard, peer) && !others.some((other) => isActive(shard, other))
  if (others.length === 0 || isLastActive) {
    const words = `Shard ${shard.id} must have at least one active replica after removing ${peer}`
    refuse(400, `Bad request: ${words}`)
  }
  // Engines before 1.16.3 abort the transfers of all shards of the collection.
  for (const one of cluster.isSince('1.16.3') ? [shard] : shards) {
    const related = transfersOf(one).filter(({ from, to }) => from === peer || to === peer)
    for (const transfer of related) abortTransfer(cluster, one, transfer)
  }
  // A node that joins later applies this drop as an engine before 1.16.3 does.
  for (const one of shards) {
    const copies = transfersOf(one).filter(({ from, to }) => from === peer || to === peer)
    one.failedForJoining = [...(one.failedForJoining ?? []), ...copies.map(({ to }) => to)]
  }
  shard.peers = others
  agreeOn(shard, peer)
  delete shard.states?.[peer]
  const ordinal = cluster.peers().find(({ id }) => id === peer)?.ordinal
  shard.unreadableOn = (shard.unreadableOn ?? []).filter((other) => other !== ordinal)
  if (ordinal !== undefined) delete shard.lost?.[ordinal]
  cluster.changes += 1
}
