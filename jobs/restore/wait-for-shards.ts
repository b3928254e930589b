/**
 * Waits for the shards of a collection, as every node sees them. The engine responds before its
 * nodes agree, so the next step starts only when all nodes see the same and nothing moves
 * (docs/engine-notes.md, "Recovery of a collection"). Also drops replicas that only some nodes
 * report.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { withoutClock } from '../clients/engine/shards.ts'
import { longCallTimeoutMs } from '../clients/http/request.ts'
import { snapshotBytes, type RestoreItem } from '../manifest-check.ts'
import { isTransient, poll } from '../retry.ts'
import { requireStillOurs } from './change-collection.ts'
import { ordinals, recoveryForPod, type EngineAccess, type RunContext } from './context.ts'
import {
  findDisagreement,
  fingerprint,
  replicasOnFirstNode,
  reportedShards,
  unstableReason,
  type ReplicaStates,
  type ReportedShards,
} from './placement.ts'

/**
 * Nodes usually agree within some short pauses, and nothing is restored in the meantime, so the
 * first pauses are short.
 */
const FIRST_PAUSES_MS = [
  ...Array.from({ length: 10 }, () => 10),
  ...Array.from({ length: 10 }, () => 40),
  ...Array.from({ length: 20 }, () => 200),
]
const PAUSE_MS = 1_000
/** A disagreement that lasts longer than this stays until it is repaired. */
const DISAGREEMENT_MS = 30_000
/** How long something may be missing while all nodes agree and nothing moves. */
const STABLE_MS = 30_000
/** How long the state may stay the same while no node lists a transfer. */
const UNCHANGED_MS = 900_000

/** How long the nodes must report that there is no such collection: one that was just created is not on each at once. */
const DELETED_MS = 30_000

/** After this many repairs, the disagreement is permanent. */
const MAX_REPAIRS = 3

/**
 * Nodes that will never agree about a collection. An engine that is killed during the recovery of a
 * snapshot may return without a shard that the other nodes still report as Active on it.
 */
export class PermanentDisagreement extends EngineError {
  constructor(collection: string, reason: string) {
    super(
      `${collection}: ${reason}, and there is no progress: delete the collection, or restore it under another name with collectionMapping, and create the VecRestore again`,
      { status: 409 },
    )
  }
}

export function collectionDeleted(name: string): Rejected {
  return new Rejected(`collection ${name} was deleted during the restore`)
}

/**
 * Waits until all nodes agree, nothing moves, and `findMissing` returns undefined. Repairs a
 * disagreement that lasts. Throws `Rejected` if another client has deleted the collection.
 */
export async function waitForShards(
  { name: collection, source }: Pick<RestoreItem, 'name' | 'source'>,
  context: RunContext,
  findMissing: (replicas: ReplicaStates) => string | undefined = () => undefined,
): Promise<ReportedShards> {
  const { tools, progress } = context
  const { time, signal, log } = tools
  const timer = new StabilityTimer(() => time.monotonicMs())
  let repairs = 0
  let deletedSince: number | undefined
  const pauseMs = [...FIRST_PAUSES_MS, PAUSE_MS]
  const afterPause = () => progress.reported()
  return poll({ time, signal, pauseMs, afterPause }, async ({ pauses }) => {
    const view = await tryReadReportedShards(collection, context)
    const instability = typeof view === 'string' ? view : unstableReason(view)
    const missingReason =
      typeof view === 'string' ? undefined : findMissing(replicasOnFirstNode(view))
    if (typeof view !== 'string' && instability === undefined && missingReason === undefined)
      return view
    const isDeleted = typeof view === 'string' && (await isDeletedOnMost(collection, context))
    deletedSince = isDeleted ? (deletedSince ?? time.monotonicMs()) : undefined
    if (deletedSince !== undefined && time.monotonicMs() - deletedSince >= DELETED_MS) {
      throw collectionDeleted(collection)
    }
    timer.observe(view, instability)
    const reason = instability ?? missingReason ?? ''
    const hasTransfer = typeof view !== 'string' && view.transferProgress !== undefined
    const limitMs = hasTransfer ? transferStallMs(source) : UNCHANGED_MS
    // Stable but incomplete, or unstable without any progress for too long: nothing will change.
    if (timer.stableMs() >= STABLE_MS || timer.unchangedMs() >= limitMs) {
      throw new EngineError(`${collection}: ${reason}, and there is no progress`)
    }
    if (typeof view !== 'string' && timer.disagreementMs() >= DISAGREEMENT_MS) {
      if (repairs === MAX_REPAIRS) throw new PermanentDisagreement(collection, reason)
      repairs += 1
      await repairReplicas(collection, view, context)
      timer.repaired()
    }
    if (pauses === FIRST_PAUSES_MS.length)
      log.info({ collection, reason }, 'waiting until the nodes agree')
    progress.report()
    return undefined
  })
}

