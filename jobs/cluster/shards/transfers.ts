/**
 * The transfers that a Job has started: which have ended, how, and which make no progress. A
 * transfer that fails leaves its target Dead and is not reported anywhere else.
 */
import type { ShardsResult } from '../../../crds/contract/shards-job.ts'
import { withoutClock, type ShardTransfer } from '../../clients/engine/shards.ts'
import { longCallTimeoutMs } from '../../clients/http/request.ts'
import { transferDefect, type Defects } from './defects.ts'
import { activeHolders, findShard, holds, moveOf, requiredReplicas, type Shard } from './queries.ts'
import type { ClusterView, CopyFailure, Move } from './view.ts'

interface TrackedTransfer {
  transfer: ShardTransfer
  bytes: number
  /** What the engine last reported about it, without its clock. */
  progress: string
  /** When that changed, in monotonic milliseconds. */
  changedAt: number
  /** The engine has started it: it accepted the call, or has listed the transfer. */
  isStarted: boolean
  /** It creates a replica that takes the place of no other. */
  isCreation: boolean
}

/** A shard of which a copy has failed. */
type FailedShard = Pick<ShardTransfer, 'collection' | 'shard'> & Pick<CopyFailure, 'createdOn'>

/** A cluster that rejects all copies must not be asked for those of hundreds of shards. */
const MAX_GIVEN_UP = 10
/** Nor must a node without space get a replica of each of them, which the engine would copy again and again. */
const MAX_CREATED = 3

/** Without progress for this long, a transfer of few bytes is stuck. */
const STALL_MS = 1_800_000

/**
 * The engine reports no bytes of a snapshot that is downloaded: a stage may take as long as the
 * transfer of the whole shard does at the lowest rate that is expected.
 */
function stallMs(bytes: number): number {
  return STALL_MS + longCallTimeoutMs(bytes) - longCallTimeoutMs(0)
}

/**
 * With a mark on the transfers without progress that no Job has started. The engine and users may have a reason to
 * continue them, so that they are never aborted here.
 */
export function withStalled(
  view: ClusterView,
  own: readonly ShardTransfer[],
  { defects, nowMs, now }: { defects: Defects; nowMs: number; now: Date },
): ClusterView {
  const ownKeys = new Set(own.map(keyOf))
  const transfers = view.transfers.map((transfer) => {
    const ms = defects.msOf(transferDefect(transfer), nowMs)
    const bytes = findShard(view, transfer)?.bytes ?? 0
    if (ownKeys.has(keyOf(transfer)) || ms < stallMs(bytes)) return transfer
    const since = new Date(now.getTime() - ms).toISOString()
    return { ...transfer, stalledSince: since.replace(/\.\d{3}Z$/, 'Z') }
  })
  return { ...view, transfers }
}

/** Whether one of these transfers is in progress. */
export function isListed({ transfers }: ClusterView, known: readonly ShardTransfer[]): boolean {
  const keys = new Set(known.map(keyOf))
  return transfers.some((transfer) => keys.has(keyOf(transfer)))
}

export class Transfers {
  readonly #tracked = new Map<string, TrackedTransfer>()
  /** How often copies to a target have failed since one has succeeded. */
  readonly #failures = new Map<string, number>()
  /** Until all replicas of the shard are Active. */
  readonly #failedShards = new Map<string, FailedShard & CopyFailure>()
  readonly #newlyCompleted: (ShardTransfer & { isCreation?: true })[] = []
  readonly #replaced: Move[] = []
  /** Peers that get no further replica, and how the last copy to them has failed. */
  readonly #closed = new Map<number, string>()
  #bytesMoved = 0
  #completed = 0
  #activeMs = 0
  #observedAt: number | undefined

  /** Continues transfers of an earlier pod. */
  constructor(
    started: readonly (ShardTransfer & { isCreation?: boolean })[],
    now: number,
    failed: readonly FailedShard[] = [],
  ) {
    for (const { isCreation, ...transfer } of started) {
      this.start(transfer, { bytes: 0, now, isCreation: isCreation === true })
      // The replica may have been created, and its copy have failed since.
      if (isCreation === true) this.confirm(transfer)
    }
    for (const shard of failed) this.#failedShards.set(shardKey(shard), shard)
  }

