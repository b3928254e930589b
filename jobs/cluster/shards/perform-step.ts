/**
 * Performs the steps of a plan. What cannot be taken back is reported before the engine or Kubernetes
 * is asked for it.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { Engine } from '../../clients/engine/client.ts'
import { EngineResharding } from '../../clients/engine/resharding.ts'
import { EngineShards, type ShardTransfer } from '../../clients/engine/shards.ts'
import type { Dependencies } from '../../dependencies.ts'
import { isKubernetesError } from '../../reporter.ts'
import { describeStep, describeTransfer } from './describe.ts'
import type { ObservationMemory } from './observe.ts'
import type { FinalReport, ShardsProgress } from './progress.ts'
import { findShard } from './queries.ts'
import type { ReshardingSteps } from './resharding-steps.ts'
import {
  finishRemoval,
  markFormerNode,
  releaseNode,
  restartFailedPod,
  returnReason,
  scaleDown,
} from './stateful-set.ts'
import { isReshardingStep, type ReshardingStep, type Step } from './step.ts'
import type { Transfers } from './transfers.ts'
import type { ClusterView, Move } from './view.ts'

type TransferStep = Extract<Step, { do: 'replicate' | 'repair' | 'streamPoints' }>

const MAX_FAILURES = 3
/** How long a Job waits until the pod of a removed node has ended. */
const REMOVAL_MS = 600_000
/** How long a step is repeated that fails without being rejected, such as on a full disk. */
const FAILING_MS = 600_000
/** Failures that are further apart are not those of one cause. */
const MAX_FAILURE_GAP_MS = 60_000
const ALREADY_RUNNING = /is already involved in transfer/

interface Parts {
  plan: ShardsPlan
  tools: Dependencies
  progress: ShardsProgress
  transfers: Transfers
  resharding: ReshardingSteps
  memory: ObservationMemory
}

export class StepRunner {
  /** The last step, if it updates a node: it continues while the node restarts. */
  updateStep: string | undefined
  readonly #plan: ShardsPlan
  readonly #tools: Dependencies
  readonly #progress: ShardsProgress
  readonly #transfers: Transfers
  readonly #resharding: ReshardingSteps
  readonly #memory: ObservationMemory
  /** How often a step was rejected, by its description. */
  readonly #rejections = new Map<string, number>()
  /** Since when this pod has waited for the pod of a removed node, in monotonic milliseconds. */
  #removalSince: number | undefined
  #hasRestartedPods = false
  /** The first and the last failure of the same step since one has succeeded, in monotonic milliseconds. */
  #failing: { step: string; since: number; at: number; reason: string; message: string } | undefined
  /** The last transfer that failed, until its target is Active. The target of a move is dropped meanwhile. */
  #failed:
    { transfer: ShardTransfer; message: string; isMove: boolean; isUndone?: true } | undefined

  constructor({ plan, tools, progress, transfers, resharding, memory }: Parts) {
    this.#plan = plan
    this.#tools = tools
    this.#progress = progress
    this.#transfers = transfers
    this.#resharding = resharding
    this.#memory = memory
  }