/**
 * The engine reports no bytes of a snapshot that a node downloads from another one: a stage may take as long as the
 * transfer of all bytes of the collection at the lowest rate that is expected.
 */
function transferStallMs(source: RestoreItem['source']): number {
  return UNCHANGED_MS + longCallTimeoutMs(snapshotBytes(source)) - longCallTimeoutMs(0)
}

/** What the nodes report; the error message if a node is temporarily unavailable. */
export async function tryReadReportedShards(
  collection: string,
  context: EngineAccess,
): Promise<ReportedShards | string> {
  try {
    const { signal } = context.tools
    const nodes = ordinals(context).map((ordinal) => recoveryForPod(context, ordinal))
    const views = await Promise.all(nodes.map((node) => node.cluster(signal)))
    return reportedShards(
      await Promise.all(nodes.map((node) => node.collectionCluster(collection, signal))),
      views,
    )
  } catch (error) {
    if (!isTransient(error)) throw error
    return error.message
  }
}

/** Whether no node has the collection, of those that answer, which are more than half. */
async function isDeletedOnMost(collection: string, context: EngineAccess): Promise<boolean> {
  const { signal } = context.tools
  const nodes = ordinals(context)
  const has = await Promise.all(
    nodes.map(async (node) => {
      try {
        await recoveryForPod(context, node).collectionCluster(collection, signal)
        return true
      } catch (error) {
        if (!(error instanceof EngineError)) throw error
        return error.status === 404 ? false : undefined
      }
    }),
  )
  const without = has.filter((answer) => answer === false).length
  return !has.includes(true) && without > nodes.length / 2
}

/**
 * Measures how long nothing has changed, and how long the stable nodes have disagreed or agreed.
 */
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

  observe(view: ReportedShards | string, instability: string | undefined): void {
    const replicas = typeof view === 'string' ? '' : view.replicas.map(fingerprint).join()
    const progress = typeof view === 'string' ? '' : (view.transferProgress ?? '')
    const state = `${withoutClock(instability ?? '')} ${progress} ${replicas}`
    if (state !== this.#lastState) this.#changedAt = this.#now()
    this.#lastState = state
    this.#stableSince = instability === undefined ? (this.#stableSince ?? this.#now()) : undefined
    const disagrees =
      typeof view !== 'string' &&
      view.instability === undefined &&
      findDisagreement(view) !== undefined
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

/** A replica that not all nodes report. */
export interface PhantomReplica {
  shard: number
  /** Node on which the replica is reported. */
  ordinal: number
  /** Node that reports the replica. */
  through: number
}

export async function repairReplicas(
  collection: string,
  view: ReportedShards,
  context: RunContext,
): Promise<void> {
  const { log, signal, reporter } = context.tools
  for (const { shard, ordinal, through } of phantomReplicas(view)) {
    const peer_id = view.peers[ordinal] ?? ordinal
    const message = `nodes disagreed about a copy of shard ${shard} of ${collection} on node ${ordinal}: dropped`
    await reporter.verifyOwnership()
    try {
      await requireStillOurs(collection, context)
      await recoveryForPod(context, through).dropReplica(
        collection,
        { shard_id: shard, peer_id },
        signal,
      )
      log.warn({ collection, shard, node: ordinal, through }, message)
      context.progress.note(message)
    } catch (error) {
      // It may be the last Active replica, or may be gone already: the next poll shows that.
      if (!(error instanceof EngineError)) throw error
      log.warn({ collection, shard, node: ordinal, reason: error.message }, 'replica not dropped')
    }
  }
}

/**
 * Only replicas of shards that also have a replica on which all nodes agree: the last replica is
 * never dropped.
 */
export function phantomReplicas({ replicas }: Pick<ReportedShards, 'replicas'>): PhantomReplica[] {
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