  /** Shards of which a copy has failed. */
  get failed(): NonNullable<ShardsResult['failed']> {
    return [...this.#failedShards.values()].map(({ collection, shard, createdOn }) => ({
      ...{ collection, shard },
      ...(createdOn !== undefined && { createdOn: [...createdOn] }),
    }))
  }

  failureOf({
    collection,
    id: shard,
  }: {
    collection: string
    id: number
  }): CopyFailure | undefined {
    return this.#failedShards.get(shardKey({ collection, shard }))
  }

  /** No further copy of this shard to this node is to be made. Returns false if that is so of too many shards. */
  giveUp({ collection, shard, to }: ShardTransfer, message: string): boolean {
    const key = shardKey({ collection, shard })
    const known = this.#failedShards.get(key)
    const givenUp = new Map(known?.givenUp).set(to, message)
    this.#failedShards.set(key, { ...known, collection, shard, givenUp })
    const all = [...this.#failedShards.values()].filter((one) => one.givenUp !== undefined)
    return all.length < MAX_GIVEN_UP
  }

  /** Whether new replicas of too many shards on this target could not be filled. */
  isUnfillable({ to }: ShardTransfer): boolean {
    const all = [...this.#failedShards.values()].filter(({ createdOn }) => createdOn?.includes(to))
    return all.length >= MAX_CREATED
  }

  /** Absent if copies to all peers succeed. */
  get closed(): { closedTargets?: ReadonlyMap<number, string> } {
    return this.#closed.size === 0 ? {} : { closedTargets: this.#closed }
  }

  /** No further replica is to be created on the target. */
  close({ to }: ShardTransfer, message: string): void {
    this.#closed.set(to, message)
  }

  /** Transfers that have succeeded since the last call. */
  takeCompleted(): (ShardTransfer & { isCreation?: true })[] {
    return this.#newlyCompleted.splice(0)
  }

  /**
   * Replicas of which a copy was given up, and those that were created in their place since the last call. The engine may
   * fill the former meanwhile: then the shard has one too many.
   */
  takeReplaced(): Move[] {
    return this.#replaced.splice(0)
  }

  /** Whether it was started here and has not ended. */
  isRunning(transfer: ShardTransfer): boolean {
    return this.#tracked.has(keyOf(transfer))
  }

  /** Transfers that have started and not ended. */
  get running(): (ShardTransfer & { isCreation?: true })[] {
    return [...this.#tracked.values()].map(({ transfer, isCreation }) => ({
      ...transfer,
      ...(isCreation && { isCreation }),
    }))
  }

  get bytesRunning(): number {
    return [...this.#tracked.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get bytesMoved(): number {
    return this.#bytesMoved
  }

  get completed(): number {
    return this.#completed
  }

  /** Undefined before the first transfer has ended. */
  get bytesPerSecond(): number | undefined {
    return this.#activeMs === 0 || this.#bytesMoved === 0
      ? undefined
      : Math.round((this.#bytesMoved * 1000) / this.#activeMs)
  }

  start(
    { collection, shard, from, to, toShard }: ShardTransfer,
    { bytes, now, isCreation = false }: { bytes: number; now: number; isCreation?: boolean },
  ): void {
    const transfer = { collection, shard, from, to, ...(toShard !== undefined && { toShard }) }
    this.#tracked.set(keyOf(transfer), {
      transfer,
      bytes,
      progress: '',
      changedAt: now,
      isStarted: false,
      isCreation,
    })
  }

  /** The engine has accepted the call. */
  confirm(transfer: ShardTransfer): void {
    const tracked = this.#tracked.get(keyOf(transfer))
    if (tracked !== undefined) tracked.isStarted = true
  }

  /** A transfer that the engine did not start. Returns how often it has failed. */
  fail(transfer: ShardTransfer): number {
    const key = keyOf(transfer)
    const { isCreation = false, isStarted = false } = this.#tracked.get(key) ?? {}
    this.#tracked.delete(key)
    const target = targetKey(transfer)
    const failures = (this.#failures.get(target) ?? 0) + 1
    this.#failures.set(target, failures)
    const { collection, shard, to } = transfer
    const known = this.#failedShards.get(shardKey(transfer)) ?? { collection, shard }
    const createdOn = [...new Set([...(known.createdOn ?? []), to])]
    this.#failedShards.set(shardKey(transfer), {
      ...known,
      ...(isCreation && isStarted && { createdOn }),
    })
    return failures
  }

  /** Returns the transfers that have failed since the last observation. */
  observe(view: ClusterView, now: number): ShardTransfer[] {
    if (this.#observedAt !== undefined && this.#tracked.size > 0) {
      this.#activeMs += now - this.#observedAt
    }
    this.#observedAt = now
    if (view.broken !== undefined) return []
    const reported = new Map(view.transfers.map((transfer) => [keyOf(transfer), transfer]))
    const failed: ShardTransfer[] = []
    for (const [key, tracked] of this.#tracked) {
      const current = reported.get(key)
      if (current !== undefined) {
        tracked.isStarted = true
        updateProgress(tracked, current.comment ?? '', now)
      }
      // Nodes that have not applied the same changes may not list it yet, or not any more.
      else if (view.unsettled === undefined) {
        // The collection or the shard key was deleted meanwhile: nothing has failed.
        if (findShard(view, tracked.transfer) === undefined) this.#tracked.delete(key)
        // The target of a resharding looks the same before the first transfer: it is started again.
        else if (!tracked.isStarted && tracked.transfer.toShard !== undefined)
          this.#tracked.delete(key)
        else if (isComplete(view, tracked.transfer)) this.#complete(view, key, tracked)
        // The engine has not agreed on it in time: no copy has failed.
        else if (!tracked.isStarted && !hasTarget(view, tracked.transfer)) this.#tracked.delete(key)
        else failed.push(tracked.transfer)
      }
    }
    if (view.unsettled === undefined) this.#forgetFailures(view)
    return failed
  }

  /** Transfers in which nothing has happened for too long, as far as is known. */
  stalled(view: ClusterView, now: number): ShardTransfer[] {
    if (view.broken !== undefined) return []
    return [...this.#tracked.values()]
      .filter(({ transfer, changedAt }) => {
        const bytes = findShard(view, transfer)?.bytes ?? 0
        return now - changedAt >= stallMs(bytes)
      })
      .map(({ transfer }) => transfer)
  }

  #forgetFailures(view: ClusterView): void {
    for (const [key, failed] of this.#failedShards) {
      const shard = findShard(view, failed)
      if (shard === undefined || isWhole(view, shard)) this.#failedShards.delete(key)
      else if (failed.createdOn !== undefined) {
        const { createdOn, ...known } = failed
        // From then on the replica has points that may be needed.
        const empty = createdOn.filter((peer) => !isActive(shard, peer))
        this.#failedShards.set(key, { ...known, ...(empty.length > 0 && { createdOn: empty }) })
      }
    }
  }

  #complete(view: ClusterView, key: string, tracked: TrackedTransfer): void {
    const { transfer, bytes, isCreation } = tracked
    this.#newlyCompleted.push({ ...transfer, ...(isCreation && { isCreation }) })
    if (isCreation) this.#noteReplaced(view, transfer)
    this.#tracked.delete(key)
    this.#failures.delete(targetKey(transfer))
    this.#bytesMoved += bytes
    this.#completed += 1
  }

  /** Only if the shard has more replicas than it needs: a new one may also have been missing. */
  #noteReplaced(view: ClusterView, transfer: ShardTransfer): void {
    const shard = findShard(view, transfer)
    const givenUp = this.#failedShards.get(shardKey(transfer))?.givenUp
    const from = shard?.replicas.find(({ peer }) => givenUp?.has(peer) === true)?.peer
    if (shard === undefined || from === undefined || from === transfer.to) return
    if (shard.replicas.length <= requiredReplicas(view, shard, view.nodes)) return
    this.#replaced.push(moveOf(shard, from, transfer.to))
  }
}

