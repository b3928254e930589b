/** POST /collections/{c}/cluster: transfers of shards, and dropping replicas. */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { ChangeCluster } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Shard } from '../collection.ts'
import { readBody } from '../read.ts'
import { abortTransfer, startTransfer, transfersOf } from '../transfers.ts'
import { found, timeoutOf } from './collections.ts'

interface Move {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
  method?: string
}

interface Change {
  replicate_shard?: Move
  move_shard?: Move
  abort_transfer?: Move
  drop_replica?: { shard_id: number; peer_id: number }
}

export function changeReplicas(
  request: EngineRequest,
  cluster: EngineCluster,
  name: string,
): EngineAnswer {
  timeoutOf(request)
  const { shards } = found(cluster, name)
  const body = readBody(ChangeCluster, request.body) as Change
  const {
    replicate_shard: copy,
    move_shard: move,
    abort_transfer: abort,
    drop_replica: drop,
  } = body
  const { shard_id: id = -1 } = copy ?? move ?? abort ?? drop ?? {}
  const shard = shards.find((one) => one.id === id)
  const way = copy ?? move
  if (abort !== undefined) return abortKnown(cluster, shard, { name, ...abort })
  if (shard === undefined) return refuse(400, `Bad request: Shard ${id} of ${name} does not exist`)
  if (way !== undefined) start(cluster, shard, { ...way, sync: copy !== undefined })
  else if (drop !== undefined) dropReplica(cluster, shard, drop.peer_id)
  return ok(true)
}

function start(
  cluster: EngineCluster,
  shard: Shard,
  { from_peer_id: from, to_peer_id: to, method = 'snapshot', sync }: Move & { sync: boolean },
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
}

function abortKnown(
  cluster: EngineCluster,
  shard: Shard | undefined,
  { name, shard_id, from_peer_id: from, to_peer_id: to }: Move & { name: string },
): EngineAnswer {
  const transfers = shard === undefined ? [] : transfersOf(shard)
  const transfer = transfers.find((one) => one.from === from && one.to === to)
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

function dropReplica(cluster: EngineCluster, shard: Shard, peer: number): void {
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
  const related = transfersOf(shard).filter(({ from, to }) => from === peer || to === peer)
  for (const transfer of related) abortTransfer(cluster, shard, transfer)
  shard.peers = others
  delete shard.states?.[peer]
  const ordinal = cluster.peers().find(({ id }) => id === peer)?.ordinal
  shard.unreadableOn = (shard.unreadableOn ?? []).filter((other) => other !== ordinal)
  if (ordinal !== undefined) delete shard.lost?.[ordinal]
  cluster.changes += 1
}