  async perform(
    view: ClusterView,
    step: Step,
    bytes: number,
  ): Promise<'again' | 'retry' | FinalReport> {
    const { log, reporter } = this.#tools
    const text = describeStep(view, step)
    this.#progress.beginStep(text)
    await reporter.verifyOwnership()
    log.info({ step: text, purpose: this.#progress.purpose, bytes }, 'step started')
    this.#forgetFailure()
    try {
      const answer = await this.#carryOut(view, step, bytes)
      this.#failing = undefined
      if (answer !== 'done') return answer
      this.#progress.endStep(isReshardingStep(step) ? 'reshard' : step.do, text)
      this.updateStep = step.do === 'updateNode' ? text : undefined
      this.#rejections.delete(text)
      if (step.do === 'drop') this.#noteDrop(step)
      await this.#progress.report(text)
      return 'again'
    } catch (error) {
      return this.#rejected(view, { step, text, error })
    }
  }

  /**
   * A pod of this Job that was killed may have removed the peer of a lost node, and not have restarted the pod of that node,
   * which joins in up to five minutes by itself.
   */
  async restartReplacedNodes({ broken, peers }: ClusterView): Promise<void> {
    if (this.#hasRestartedPods || broken !== undefined) return
    this.#hasRestartedPods = true
    for (const { peer, ordinal } of this.#plan.losses ?? []) {
      const isListed = peers.some(
        (one) => one.id === peer || (one.ordinal === ordinal && one.isMember),
      )
      if (!isListed) await restartFailedPod(ordinal, this.#plan, this.#tools)
    }
  }

  /**
   * Completes the removal of a node that this Job, or one before it, has begun. A pod whose Kubernetes node
   * does not answer exists until a user deletes that node. Nothing may wait for that: once the pod is gone,
   * another Job deletes its volume. Until then, Jobs do what else is due.
   */
  async finishRemoval(): Promise<'done' | 'wait' | FinalReport> {
    const ordinal = this.#progress.removedOrdinal
    if (ordinal === undefined) return 'done'
    const text = `removing node ${ordinal}`
    const result = await finishRemoval(ordinal, this.#plan, this.#tools)
    if (result === 'volume deleted') {
      this.#progress.count('deleteVolume', `deleting the volume of node ${ordinal}`)
    }
    const now = this.#tools.time.monotonicMs()
    this.#removalSince = result !== 'waiting' ? undefined : (this.#removalSince ?? now)
    if (this.#removalSince === undefined) {
      this.#progress.removedOrdinal = undefined
      await this.#progress.checkpoint(text)
      return 'done'
    }
    if (ordinal === this.#progress.formerOrdinal) return 'done'
    if (now - this.#removalSince < REMOVAL_MS) {
      await this.#progress.report(text)
      return 'wait'
    }
    this.#tools.log.warn({ ordinal }, 'the pod of a removed node still exists')
    return this.#progress.paused()
  }

  /**
   * Returns the report of a Job that ends because this transfer failed too often. A repair that fails is given up,
   * so that those of other shards are made. After a move that fails, or several new replicas, other nodes get shards.
   */
  countFailure(
    transfer: ShardTransfer,
    view: ClusterView,
    rejection?: string,
  ): FinalReport | undefined {
    const reason = rejection ?? 'it ended without an Active replica'
    const isMove = this.#progress.isMove(transfer)
    const failures = this.#transfers.fail(transfer)
    const times = failures === 1 ? 'once' : `${failures} times`
    const text = `${describeTransfer(view, transfer)} failed ${times}: ${reason}`
    this.#failed = { transfer, message: text, isMove }
    this.#tools.log.warn({ failures, reason }, `${describeTransfer(view, transfer)} failed`)
    if (this.#transfers.isUnfillable(transfer)) this.#transfers.close(transfer, text)
    if (failures < MAX_FAILURES) return undefined
    if (isMove && rejection === undefined) {
      this.#transfers.close(transfer, text)
      return undefined
    }
    const mayContinue = this.#progress.purpose === 'repair' && transfer.toShard === undefined
    if (mayContinue && this.#transfers.giveUp(transfer, text)) return undefined
    return this.#progress.ended('Failed', 'TransferFailed', text)
  }

  /** The target of the move has fewer points than the source. Returns the message about it. */
  undoMove(move: Move, reason: string): string {
    const message = `the move of ${move.collection}/${move.shard} was undone: ${reason}`
    this.#failed = { transfer: move, message, isMove: true, isUndone: true }
    return message
  }

  /** The report of a Job that has undone a move, and made no other one in its place: the shard is not where it should be. */
  undoneMove(): FinalReport | undefined {
    if (this.#failed?.isUndone !== true) return undefined
    return this.#progress.ended('Failed', 'TransferFailed', this.#failed.message)
  }

  /** A transfer has failed, and its target is not Active since; or the present step fails again and again. */
  unsolvedFailure(view: ClusterView): FinalReport | undefined {
    this.#forgetFailure()
    if (this.#failing !== undefined && this.#failing.at > this.#failing.since) {
      return this.#progress.ended('Failed', this.#failing.reason, this.#failing.message)
    }
    if (this.#failed === undefined) return undefined
    const { transfer, message, isMove } = this.#failed
    const shard = findShard(view, transfer)
    const target = shard?.replicas.find(({ peer }) => peer === transfer.to)
    const isSolved = target === undefined ? !isMove : target.state === 'Active'
    if (shard === undefined || isSolved) return undefined
    return this.#progress.ended('Failed', 'TransferFailed', message)
  }

  /** The shard was moved to another node. */
  #noteDrop({ collection, shard, peer }: Extract<Step, { do: 'drop' }>): void {
    const { transfer } = this.#failed ?? {}
    const isSame = transfer?.collection === collection && transfer.shard === shard
    if (isSame && transfer.to !== peer) this.#failed = undefined
  }

  async abortStalled(view: ClusterView): Promise<void> {
    const { log, reporter, signal, time } = this.#tools
    for (const transfer of this.#transfers.stalled(view, time.monotonicMs())) {
      await reporter.verifyOwnership()
      log.warn(transfer, 'aborting a transfer without progress')
      await this.#engine(view)
        .abort(transfer, signal)
        .catch((error: unknown) => {
          if (!(error instanceof EngineError)) throw error
          // It may have ended by itself: the next observation shows that.
          log.warn({ ...transfer, reason: error.message }, 'transfer not aborted')
        })
    }
  }

  /** Why the node of this step must not be given up. */
  async unprovenLoss(step: Step): Promise<string | undefined> {
    if (step.do !== 'drop' && step.do !== 'removePeer') return undefined
    const loss = this.#plan.losses?.find(({ peer }) => peer === step.peer)
    return loss && returnReason(loss, this.#plan, this.#tools)
  }

  /** `again`: a transfer was started, and is complete when its target is Active. */
  async #carryOut(
    view: ClusterView,
    step: Step,
    bytes: number,
  ): Promise<'done' | 'again' | 'retry' | FinalReport> {
    const { signal } = this.#tools
    switch (step.do) {
      case 'replicate':
      case 'repair':
        // The next pod must know of the move: it drops the source, or knows that it must not.
        if (step.do === 'replicate' && step.move !== undefined) this.#progress.moves.push(step.move)
        await this.#startTransfer(step, bytes)
        await this.#engine(view).replicate(step, signal)
        this.#transfers.confirm(step)
        return 'again'
      case 'streamPoints':
        await this.#startTransfer(step, bytes)
        await new EngineResharding(this.#memberEngine(view)).stream(step, signal)
        this.#transfers.confirm(step)
        return 'again'
      case 'startResharding':
      case 'finishMigration':
      case 'commitRead':
      case 'cleanReplica':
      case 'commitWrite':
      case 'finishResharding':
      case 'checkReplica':
      case 'abortResharding':
        return this.#reshard(view, step)
      case 'drop':
        await this.#engine(view, step.peer).drop(step.collection, step.shard, step.peer, signal)
        return 'done'
      case 'removePeer':
        return this.#removePeer(view, step)
      case 'scaleDown':
        this.#progress.removedOrdinal = step.nodes
        await this.#progress.checkpoint()
        await scaleDown(step.nodes, this.#plan, this.#tools)
        // Until here the next Job has to know that the pod must go.
        this.#progress.removedPeer = undefined
        return 'done'
      case 'updateNode':
        return this.#updateNode(view, step.ordinal)
    }
  }

  async #updateNode({ update }: ClusterView, ordinal: number): Promise<'done' | 'retry'> {
    if (update === undefined) return 'retry'
    // Its replicas miss the changes that are made while it restarts.
    this.#memory.equal.clear()
    const released = await releaseNode(ordinal, update, this.#plan, this.#tools)
    // An Event of its own, and not of a node that is left as it is.
    if (released === 'done') await this.#progress.checkpoint()
    return released
  }

  async #startTransfer(step: TransferStep, bytes: number): Promise<void> {
    const isCreation = step.do === 'replicate' && step.move === undefined
    this.#transfers.start(step, { bytes, now: this.#tools.time.monotonicMs(), isCreation })
    await this.#progress.checkpoint()
  }

  async #reshard(
    view: ClusterView,
    step: Exclude<ReshardingStep, { do: 'streamPoints' }>,
  ): Promise<'done' | 'retry' | FinalReport> {
    const outcome = await this.#resharding.perform(view, step)
    if (outcome === 'done') return 'done'
    if (outcome === 'again later') return 'retry'
    return this.#progress.ended('Failed', 'ReshardingFailed', outcome.failure)
  }

  async #removePeer(
    view: ClusterView,
    { peer, ordinal, isUnlisted }: Extract<Step, { do: 'removePeer' }>,
  ): Promise<'done' | 'retry'> {
    if (ordinal !== undefined && ordinal >= Math.max(this.#plan.nodes, view.nodes)) {
      if (!(await markFormerNode(ordinal, this.#plan, this.#tools))) return 'retry'
    } else if (ordinal !== undefined && ordinal >= this.#plan.nodes) {
      // From here on its pod must go, whatever a user wants then: it cannot join again.
      this.#progress.removedPeer = { ordinal, peer }
      await this.#progress.checkpoint()
    }
    await this.#engine(view, peer).removePeer(peer, {
      signal: this.#tools.signal,
      isForced: isUnlisted === true,
    })
    const isReplaced = ordinal !== undefined && ordinal < this.#plan.nodes
    if (isReplaced) await restartFailedPod(ordinal, this.#plan, this.#tools)
    return 'done'
  }

  /**
   * The step was rejected, or its answer was lost. The next observation shows what is the case, so
   * nothing is repeated blindly.
   */
  async #rejected(
    view: ClusterView,
    { step, text, error }: { step: Step; text: string; error: unknown },
  ): Promise<'retry' | FinalReport> {
    const { log, signal } = this.#tools
    signal.throwIfAborted()
    if (!(error instanceof EngineError) && !isKubernetesError(error)) throw error
    log.warn({ step: text, reason: error.message }, 'step failed')
    // Kubernetes or another client has changed the StatefulSet meanwhile.
    if (step.do === 'updateNode' && error.status === 409) return 'retry'
    if (ALREADY_RUNNING.test(error.message)) return 'retry'
    const reason = isReshardingStep(step) ? 'ReshardingFailed' : 'TransferFailed'
    const isRejection = error.status !== undefined && error.status < 500
    if (!isRejection) return this.#repeatedFailure(reason, text, error.message)
    if (step.do === 'replicate' || step.do === 'repair' || step.do === 'streamPoints') {
      return this.countFailure(step, view, error.message) ?? 'retry'
    }
    const rejections = (this.#rejections.get(text) ?? 0) + 1
    this.#rejections.set(text, rejections)
    if (rejections < MAX_FAILURES) return 'retry'
    const message = `${text} failed ${rejections} times: ${error.message}`
    return this.#progress.ended('Failed', reason, message)
  }

  /** The cause may pass. If it does not, a helm run may have to remove it, and waits for the end of the Job. */
  async #repeatedFailure(
    reason: string,
    step: string,
    error: string,
  ): Promise<'retry' | FinalReport> {
    const at = this.#tools.time.monotonicMs()
    // Another step: the one before has been completed although its answer was an error.
    const { since } = this.#failing?.step === step ? this.#failing : { since: at }
    const message = `${step} failed: ${error}`
    this.#failing = { step, since, at, reason, message }
    if (at - since >= FAILING_MS) return this.#progress.ended('Failed', reason, message)
    await this.#progress.report(message)
    return 'retry'
  }

  #forgetFailure(): void {
    const { at = Infinity } = this.#failing ?? {}
    if (this.#tools.time.monotonicMs() - at > MAX_FAILURE_GAP_MS) this.#failing = undefined
  }

  /** A member that answers, other than this peer. */
  #engine(view: ClusterView, except?: number): EngineShards {
    return new EngineShards(this.#memberEngine(view, except))
  }

  #memberEngine(view: ClusterView, except?: number): Engine {
    const peer = view.peers
      .filter(({ id, isMember, ordinal }) => isMember && ordinal !== undefined && id !== except)
      .toSorted((a, b) => (a.ordinal ?? 0) - (b.ordinal ?? 0))[0]
    if (peer?.ordinal === undefined) throw new EngineError('no other node answers')
    return this.#tools.engineForPod(this.#plan.cluster, peer.ordinal)
  }
}
