/** Transfers of shards: what has ended since the last look is applied first. */
import type { EngineCluster } from './cluster.ts'
import type { Collection, Shard, Transfer } from './collection.ts'

const NEVER = Number.MAX_SAFE_INTEGER

/** Transfers in progress. */
export function transfersOf(shard: Shard): Transfer[] {
  const { arriving = [] } = shard
  const now = Date.now()
  const ended = arriving.filter(({ until }) => until <= now)
  if (ended.length > 0) shard.arriving = arriving.filter(({ until }) => until > now)
  for (const transfer of ended) {
    if (transfer.fails === true) fail(shard, transfer)
    else complete(shard, transfer)
  }
  return shard.arriving ?? []
}

/** What the source or the target does, and for how long: no bytes, also if the transfer is stuck. */
export function commentOf({ from, since }: Transfer, peer: number): string {
  const stage = from === peer ? 'recovering' : 'downloading'
  const ms = since === undefined ? 0 : Date.now() - since
  return `${stage} (${(ms / 1000).toFixed(2)}s)`
}

export function startTransfer(
  cluster: EngineCluster,
  shard: Shard,
  transfer: Pick<Transfer, 'from' | 'to' | 'state' | 'sync' | 'fromShard' | 'abort'>,
): void {
  const outcome = cluster.transferOutcome({ shard: shard.id, ...transfer })
  const until = outcome === 'stall' ? NEVER : Date.now() + cluster.copyMs
  if (!shard.peers.includes(transfer.to)) shard.peers = [...shard.peers, transfer.to]
  const fails = outcome === 'fail'
  shard.arriving = [...(shard.arriving ?? []), { ...transfer, since: Date.now(), until, fails }]
  agreeOn(shard, transfer.to)
  cluster.changes += 1
}

/**
 * A shard key is created or deleted. The source of a transfer by snapshot has locked the collection: the change waits for
 * the transfer, and the download of the snapshot waits for the change (docs/engine-notes.md).
 */
export function lockSnapshots({ shards }: Collection): void {
  for (const transfer of shards.flatMap(transfersOf)) {
    if (transfer.state === 'Recovery') transfer.until = NEVER
  }
}

export function abortTransfer(cluster: EngineCluster, shard: Shard, transfer: Transfer): void {
  shard.arriving = (shard.arriving ?? []).filter((other) => other !== transfer)
  fail(shard, transfer)
  cluster.changes += 1
}

/** What the nodes report about a replica from here on is the same. */
export function agreeOn(shard: Shard, peer: number): void {
  shard.failedForJoining = (shard.failedForJoining ?? []).filter((other) => other !== peer)
  for (const states of Object.values(shard.reportedStates ?? {})) {
    Reflect.deleteProperty(states, String(peer))
  }
}

/** The source of a move is dropped together with the end of its transfer. That of a resharding changes no state. */
function complete(shard: Shard, { from, to, sync, fromShard }: Transfer): void {
  if (fromShard !== undefined) return
  delete shard.states?.[to]
  if (!sync) shard.peers = shard.peers.filter((peer) => peer !== from)
}

/** The target of a move is removed; any other one becomes Dead. */
function fail(shard: Shard, { to, sync, abort }: Transfer): void {
  if (abort !== undefined) abort()
  else if (sync) shard.states = { ...shard.states, [to]: 'Dead' }
  else shard.peers = shard.peers.filter((peer) => peer !== to)
}
