/**
 * What a Job has done to the shards, what it has begun and what is left: its report, from which the next
 * pod or Job continues.
 */
import type {
  FinishedSteps,
  ReshardingOutcome,
  ShardsPlan,
  ShardsResult,
  ShardStepKind,
} from '../../../crds/contract/shards-job.ts'
import type { ShardTransfer } from '../../clients/engine/shards.ts'
import type { Dependencies, RunResult } from '../../dependencies.ts'
import type { Report } from '../../reporter.ts'
import { unfinishedMoves } from './queries.ts'
import { afterTransfers, planAll } from './simulate.ts'
import type { Plan } from './step.ts'
import type { Transfers } from './transfers.ts'
import type { ClusterView, DesiredShards, Move, Obstruction } from './view.ts'

/** Interval in which the rest of the plan is counted. */
const ESTIMATE_MS = 30_000
/** Up to this number of shards, the plan is also counted before each step. */
const FEW_SHARDS = 200
/** Steps times shards: each step of a plan looks at every shard. */
const MAX_ESTIMATE = 200_000
/** Limits of the report. */
const MAX_STEP_TEXT = 512
const MAX_MOVES = 64
const MAX_FAILED = 16
const MAX_BLOCKED = 1000

export type FinalReport = Report & { state: RunResult }

interface Sources {
  transfers: Transfers
  resharding: () => ShardsResult['resharding']
  reshardings: () => readonly ReshardingOutcome[]
}

export class ShardsProgress {
  readonly startedAt: Date
  /** Number of nodes over which the shards were balanced last. */
  balancedNodes: number | undefined
  moves: Move[]
  removedPeer: ShardsResult['removedPeer']
  removedOrdinal: number | undefined
  /** The same, of an earlier Job that has ended by itself: it has waited for the end of the pod. */
  readonly formerOrdinal: number | undefined
  purpose: string | undefined
  /** Why no further node is updated. */
  blocked: Obstruction | undefined
  readonly #tools: Dependencies
  readonly #sources: Sources
  readonly #previousSteps: number
  readonly #previousBytes: number
  #steps = 0
  readonly #finished: Map<ShardStepKind, FinishedSteps>
  #estimate = { at: -Infinity, steps: 0, bytes: 0 }
  /** The step in progress, for reports that are written during it. */
  #stepText = ''

  constructor({ run }: Pick<ShardsPlan, 'run'>, tools: Dependencies, sources: Sources) {
    this.#tools = tools
    this.#sources = sources
    const { previous } = tools.reporter
    const earlier = previous?.shards
    // Another Job starts its own count; unfinished moves and removals are continued by any.
    const isSameJob = previous?.run === run
    const isContinued = isSameJob && earlier !== undefined
    this.startedAt = isContinued ? new Date(earlier.startedAt) : tools.time.now()
    this.#previousSteps = isSameJob ? (earlier?.stepsDone ?? 0) : 0
    this.#previousBytes = isSameJob ? (earlier?.bytesMoved ?? 0) : 0
    const finished = isSameJob ? (earlier?.finished ?? []) : []
    this.#finished = new Map(finished.map((steps) => [steps.step, steps]))
    // That the number of shards has changed was reported by that Job: the balance may be done since.
    const isChange = earlier?.balancedNodes === 0 && !isSameJob
    this.balancedNodes = isChange ? undefined : earlier?.balancedNodes
    this.moves = earlier?.moves ?? []
    this.removedPeer = earlier?.removedPeer
    this.removedOrdinal = earlier?.removedOrdinal
    const hasWaited = !isSameJob && previous?.state !== 'Started'
    this.formerOrdinal = hasWaited ? earlier?.removedOrdinal : undefined
  }

  beginStep(text: string): void {
    this.#stepText = text
  }

  endStep(step: ShardStepKind, text: string): void {
    this.#steps += 1
    this.count(step, text)
  }

