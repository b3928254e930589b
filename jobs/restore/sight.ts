/** Where the shards of a collection are, as each node says, and whether all of them say the same. */
import { Rejected } from '../../crds/errors.ts'
import type { MovingPlacement, NodeView } from '../clients/engine-recovery-answers.ts'

/** State of each copy, by ordinal of its node, of each shard. A peer that is none of the pods is itself. */
export type Copies = Map<number, Map<number, string>>

/** What all nodes say at about one moment. */
export interface Sight {
  /** By ordinal of the node that says so. */
  copies: Copies[]
  /** Key of each shard, under custom sharding. */
  keys: Map<number, string | number>
  /** Peer ids by ordinal. */
  peers: number[]
  /** Why the nodes are not at rest; undefined when they are. */
  unrest?: string
}

/** Where each shard is, when nodes disagree as the first of them says. */
export function firstCopies({ copies: [first] }: Sight): Copies {
  return first ?? new Map<number, Map<number, string>>()
}

/** Throws where consensus is dead. */
export function sightOf(placements: MovingPlacement[], views: NodeView[]): Sight {
  const peers = placements.map(({ peer_id }) => peer_id)
  const ordinalOf = (peer: number) => {
    const ordinal = peers.indexOf(peer)
    return ordinal === -1 ? peer : ordinal
  }
  const keys = new Map<number, string | number>()
  const copies = placements.map(({ peer_id, local_shards, remote_shards }) => {
    const known: Copies = new Map()
    const all = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
    for (const { shard_id, shard_key, peer_id: peer, state } of all) {
      if (shard_key != null) keys.set(shard_id, shard_key)
      const shard = known.get(shard_id) ?? new Map<number, string>()
      known.set(shard_id, shard.set(ordinalOf(peer), state))
    }
    return known
  })
  const unrest = movement(placements, ordinalOf) ?? backlog(views)
  return { copies, keys, peers, ...(unrest !== undefined && { unrest }) }
}

/** Why it is not to be built upon; undefined where all nodes agree and nothing moves. */
export function whyRestless(sight: Sight): string | undefined {
  return sight.unrest ?? disagreement(sight) ?? inactive(sight.copies)
}

export function disagreement({ copies: [first, ...others] }: Sight): string | undefined {
  const index = others.findIndex((other) => fingerprint(other) !== fingerprint(first))
  return index === -1 ? undefined : `nodes 0 and ${index + 1} disagree about its copies`
}

function inactive(all: Copies[]): string | undefined {
  for (const copies of all) {
    for (const [shard, states] of copies) {
      for (const [ordinal, state] of states) {
        if (state !== 'Active') return `shard ${shard} on node ${ordinal} is ${state}`
      }
    }
  }
  return undefined
}

function movement(
  placements: MovingPlacement[],
  ordinalOf: (peer: number) => number,
): string | undefined {
  for (const { shard_transfers, resharding_operations = [] } of placements) {
    const [transfer] = shard_transfers
    if (transfer !== undefined) {
      const { shard_id, from, to, comment } = transfer
      const way = `shard ${shard_id} is on its way from node ${ordinalOf(from)} to node ${ordinalOf(to)}`
      return comment == null ? way : `${way} (${comment})`
    }
    if (resharding_operations.length > 0) return 'the number of its shards is being changed'
  }
  return undefined
}

/** Throws where consensus is dead: nothing that is waited for would come. */
function backlog(views: NodeView[]): string | undefined {
  const commits = new Set<number>()
  for (const [ordinal, view] of views.entries()) {
    if (view.status === 'disabled') continue
    const { consensus_thread_status: thread, err } = view.consensus_thread_status
    if (thread !== 'working') {
      throw new Rejected(`consensus is ${thread} on node ${ordinal}: ${err ?? 'no reason given'}`)
    }
    if (view.raft_info.pending_operations > 0)
      return `node ${ordinal} has not applied all that was agreed on`
    commits.add(view.raft_info.commit)
  }
  return commits.size > 1 ? 'the nodes have not applied the same' : undefined
}

/** The same text for the same copies. */
export function fingerprint(copies: Copies | undefined): string {
  const shards = [...(copies ?? [])].map(([shard, states]) => [shard, [...states].sort(byFirst)])
  return JSON.stringify(shards.sort(byFirst))
}

function byFirst([one]: unknown[], [other]: unknown[]): number {
  return Number(one) - Number(other)
}