function updateProgress(tracked: TrackedTransfer, comment: string, now: number): void {
  const progress = withoutClock(comment)
  if (progress === tracked.progress) return
  tracked.progress = progress
  tracked.changedAt = now
}

/** Of a resharding: the engine aborts all of it if a transfer fails. */
function isComplete(view: ClusterView, transfer: ShardTransfer): boolean {
  const { collection, shard, to, toShard = shard } = transfer
  const target = findShard(view, { collection, shard: toShard })
  const state = target?.replicas.find(({ peer }) => peer === to)?.state
  return state === (transfer.toShard === undefined ? 'Active' : 'Resharding')
}

function isActive({ replicas }: Shard, peer: number): boolean {
  return replicas.some((replica) => replica.peer === peer && replica.state === 'Active')
}

/** Nothing is left to be copied. */
function isWhole(view: ClusterView, shard: Shard): boolean {
  const areActive = shard.replicas.every(({ state }) => state === 'Active')
  return areActive && activeHolders(view, shard).length >= requiredReplicas(view, shard, view.nodes)
}

function shardKey({ collection, shard }: FailedShard): string {
  return `${collection}/${shard}`
}

function keyOf(transfer: ShardTransfer): string {
  return `${targetKey(transfer)}/${transfer.from}`
}

/** Copies to a target fail for the same reason, whichever node they come from. */
function targetKey({ collection, shard, to, toShard = shard }: ShardTransfer): string {
  return `${collection}/${shard}/${to}/${toShard}`
}

function hasTarget(view: ClusterView, transfer: ShardTransfer): boolean {
  const shard = findShard(view, transfer)
  return shard !== undefined && holds(shard, transfer.to)
}
