/**
 * Performs the steps of a plan. What cannot be taken back is reported before the engine or Kubernetes
 * is asked for it.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { Engine } from '../../clients/engine/client.ts'
import { EngineResharding } from '../../clients/engine/resharding.ts'
import { EngineShards, type ShardTransfer } from '../../clients/engine/shards.ts'
import { ignoreEngineError } from '../../clients/engine/statistics.ts'
import type { Dependencies } from '../../dependencies.ts'
import { isKubernetesError } from '../../reporter.ts'
import { describeStep, describeTransfer } from './describe.ts'
import { countPoints } from './differences.ts'
import type { ObservationMemory } from './observe.ts'
import type { FinalReport, ShardsProgress } from './progress.ts'
import {
  activeElsewhere,
  describeShard,
  findShard,
  isMember,
  peerName,
  type Shard,
} from './queries.ts'
import type { ReshardingSteps } from './resharding-steps.ts'
import {
  deleteLostClaim,
  finishRemoval,
  isPodStable,
  markFormerNode,
  releaseNode,
  restartFailedPod,
  returnReason,
  scaleDown,
} from './stateful-set.ts'
import { copyWithDrop, isReshardingStep, type ReshardingStep, type Step } from './step.ts'
import type { Transfers } from './transfers.ts'
import type { ClusterView } from './view.ts'

type TransferStep = Extract<Step, { do: 'replicate' | 'repair' | 'streamPoints' }>

const MAX_FAILURES = 3
/** How long a Job waits until the pod of a removed node has ended. */
const REMOVAL_MS = 600_000
/** How long a step is repeated that fails without being rejected, such as on a full disk. */
const FAILING_MS = 600_000
/** For how long the last other replica may have fewer points than one that is to be dropped. */
const FEWER_POINTS_MS = 300_000
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
  /** The first and the last failure since a step has succeeded, in monotonic milliseconds. */
  #failing: { since: number; at: number; reason: string; message: string } | undefined
  /** The drop that waits for points of the remaining replica, and since when, in monotonic milliseconds. */
  #fewer: { shard: string; since: number } | undefined
  /** The last transfer that failed, until its target is Active. The target of a move is dropped meanwhile. */
  #failed: { transfer: ShardTransfer; message: string; isMove: boolean } | undefined

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
      this.#progress.count('deleteVolume', deletionOf(ordinal))
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
    const loss = this.#lossOf(step.peer)
    return loss && returnReason(loss, this.#plan, this.#tools)
  }

  #lossOf(peer: number) {
    return this.#plan.losses?.find((loss) => loss.peer === peer)
  }

  /** Why the replica must not be dropped now; a report if a user has to decide that. */
  async unsafeDrop(
    view: ClusterView,
    step: Extract<Step, { do: 'drop' }>,
  ): Promise<string | FinalReport | undefined> {
    return this.#unsafeCopy(view, step) ?? (await this.#unsafeReplica(view, step))
  }

  /** Also copies that were started a moment ago. Those from and to a lost node fail on every node. */
  #unsafeCopy(
    view: ClusterView,
    { collection, shard, peer }: Extract<Step, { do: 'drop' }>,
  ): string | undefined {
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
  async #unsafeReplica(
    view: ClusterView,
    step: Extract<Step, { do: 'drop' }>,
  ): Promise<string | FinalReport | undefined> {
    const shard = findShard(view, step)
    const state = shard?.replicas.find(({ peer }) => peer === step.peer)?.state
    // Some nodes write to a disputed one, too.
    if (shard === undefined || (state !== 'Active' && state !== 'Disputed')) return undefined
    const dropped = view.peers.find(({ id }) => id === step.peer)
    if (dropped?.ordinal === undefined || !dropped.isMember) return undefined
    const [remaining, ...others] = activeElsewhere(view, shard, step.peer)
    const ordinal = view.peers.find(({ id }) => id === remaining)?.ordinal
    if (others.length > 0 || ordinal === undefined) return undefined
    if (!(await isPodStable(ordinal, this.#plan, this.#tools))) {
      return `${describeShard(shard)} on ${peerName(view, step.peer)} is kept until node ${ordinal}, which has the other replica, is ready`
    }
    return this.#fewerPoints(shard, { dropped: dropped.ordinal, remaining: ordinal })
  }

  /**
   * The engine calls replicas Active that miss acknowledged writes: of a client that did not wait for them, or of a node
   * that had lost the others. With the last other replica, these would be lost. The replica that is to be dropped is
   * counted before and after the remaining one, so that points which clients add or delete meanwhile make no difference.
   */
  async #fewerPoints(
    shard: Shard,
    { dropped, remaining }: { dropped: number; remaining: number },
  ): Promise<string | FinalReport | undefined> {
    const count = (ordinal: number) => {
      const engine = new EngineShards(this.#tools.engineForPod(this.#plan.cluster, ordinal))
      return countPoints(engine, shard, this.#tools.signal).catch(ignoreEngineError)
    }
    const before = await count(dropped)
    const found = await count(remaining)
    const after = await count(dropped)
    const isCounted = before !== undefined && found !== undefined && after !== undefined
    if (isCounted && found >= Math.min(before, after)) {
      this.#fewer = undefined
      return undefined
    }
    const name = describeShard(shard)
    const since = this.#tools.time.monotonicMs()
    if (this.#fewer?.shard !== name) this.#fewer = { shard: name, since }
    const message = isCounted
      ? `${name} on node ${dropped} is kept: it has ${after} points, and the only other Active replica, on node ${remaining}, has ${found}`
      : `${name} on node ${dropped} is kept: its points or those of the only other Active replica, on node ${remaining}, are not counted`
    if (since - this.#fewer.since < FEWER_POINTS_MS) return message
    return this.#progress.ended('Refused', 'PointsMissing', message)
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
    { peer, ordinal }: Extract<Step, { do: 'removePeer' }>,
  ): Promise<'done' | 'retry'> {
    if (ordinal !== undefined && ordinal >= Math.max(this.#plan.nodes, view.nodes)) {
      if (!(await markFormerNode(ordinal, this.#plan, this.#tools))) return 'retry'
    } else if (ordinal !== undefined && ordinal >= this.#plan.nodes) {
      // From here on its pod must go, whatever a user wants then: it cannot join again.
      this.#progress.removedPeer = { ordinal, peer }
      await this.#progress.checkpoint()
    }
    const isReplaced = ordinal !== undefined && ordinal < this.#plan.nodes
    const loss = this.#lossOf(peer)
    if (isReplaced && loss !== undefined) {
      const isDeleted = await deleteLostClaim(loss, this.#plan, this.#tools)
      if (isDeleted) this.#progress.count('deleteVolume', deletionOf(ordinal))
    }
    await this.#engine(view, peer).removePeer(peer, this.#tools.signal)
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
    if (!isRejection) return this.#repeatedFailure(reason, `${text} failed: ${error.message}`)
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
  async #repeatedFailure(reason: string, message: string): Promise<'retry' | FinalReport> {
    const at = this.#tools.time.monotonicMs()
    const { since } = this.#failing ?? { since: at }
    this.#failing = { since, at, reason, message }
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

function deletionOf(ordinal: number): string {
  return `deleting the volume of node ${ordinal}`
}
