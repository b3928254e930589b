/**
 * What is checked right before a replica is dropped, beyond what the plan knows: a dropped replica is lost. The plan is
 * made from an observation, and from the states that the engine reports, which calls some replicas Active that are not.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import { EngineShards } from '../../clients/engine/shards.ts'
import { ignoreEngineError } from '../../clients/engine/statistics.ts'
import type { Dependencies } from '../../dependencies.ts'
import { countPoints, isLargeShard } from './differences.ts'
import type { ObservationMemory } from './observe.ts'
import {
  activeElsewhere,
  activeHolders,
  describeShard,
  findShard,
  holds,
  isMember,
  peerName,
  type Shard,
} from './queries.ts'
import { isPodStable } from './stateful-set.ts'
import { copyWithDrop, type Step } from './step.ts'
import type { Transfers } from './transfers.ts'
import type { ClusterView, CopyFailure, Move } from './view.ts'

type Drop = Extract<Step, { do: 'drop' }>

/** Why a replica is not dropped now. */
export interface DropObstruction {
  message: string
  /** Only fewer points are the obstruction, in every count of five minutes. */
  isLasting?: boolean
}

const FEWER_POINTS_MS = 300_000
/** Counts that are further apart are not of one cause. */
const MAX_COUNT_GAP_MS = 180_000
const COUNT_MS = 30_000
const RECOUNT_MS = 10_000

interface Node {
  ordinal: number
  engine: EngineShards
}

interface Compared {
  /** Of the replica that is to be dropped. */
  peer: number
  /** Of the replica that takes its place; otherwise any other Active one does. */
  target: number | undefined
}

interface FewerPoints {
  /** In monotonic milliseconds, as `at`, when it was counted last. */
  since: number
  at: number
  message: string
}

export class DropChecks {
  readonly #plan: ShardsPlan
  readonly #tools: Dependencies
  readonly #transfers: Transfers
  readonly #memory: Pick<ObservationMemory, 'facts'>
  /** Replicas that have more points than the others, by `keyOf`. */
  readonly #fewer = new Map<string, FewerPoints>()
  /** Moves whose target has fewer points, with the message about each. */
  readonly #undone: { move: Move; message: string }[] = []

  constructor(
    plan: ShardsPlan,
    tools: Dependencies,
    { transfers, memory }: { transfers: Transfers; memory: Pick<ObservationMemory, 'facts'> },
  ) {
    this.#plan = plan
    this.#tools = tools
    this.#transfers = transfers
    this.#memory = memory
  }

  /** From now on, plans drop the target of the move, and copy the shard to other nodes only. */
  undo(move: Move, message: string): void {
    this.#undone.push({ move, message })
    // Another target gets as much time.
    this.#fewer.delete(keyOf({ collection: move.collection, id: move.shard }, move.from))
  }

  hasFewerPoints(move: Move): boolean {
    return this.#undone.some((entry) => isDeepStrictEqual(entry.move, move))
  }

