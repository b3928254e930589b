/**
 * What is checked right before a replica is dropped, beyond what the plan knows: a dropped replica is lost. The plan is
 * made from an observation, and from the states that the engine reports, which calls some replicas Active that are not.
 */
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import { EngineShards } from '../../clients/engine/shards.ts'
import { ignoreEngineError } from '../../clients/engine/statistics.ts'
import type { Dependencies } from '../../dependencies.ts'
import { countPoints, isLargeShard } from './differences.ts'
import {
  activeElsewhere,
  describeShard,
  findShard,
  isMember,
  peerName,
  type Shard,
} from './queries.ts'
import { isPodStable } from './stateful-set.ts'
import { copyWithDrop, type Step } from './step.ts'
import type { Transfers } from './transfers.ts'
import type { ClusterView, PostponedDrop } from './view.ts'

type Drop = Extract<Step, { do: 'drop' }>
type Replica = Pick<Drop, 'collection' | 'shard' | 'peer'>

/** The last other replica has fewer points in every count of this time: a user has to decide. */
const FEWER_POINTS_MS = 300_000
/** Counts that are further apart are not of one cause. */
const MAX_COUNT_GAP_MS = 180_000
/** Until it is counted again, other work is done. */
const RECOUNT_MS = 30_000
const COUNT_MS = 30_000

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
  /** By `keyOf`. */
  readonly #fewer = new Map<string, FewerPoints>()

  constructor(plan: ShardsPlan, tools: Dependencies, transfers: Transfers) {
    this.#plan = plan
    this.#tools = tools
    this.#transfers = transfers
  }

  /** For the next plan: the replica was not dropped a moment ago, because of the points of the other one. */
  postponedDrop(replica: Replica): PostponedDrop | undefined {
    const now = this.#tools.time.monotonicMs()
    const fewer = this.#fewer.get(keyOf(replica))
    if (fewer === undefined || now - fewer.at >= RECOUNT_MS) return undefined
    return { message: fewer.message, isLasting: fewer.at - fewer.since >= FEWER_POINTS_MS }
  }

  /** Why the replica must not be dropped now. */
  async obstructionOf(view: ClusterView, drop: Drop): Promise<string | undefined> {
    return this.#copyInProgress(view, drop) ?? (await this.#unsafeReplica(view, drop))
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
  async #unsafeReplica(view: ClusterView, drop: Drop): Promise<string | undefined> {
    const shard = findShard(view, drop)
    const state = shard?.replicas.find(({ peer }) => peer === drop.peer)?.state
    // Some nodes write to a disputed one, too.
    if (shard === undefined || (state !== 'Active' && state !== 'Disputed')) return undefined
    const dropped = view.peers.find(({ id }) => id === drop.peer)
    if (dropped?.ordinal === undefined || !dropped.isMember) return undefined
    const [remaining, ...others] = activeElsewhere(view, shard, drop.peer)
    const ordinal = view.peers.find(({ id }) => id === remaining)?.ordinal
    if (others.length > 0 || ordinal === undefined) return undefined
    if (!(await isPodStable(ordinal, this.#plan, this.#tools))) {
      return `${describeShard(shard)} on ${peerName(view, drop.peer)} is kept until node ${ordinal}, which has the other replica, is ready`
    }
    // A disputed one may have points that were deleted since.
    if (state === 'Disputed') return undefined
    const message = await this.#fewerPoints(shard, { dropped: dropped.ordinal, remaining: ordinal })
    const at = this.#tools.time.monotonicMs()
    const before = this.#fewer.get(keyOf(drop))
    const isSame = before !== undefined && at - before.at <= MAX_COUNT_GAP_MS
    if (message === undefined) this.#fewer.delete(keyOf(drop))
    else this.#fewer.set(keyOf(drop), { since: isSame ? before.since : at, at, message })
    return message
  }

  /**
   * The engine calls replicas Active that miss acknowledged writes: of a client that did not wait for them, or of a node
   * that had lost the others. With the last other replica, these would be lost. The replica that is to be dropped is
   * counted before and after the remaining one, so that points which clients add or delete meanwhile make no difference.
   */
  async #fewerPoints(
    shard: Shard,
    ordinals: { dropped: number; remaining: number },
  ): Promise<string | undefined> {
    const { signal } = this.#tools
    const [dropped, remaining] = [ordinals.dropped, ordinals.remaining].map(
      (ordinal) => new EngineShards(this.#tools.engineForPod(this.#plan.cluster, ordinal)),
    ) as [EngineShards, EngineShards]
    const { collection: name, id } = shard
    const estimates = await Promise.all(
      [dropped, remaining].map((engine) =>
        engine.estimatePoints(name, id, signal).catch(ignoreEngineError),
      ),
    )
    const isLarge = estimates.some((points) => typeof points === 'number' && isLargeShard(points))
    const count = (engine: EngineShards) =>
      countPoints(engine, { name, id, isLarge, signal, timeoutMs: COUNT_MS }).catch(
        ignoreEngineError,
      )
    const before = await count(dropped)
    const found = await count(remaining)
    const after = await count(dropped)
    const text = `${describeShard(shard)} on node ${ordinals.dropped} is kept`
    if (before === undefined || found === undefined || after === undefined) {
      return `${text}: its points or those of the only other Active replica, on node ${ordinals.remaining}, are not counted`
    }
    if (found >= Math.min(before, after)) return undefined
    return `${text}: it has ${after} points, and the only other Active replica, on node ${ordinals.remaining}, has ${found}`
  }
}

function keyOf({ collection, shard, peer }: Replica): string {
  return JSON.stringify([collection, shard, peer])
}
