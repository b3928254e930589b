/**
 * For how long each replica and node has not been as it should be: the engine gets time to repair it by
 * itself, counted from the observation that has found this one defective, not from that of an earlier defect.
 */
import { MAX_SHARDS_CHECK_SECONDS } from '../../../crds/contract/limits.ts'
import { shortHash } from '../../../crds/contract/names.ts'
import { withoutClock } from '../../clients/engine/shards.ts'
import { absentOrdinals } from './queries.ts'
import type { ClusterView, ReplicaState, TransferView } from './view.ts'

/** Two observations that are further apart say nothing about the time between them: a Job was working. */
export const MAX_GAP_MS = 2 * MAX_SHARDS_CHECK_SECONDS * 1000

/** Of the plan of a Job: what is left out counts from the first observation of the Job. */
const MAX_LISTED = 1000

/** Replicas that have all points of their shard. */
const COMPLETE_STATES: readonly ReplicaState[] = ['Active', 'Resharding']

/** Times are in milliseconds, of a clock that the observer chooses and does not change. */
export class Defects {
  /** By `replicaDefect`, `differenceDefect`, `nodeDefect` or `transferDefect`. */
  #since: Map<string, number>
  #observedAt: number

  /** `known` are the seconds of defects that an earlier observer has found. */
  constructor(known: Readonly<Record<string, number>> = {}, now = 0) {
    this.#observedAt = now
    const since = Object.entries(known).map(
      ([defect, seconds]) => [defect, this.#observedAt - seconds * 1000] as const,
    )
    this.#since = new Map(since)
  }

  observe(view: ClusterView, now: number): void {
    // Nothing is known about any replica.
    if (view.broken !== undefined) return
    const earlier = now - this.#observedAt < MAX_GAP_MS ? this.#since : new Map<string, number>()
    // Transfers of the engine may fail one after another: a defect ends once the replica is Active, and begins without one.
    const copied = replicaDefects(view, (state) => state === 'InTransfer')
    const lasting = copied.filter((defect) => earlier.has(defect))
    const found = [...defectsOf(view), ...lasting].map(
      (defect) => [defect, earlier.get(defect) ?? now] as const,
    )
    // Nodes that do not agree do not prove that a replica is Active again.
    this.#since = new Map([...(view.unsettled === undefined ? [] : earlier), ...found])
    this.#observedAt = now
  }

  /** 0 for what was not found defective. */
  secondsOf(defect: string, now: number): number {
    return Math.floor(this.msOf(defect, now) / 1000)
  }

  /** The same in milliseconds. */
  msOf(defect: string, now: number): number {
    return Math.max(0, now - (this.#since.get(defect) ?? now))
  }

  /** The oldest ones, for another observer. */
  list(now: number): Record<string, number> {
    const oldest = [...this.#since].toSorted(([, a], [, b]) => a - b).slice(0, MAX_LISTED)
    return Object.fromEntries(oldest.map(([defect]) => [defect, this.secondsOf(defect, now)]))
  }
}

export function replicaDefect(collection: string, shard: number, peer: number): string {
  return `${collection}/${shard}/${peer}`
}

/** The numbers of points of its replicas are not known to be equal. */
export function differenceDefect(collection: string, shard: number): string {
  return `${collection}/${shard}/points`
}

/** Shards of the collection are copied from or to this node, one after the other. */
export function copiesDefect(collection: string, peer: number): string {
  return `${collection}/copies/${peer}`
}

export function nodeDefect(ordinal: number): string {
  return `node ${ordinal}`
}

/**
 * Nothing has happened in the transfer since the engine described it so. Once it makes progress it has another
 * description, and with that the time begins again.
 */
export function transferDefect(transfer: TransferView): string {
  const { collection, shard, from, to, toShard = shard, comment = '' } = transfer
  return `${collection}/${shard}/transfer/${from}/${to}/${toShard}/${shortHash(withoutClock(comment))}`
}

/**
 * Replicas that are not as they should be on nodes that answer, or that differ, pods that are no node, transfers, and nodes
 * that take part in them.
 */
function defectsOf(view: ClusterView): string[] {
  const replicas = replicaDefects(
    view,
    (state) => state !== 'InTransfer' && !COMPLETE_STATES.includes(state),
  )
  const differences = view.collections.flatMap(({ name, shards }) =>
    shards
      .filter(({ difference }) => difference !== undefined)
      .map(({ id }) => differenceDefect(name, id)),
  )
  const nodes = absentOrdinals(view, view.nodes).map(nodeDefect)
  const copies = view.transfers.flatMap(({ collection, from, to }) => [
    copiesDefect(collection, from),
    copiesDefect(collection, to),
  ])
  return [...replicas, ...differences, ...nodes, ...view.transfers.map(transferDefect), ...copies]
}

/** Replicas in such a state, on nodes that answer. */
function replicaDefects(view: ClusterView, is: (state: ReplicaState) => boolean): string[] {
  const members = new Set(view.peers.filter(({ isMember }) => isMember).map(({ id }) => id))
  return view.collections.flatMap(({ name, shards }) =>
    shards.flatMap(({ id, replicas }) =>
      replicas
        .filter(({ peer, state }) => members.has(peer) && is(state))
        .map(({ peer }) => replicaDefect(name, id, peer)),
    ),
  )
}