  /** What is known of the copies of the shard, with the moves that were undone. */
  withUndone(
    { collection, id }: { collection: string; id: number },
    failure: CopyFailure | undefined,
  ): CopyFailure | undefined {
    const undone = this.#undone.filter(
      ({ move }) => move.collection === collection && move.shard === id,
    )
    if (undone.length === 0) return failure
    const targets = undone.map(({ move, message }) => [move.to, message] as const)
    return { ...failure, givenUp: new Map([...(failure?.givenUp ?? []), ...targets]) }
  }

  /** With the peer to which the shard was moved, that replica has to have as many points as the one that is dropped. */
  async obstructionOf(
    view: ClusterView,
    drop: Drop,
    target?: number,
  ): Promise<DropObstruction | undefined> {
    const copied = this.#copyInProgress(view, drop)
    if (copied !== undefined) return { message: copied }
    const shard = findShard(view, drop)
    if (shard === undefined || !holds(shard, drop.peer)) return undefined
    const fewer = await this.#fewerPoints(view, shard, { peer: drop.peer, target })
    if (fewer !== undefined) return fewer
    // Counting may have taken long.
    const message = await this.#unstableOther(view, shard, drop.peer)
    return message === undefined ? undefined : { message }
  }

  /** Also copies that were started a moment ago. Those from and to a lost node fail on every node. */
  #copyInProgress(view: ClusterView, { collection, shard, peer }: Drop): string | undefined {
    if (!isMember(view, peer)) return undefined
    const copy = copyWithDrop(this.#transfers.running, { collection, peer })
    if (copy === undefined) return undefined
    return `${collection}/${shard} on ${peerName(view, peer)} is kept until ${collection}/${copy.shard} is copied`
  }

  /**
   * Why the last replica but one must not be dropped now. While the node of the remaining one stops,
   * the other one alone takes writes for a moment, and these would be dropped with it: the engine
   * calls the remaining replica Active until consensus has learned that it is not.
   */
  async #unstableOther(view: ClusterView, shard: Shard, peer: number): Promise<string | undefined> {
    const state = shard.replicas.find((replica) => replica.peer === peer)?.state
    // Some nodes write to a disputed one, too.
    if (state !== 'Active' && state !== 'Disputed') return undefined
    if (!isMember(view, peer)) return undefined
    const [remaining, ...others] = activeElsewhere(view, shard, peer)
    const ordinal = ordinalOf(view, remaining)
    if (others.length > 0 || ordinal === undefined) return undefined
    if (await isPodStable(ordinal, this.#plan, this.#tools)) return undefined
    return `${describeShard(shard)} on ${peerName(view, peer)} is kept until node ${ordinal}, which has the other replica, is ready`
  }

  /** A replica that is not Active is not counted: its last count is used for three minutes. */
  async #fewerPoints(
    view: ClusterView,
    shard: Shard,
    { peer, target }: Compared,
  ): Promise<DropObstruction | undefined> {
    const key = keyOf(shard, peer)
    const now = this.#tools.time.monotonicMs()
    const known = this.#fewer.get(key)
    const last = known !== undefined && now - known.at <= MAX_COUNT_GAP_MS ? known : undefined
    if (last !== undefined && now - last.at < RECOUNT_MS) return { message: last.message }
    const isActive = activeHolders(view, shard).includes(peer)
    const message = isActive ? await this.#compare(view, shard, { peer, target }) : last?.message
    if (message === undefined) {
      this.#fewer.delete(key)
      return undefined
    }
    const since = last?.since ?? now
    if (isActive) this.#fewer.set(key, { since, at: now, message })
    return { message, isLasting: now - since >= FEWER_POINTS_MS }
  }

  /**
   * The engine calls replicas Active that miss acknowledged writes: of a client that did not wait for them, or of a node
   * that had left them out. If no other replica has as many points as this one, these would be lost.
   */
  async #compare(
    view: ClusterView,
    shard: Shard,
    { peer, target }: Compared,
  ): Promise<string | undefined> {
    const all = activeElsewhere(view, shard, peer)
    const others = target !== undefined && all.includes(target) ? [target] : all
    const [own, ...rest] = [peer, ...others].flatMap((holder): Node[] => {
      const ordinal = ordinalOf(view, holder)
      if (ordinal === undefined) return []
      const engine = this.#tools.engineForPod(this.#plan.cluster, ordinal)
      return [{ ordinal, engine: new EngineShards(engine) }]
    })
    if (own === undefined || rest.length === 0) return undefined
    // Points without an index are not counted: the numbers say nothing.
    const facts = this.#memory.facts.get(own.ordinal)?.get(shard.collection)
    if (facts?.hidesUnindexed === true) return undefined
    const { points, found } = await countReplicas(shard, { own, rest }, this.#tools.signal)
    const text = `${describeShard(shard)} on node ${own.ordinal} is kept`
    if (points === undefined || found.every((number) => number === undefined)) {
      return `${text}: its points or those of the replicas that would take its place are not counted`
    }
    if (found.some((number) => number !== undefined && number >= points)) return undefined
    const numbers = rest.map(
      ({ ordinal }, index) => `${found[index] ?? 'unknown'} on node ${ordinal}`,
    )
    return `${text}: it has ${points} points, and those that would take its place have fewer: ${numbers.join(', ')}`
  }
}

/**
 * The numbers of points of one replica and of others. The first one is counted before and after the others, so that points
 * which clients add or delete meanwhile are not taken for missing ones. If one is not counted, all numbers are estimates.
 */
async function countReplicas(
  { collection: name, id }: Shard,
  { own, rest }: { own: Node; rest: Node[] },
  signal: AbortSignal,
): Promise<{ points: number | undefined; found: (number | undefined)[] }> {
  const estimates = await Promise.all(
    [own, ...rest].map(async ({ engine }) => {
      const points = await engine.estimatePoints(name, id, signal).catch(ignoreEngineError)
      return points === 'unreadable' ? undefined : points
    }),
  )
  const isLarge = estimates.some((points) => points !== undefined && isLargeShard(points))
  const count = ({ engine }: Node) =>
    countPoints(engine, { name, id, isLarge, signal, timeoutMs: COUNT_MS }).catch(ignoreEngineError)
  const before = await count(own)
  const found = await Promise.all(rest.map(count))
  const after = await count(own)
  if (before === undefined || after === undefined || found.includes(undefined)) {
    const [points, ...others] = estimates
    return { points, found: others }
  }
  return { points: Math.min(before, after), found }
}

function ordinalOf({ peers }: ClusterView, peer: number | undefined): number | undefined {
  return peers.find(({ id }) => id === peer)?.ordinal
}

function keyOf({ collection, id }: Pick<Shard, 'collection' | 'id'>, peer: number): string {
  return JSON.stringify([collection, id, peer])
}
