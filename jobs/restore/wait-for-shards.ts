/**
 * Where the shards of a collection are, as every node sees it. Answers of the engine come before its
 * nodes agree: the next step is taken only once all of them see the same, and nothing moves (facts 6.4).
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { isTransient } from '../retry.ts'
import { ordinals, recoveryOn, type EngineAccess, type RunContext } from './context.ts'
import {
  disagreement,
  fingerprint,
  replicasOnFirstNode,
  shardView,
  unstableReason,
  type ReplicaStates,
  type ShardView,
} from './placement.ts'

/** The first pauses: nodes agree within some of the short ones, and all the while nothing is restored. */
const FIRST_PAUSES_MS = [
  ...Array.from({ length: 10 }, () => 10),
  ...Array.from({ length: 10 }, () => 40),
  ...Array.from({ length: 20 }, () => 200),
]
const PAUSE_MS = 1_000
/** Longer than this, a disagreement stays until it is repaired. */
const DISAGREEMENT_MS = 30_000
/** All agree, nothing moves, and something is missing for so long. */
const STABLE_MS = 30_000
/** Nothing has changed for so long, not even how far a transfer is. */
const UNCHANGED_MS = 900_000

/** After so many repairs the nodes will not agree any more. */
const MAX_REPAIRS = 3

/**
 * Nodes that will never agree about a collection. An engine that is killed while it recovers a snapshot
 * may come back without a shard that the others go on calling Active there.
 */
export class PermanentDisagreement extends EngineError {
  constructor(collection: string, reason: string) {
    super(
      `${collection}: ${reason}, and that does not change: delete the collection and create the VecRestore again`,
      { status: 409 },
    )
  }
}

/** Waits until all nodes agree, nothing moves, and `missing` finds nothing that is missing. */
export async function waitForShards(
  collection: string,
  context: RunContext,
  findMissing: (replicas: ReplicaStates) => string | undefined = () => undefined,
): Promise<ShardView> {
  const { time, signal, log } = context.tools
  const timer = new StabilityTimer(() => time.now().getTime())
  let repairs = 0
  for (let polls = 0; ; polls += 1) {
    const view = await tryReadShardView(collection, context)
    const instability = typeof view === 'string' ? view : unstableReason(view)
    const missingReason =
      typeof view === 'string' ? undefined : findMissing(replicasOnFirstNode(view))
    if (typeof view !== 'string' && instability === undefined && missingReason === undefined)
      return view
    timer.observe(view, instability)
    const reason = instability ?? missingReason ?? ''
    // At rest and not as it should be, or still in between after all that time: nothing will change.
    if (timer.stableMs() >= STABLE_MS || timer.unchangedMs() >= UNCHANGED_MS) {
      throw new EngineError(`${collection}: ${reason}, and that does not change`)
    }
    if (typeof view !== 'string' && timer.disagreementMs() >= DISAGREEMENT_MS) {
      if (repairs === MAX_REPAIRS) throw new PermanentDisagreement(collection, reason)
      repairs += 1
      await repairReplicas(collection, view, context)
      timer.repaired()
    }
    if (polls === FIRST_PAUSES_MS.length)
      log.info({ collection, reason }, 'waits until the nodes agree')
    context.progress.report()
    await time.sleep(FIRST_PAUSES_MS[polls] ?? PAUSE_MS, signal)
    await context.progress.reported()
  }
}

/** What the nodes say; a text where they cannot be asked at this moment. */
export async function tryReadShardView(
  collection: string,
  context: EngineAccess,
): Promise<ShardView | string> {
  try {
    const { signal } = context.tools
    const nodes = ordinals(context).map((ordinal) => recoveryOn(context, ordinal))
    const views = await Promise.all(nodes.map((node) => node.cluster(signal)))
    return shardView(
      await Promise.all(nodes.map((node) => node.collectionCluster(collection, signal))),
      views,
    )
  } catch (error) {
    if (!isTransient(error)) throw error
    return error.message
  }
}

/** For how long nothing has changed, the nodes have disagreed at rest, or agreed at rest. */
class StabilityTimer {
  readonly #now: () => number
  #lastState = ''
  #changedAt: number
  #stableSince: number | undefined
  #disagreesSince: number | undefined

  constructor(now: () => number) {
    this.#now = now
    this.#changedAt = now()
  }

  observe(view: ShardView | string, instability: string | undefined): void {
    const replicas = typeof view === 'string' ? '' : view.replicas.map(fingerprint).join()
    const state = `${instability ?? ''} ${replicas}`
    if (state !== this.#lastState) this.#changedAt = this.#now()
    this.#lastState = state
    this.#stableSince = instability === undefined ? (this.#stableSince ?? this.#now()) : undefined
    const disagrees =
      typeof view !== 'string' && view.unrest === undefined && disagreement(view) !== undefined
    this.#disagreesSince = disagrees ? (this.#disagreesSince ?? this.#now()) : undefined
  }

  repaired(): void {
    this.#disagreesSince = undefined
  }

  stableMs(): number {
    return this.#elapsed(this.#stableSince)
  }

  unchangedMs(): number {
    return this.#elapsed(this.#changedAt)
  }

  disagreementMs(): number {
    return this.#elapsed(this.#disagreesSince)
  }

  #elapsed(since: number | undefined): number {
    return since === undefined ? 0 : this.#now() - since
  }
}

/** A copy that not all nodes know of, and a node that does. */
export interface PhantomReplica {
  shard: number
  /** Node that is said to hold it. */
  ordinal: number
  /** Node that says so. */
  through: number
}

export async function repairReplicas(
  collection: string,
  view: ShardView,
  context: RunContext,
): Promise<void> {
  const { log, signal } = context.tools
  for (const { shard, ordinal, through } of phantomReplicas(view)) {
    const peer_id = view.peers[ordinal] ?? ordinal
    const message = `nodes disagreed about a copy of shard ${shard} of ${collection} on node ${ordinal}: dropped`
    try {
      await recoveryOn(context, through).dropReplica(
        collection,
        { shard_id: shard, peer_id },
        signal,
      )
      log.warn({ collection, shard, node: ordinal, through }, message)
      context.progress.note(message)
    } catch (error) {
      // It may be the last Active one, or have gone meanwhile: the next look tells.
      if (!(error instanceof EngineError)) throw error
      log.warn({ collection, shard, node: ordinal, reason: error.message }, 'not dropped')
    }
  }
}

/** Of each shard only copies beside one that all agree on: the last one is never dropped. */
export function phantomReplicas({ replicas }: Pick<ShardView, 'replicas'>): PhantomReplica[] {
  const shards = new Set(replicas.flatMap((states) => [...states.keys()]))
  return [...shards].flatMap((shard) => {
    const holdersByNode = replicas.map((states) => new Set(states.get(shard)?.keys() ?? []))
    const claimed = new Set(holdersByNode.flatMap((holders) => [...holders]))
    const undisputed = [...claimed].filter((ordinal) =>
      holdersByNode.every((holders) => holders.has(ordinal)),
    )
    if (undisputed.length === 0) return []
    return [...claimed]
      .filter((ordinal) => !undisputed.includes(ordinal))
      .map((ordinal) => ({
        shard,
        ordinal,
        through: holdersByNode.findIndex((holders) => holders.has(ordinal)),
      }))
  })
}