  /** For Events and metrics. */
  count(step: ShardStepKind, text?: string): void {
    const count = (this.#finished.get(step)?.count ?? 0) + 1
    const last = text?.slice(0, MAX_STEP_TEXT)
    this.#finished.set(step, { step, count, ...(last !== undefined && { last }) })
  }

  countCopies(completed: readonly (ShardTransfer & { isCreation?: true })[]): void {
    for (const transfer of completed) {
      const isNew = transfer.isCreation === true || this.isMove(transfer)
      if (transfer.toShard !== undefined) this.count('reshard')
      else this.count(isNew ? 'replicate' : 'repair')
    }
  }

  /** Resolves when the report is stored. */
  checkpoint(text = this.#stepText): Promise<void> {
    return this.#tools.reporter.checkpoint(text, { shards: this.#result(text) })
  }

  report(message: string, step = message): Promise<void> {
    return this.#tools.reporter.progress(message, { shards: this.#result(step) })
  }

  done(view: ClusterView, { balance }: Pick<ShardsPlan, 'balance'>): FinalReport {
    this.#estimate = { at: 0, steps: 0, bytes: 0 }
    return {
      state: 'Done',
      shards: { ...this.#result(), ...(balance && { balancedNodes: view.nodes }) },
    }
  }

  /** Steps are left for the next Job. */
  paused(): FinalReport {
    return { state: 'Done', shards: { ...this.#result(), isYielded: true } }
  }

  ended(state: 'Failed' | 'Refused', reason: string, message: string): FinalReport {
    return { state, reason, message, shards: this.#result() }
  }

  /** Whether this transfer creates the target of a move. */
  isMove({ collection, shard, to }: Pick<ShardTransfer, 'collection' | 'shard' | 'to'>): boolean {
    return this.moves.some(
      (move) => move.collection === collection && move.shard === shard && move.to === to,
    )
  }

  /** The move is complete, or its target is gone. */
  forgetMoves(view: ClusterView): void {
    if (view.unsettled !== undefined || view.broken !== undefined) return
    this.moves = unfinishedMoves(view, this.moves)
  }

  /** The pod is gone; or its peer was not removed, or another one is a member in its place. */
  forgetRemoval({ unsettled, broken, nodes, peers }: ClusterView): void {
    const removed = this.removedPeer
    if (removed === undefined || unsettled !== undefined || broken !== undefined) return
    const isListed = peers.some(
      ({ id, ordinal, isMember }) =>
        id === removed.peer || (isMember && ordinal === removed.ordinal),
    )
    if (isListed || nodes !== removed.ordinal + 1) this.removedPeer = undefined
  }

  /**
   * Counting the whole plan costs more than planning one step. With many shards it would take minutes, in
   * which this process neither reports nor observes, so only the beginning of the plan is counted, and not
   * before each step.
   */
  updateEstimate(view: ClusterView, desired: DesiredShards, decision: Plan): void {
    const now = this.#tools.time.now().getTime()
    const shards = view.collections.reduce((sum, collection) => sum + collection.shards.length, 1)
    const isDue = decision.is === 'step' && shards <= FEW_SHARDS
    if (!isDue && now - this.#estimate.at < ESTIMATE_MS) return
    const maxSteps = Math.ceil(MAX_ESTIMATE / shards)
    const { steps } = planAll(afterTransfers(view), desired, maxSteps)
    const bytes = steps.reduce((sum, step) => sum + step.bytes, 0)
    this.#estimate = { at: now, steps: steps.length, bytes }
  }

  #result(step?: string): ShardsResult {
    const { running, failed, completed, bytesMoved, bytesRunning, bytesPerSecond } =
      this.#sources.transfers
    const resharding = this.#sources.resharding()
    const reshardings = this.#sources.reshardings()
    const bytesLeft = this.#estimate.bytes + bytesRunning
    return {
      startedAt: this.startedAt.toISOString(),
      ...(step !== undefined && { step: step.slice(0, MAX_STEP_TEXT) }),
      ...(step !== undefined && this.purpose !== undefined && { purpose: this.purpose }),
      stepsDone: this.#previousSteps + this.#steps + completed,
      ...(this.#finished.size > 0 && { finished: [...this.#finished.values()] }),
      stepsLeft: this.#estimate.steps + running.length,
      bytesMoved: this.#previousBytes + bytesMoved,
      bytesLeft,
      ...(bytesPerSecond !== undefined && {
        bytesPerSecond,
        secondsLeft: Math.ceil(bytesLeft / Math.max(1, bytesPerSecond)),
      }),
      ...(this.balancedNodes !== undefined && { balancedNodes: this.balancedNodes }),
      moves: this.moves.slice(-MAX_MOVES),
      ...(running.length > 0 && { transfers: running.slice(-MAX_MOVES) }),
      ...(failed.length > 0 && { failed: failed.slice(0, MAX_FAILED) }),
      ...(resharding !== undefined && { resharding }),
      ...(reshardings.length > 0 && { reshardings: [...reshardings] }),
      ...(this.removedPeer !== undefined && { removedPeer: this.removedPeer }),
      ...(this.removedOrdinal !== undefined && { removedOrdinal: this.removedOrdinal }),
      ...(this.blocked !== undefined && {
        blocked: { ...this.blocked, message: this.blocked.message.slice(0, MAX_BLOCKED) },
      }),
    }
  }
}
