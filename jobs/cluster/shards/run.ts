/**
 * `cluster shards`: works on the shards of a VecCluster, one step at a time. Each step is planned
 * from a new observation, so that a pod which is killed anywhere needs no more than its report to
 * continue, and a change by a user or by the engine is never overlooked.
 */
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { StatefulSet } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { ShardsPlan, ShardsResult } from '../../../crds/contract/shards-job.ts'
import type { Engine } from '../../clients/engine/client.ts'
import { EngineShards, type ShardTransfer } from '../../clients/engine/shards.ts'
import type { Dependencies, RunResult } from '../../dependencies.ts'
import { isKubernetesError, type Report } from '../../reporter.ts'
import { isTransient } from '../../retry.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { describeStep, describeTransfer } from './describe.ts'
import { newObservationMemory, observeShards } from './observe.ts'
import { planShards } from './plan.ts'
import {
  activeElsewhere,
  activeHolders,
  findShard,
  hasDefect,
  peerName,
  unfinishedMoves,
} from './queries.ts'
import {
  finishRemoval,
  isPodStable,
  readStatefulSet,
  restartFailedPod,
  scaleDown,
} from './removal.ts'
import { readPods, releaseNode, withUpdate } from './rollout.ts'
import { EngineResharding } from '../../clients/engine/resharding.ts'
import { ReshardingSteps } from './resharding-steps.ts'
import { afterTransfers, planAll } from './simulate.ts'
import type { Plan, ReshardingStep, Step } from './step.ts'
import { Transfers } from './transfers.ts'
import { closedGate } from './update.ts'
import type { ClusterView, DesiredShards, Move } from './view.ts'

/** The number of nodes that a user wants now. */
const DesiredNodes = Type.Object({
  metadata: Type.Object({ generation: Type.Optional(Type.Integer()) }),
  spec: Type.Object({ replicas: Type.Integer() }),
})

/** The number of shards that a user wants now. */
const DesiredCollection = Type.Object({
  spec: Type.Object({ shardNumber: Type.Optional(Type.Integer()) }),
})

const POLL_MS = 2_000
/** A transfer that takes long is observed less often. */
const MAX_POLL_MS = 10_000
/** After this long, backups and helm runs that wait for the Lease can run. */
const YIELD_MS = 600_000
/** Pods that are being restarted may leave a cluster without a majority for a while. */
const BROKEN_MS = 60_000
/** The rest of the plan is counted again after this long. */
const ESTIMATE_MS = 30_000
const MAX_FAILURES = 3
/** Limits of the report. */
const MAX_STEP_TEXT = 512
const MAX_MOVES = 64
const MAX_BLOCKED = 1000

export async function manageShards(plan: ShardsPlan, tools: Dependencies): Promise<RunResult> {
  const run = new ShardsRun(plan, tools)
  const report = await run.execute()
  if (report.state !== 'Done') tools.log.error(report, 'attempt failed')
  await tools.reporter.finish(report)
  return report.state
}

type FinalReport = Report & { state: RunResult }

/** Why no further step is started, although steps are left. */
type Pause = 'yield' | 'outdated'

class ShardsRun {
  readonly #plan: ShardsPlan
  readonly #tools: Dependencies
  readonly #memory = newObservationMemory()
  readonly #transfers: Transfers
  readonly #resharding: ReshardingSteps
  readonly #startedAt: Date
  readonly #previousSteps: number
  readonly #previousBytes: number
  readonly #previousBalance: number | undefined
  /** How often a step was rejected, by its description. */
  readonly #rejections = new Map<string, number>()
  #moves: Move[]
  #removedOrdinal: number | undefined
  /** The last transfer that failed, until its target is Active. */
  #failed: { transfer: ShardTransfer; message: string } | undefined
  #steps = 0
  /** Since when replicas have not been as they should be, in milliseconds. */
  #defectSince: number | undefined
  #brokenSince: number | undefined
  /** spec.replicas when this pod first read it. */
  #replicas: number | undefined
  #estimate = { at: -Infinity, steps: 0, bytes: 0 }
  #purpose: string | undefined
  /** With the number of shards as last read. */
  #reshardingPlan: ShardsPlan['resharding']
  /** The step in progress, for reports that are written during it. */
  #stepText = ''
  /** metadata.generation of the VecCluster when this pod first read it. */
  #generation: number | undefined
  /** The last step, if it updates a node: it continues while the node restarts. */
  #updateStep: string | undefined
  /** Why no further node is updated. */
  #blocked: ConditionReason | undefined

  constructor(plan: ShardsPlan, tools: Dependencies) {
    this.#plan = plan
    this.#tools = tools
    const previous = tools.reporter.previous
    const earlier = previous?.shards
    // Another Job starts its own count; unfinished moves and removals are continued by any.
    const isSameJob = previous?.run === plan.run
    const now = tools.time.now()
    this.#startedAt = isSameJob && earlier !== undefined ? new Date(earlier.startedAt) : now
    this.#previousSteps = isSameJob ? (earlier?.stepsDone ?? 0) : 0
    this.#previousBytes = isSameJob ? (earlier?.bytesMoved ?? 0) : 0
    this.#previousBalance = earlier?.balancedNodes
    this.#moves = earlier?.moves ?? []
    this.#removedOrdinal = earlier?.removedOrdinal
    this.#transfers = new Transfers(earlier?.transfers ?? [], now.getTime())
    this.#resharding = new ReshardingSteps(plan.uid, earlier?.resharding, {
      dependencies: tools,
      engineOf: (ordinal) => tools.engineForPod(plan.cluster, ordinal),
      save: () =>
        tools.reporter.checkpoint(this.#stepText, { shards: this.#result(this.#stepText) }),
    })
    if (plan.deadSeconds > 0) this.#defectSince = now.getTime() - plan.deadSeconds * 1000
  }

  async execute(): Promise<FinalReport> {
    const { time, signal } = this.#tools
    for (let pauseMs = POLL_MS; ;) {
      const result = await this.#round()
      if (result === 'again') {
        pauseMs = POLL_MS
        continue
      }
      if (result !== 'wait') return result
      await time.sleep(pauseMs, signal)
      pauseMs = Math.min(pauseMs * 1.25, MAX_POLL_MS)
    }
  }

  /** One observation and at most one step. */
  async #round(): Promise<FinalReport | 'again' | 'wait'> {
    const { time, log } = this.#tools
    try {
      if (!(await this.#finishRemoval())) return 'wait'
      const set = await readStatefulSet(this.#plan, this.#tools)
      if (set === undefined) {
        const message = `querying the shards failed: StatefulSet ${this.#plan.release} not found`
        return this.#ended('Refused', 'ShardsUnknown', message)
      }
      const view = await this.#observe(set)
      const failed = this.#transfers.observe(view, time.now().getTime())
      this.#resharding.observe(view, this.#transfers.takeStreamed())
      for (const transfer of failed) {
        const failure = this.#countFailure(transfer, view)
        if (failure !== undefined) return failure
      }
      await this.#abortStalled(view)
      this.#forgetMoves(view)
      await this.#readShardNumber()
      const desired = this.#desired(view)
      const decision = planShards(view, desired)
      this.#blocked = closedGate(view, desired)
      this.#updateEstimate(view, desired, decision)
      return await this.#act(view, decision)
    } catch (error) {
      if (error instanceof EngineError && isTransient(error)) {
        log.info({ reason: error.message }, 'waiting for the engine')
        return 'wait'
      }
      if (isKubernetesError(error) && (error.status === undefined || error.status >= 500)) {
        log.info({ reason: error.message }, 'waiting for the Kubernetes API')
        return 'wait'
      }
      throw error
    }
  }

  async #act(view: ClusterView, decision: Plan): Promise<FinalReport | 'again' | 'wait'> {
    const pause = await this.#pauseReason()
    switch (decision.is) {
      case 'done':
        return this.#done(view)
      case 'refused':
        if (this.#transfers.running.length > 0 || this.#mayRecover(view)) {
          return this.#wait(decision.message)
        }
        // No failure: the update continues as soon as what blocks it has changed.
        if (this.#blocked?.message === decision.message) return this.#paused()
        return this.#ended('Refused', decision.reason, decision.message)
      case 'waiting':
        if (pause !== undefined && this.#transfers.running.length === 0) {
          return this.#pausedBy(pause, view)
        }
        return this.#wait(decision.message, this.#updateStep)
      case 'step': {
        this.#brokenSince = undefined
        if (pause !== undefined && !this.#resharding.isInProgress && !mustFollow(decision.step)) {
          if (this.#transfers.running.length === 0) return this.#pausedBy(pause, view)
          return this.#wait(this.#describeTransfers(view))
        }
        this.#purpose = decision.purpose
        if (decision.step.do === 'drop') {
          const reason = await this.#unsafeDrop(view, decision.step)
          if (reason !== undefined) return this.#wait(reason)
        }
        return this.#perform(view, decision.step, decision.bytes)
      }
    }
  }

  /**
   * Why the last replica but one must not be dropped now. While the node of the remaining one stops,
   * the other one alone takes writes for a moment, and these would be dropped with it: the engine
   * calls the remaining replica Active until consensus has learned that it is not.
   */
  async #unsafeDrop(
    view: ClusterView,
    step: Extract<Step, { do: 'drop' }>,
  ): Promise<string | undefined> {
    const shard = findShard(view, step)
    if (shard === undefined || !activeHolders(view, shard).includes(step.peer)) return undefined
    const [remaining, ...others] = activeElsewhere(view, shard, step.peer)
    const ordinal = view.peers.find(({ id }) => id === remaining)?.ordinal
    if (others.length > 0 || ordinal === undefined) return undefined
    if (await isPodStable(ordinal, this.#plan, this.#tools)) return undefined
    return `${step.collection}/${step.shard} on ${peerName(view, step.peer)} is kept until node ${ordinal}, which has the other replica, is ready`
  }

  async #observe(set: StatefulSet): Promise<ClusterView> {
    const { zones, volumeBytes, cluster, update } = this.#plan
    const nodes = set.spec.replicas ?? 1
    const comparesCounts = update !== undefined
    const view = await observeShards(
      { nodes, zones, volumeBytes, memory: this.#memory, comparesCounts },
      (ordinal) => this.#tools.engineForPod({ ...cluster, replicas: nodes }, ordinal),
      this.#tools.signal,
    )
    if (update === undefined) return view
    const pods = await readPods(set, this.#plan, this.#tools)
    return withUpdate(view, set, (ordinal) => pods[ordinal])
  }

  #desired(view: ClusterView): DesiredShards {
    const { nodes, repair, balance, lost, maxTransfers, allowsFewerReplicas, update } = this.#plan
    return {
      resharding: this.#resharding.desired(this.#reshardingPlan ?? this.#plan.resharding),
      ...{ nodes, repair, balance, lost, maxTransfers, allowsFewerReplicas },
      ...(update !== undefined && { update }),
      moves: this.#moves,
      deadSeconds: this.#defectSeconds(view),
    }
  }

  #defectSeconds(view: ClusterView): number {
    const now = this.#tools.time.now().getTime()
    const isAgreed = view.unsettled === undefined && view.broken === undefined
    if (isAgreed && !hasDefect(view)) this.#defectSince = undefined
    else this.#defectSince ??= now
    return this.#defectSince === undefined ? 0 : Math.floor((now - this.#defectSince) / 1000)
  }

  /** A user may set the number back while that is still possible. */
  async #readShardNumber(): Promise<void> {
    const { record } = this.#resharding
    const { resharding, namespace } = this.#plan
    const number = resharding?.numbers.find(({ collection }) => collection === record?.collection)
    // The Job may read VecCollections of its own namespace only; the next Job knows the others.
    if (resharding === undefined || number?.source?.namespace !== namespace) return
    if (record?.stage !== 'migrate') return
    const resource = { apiVersion: API_VERSION, plural: 'veccollections', namespace }
    const current = await this.#tools.kubernetes
      .get(resource, number.source.name, DesiredCollection)
      .catch((error: unknown) => {
        // An older chart does not permit it.
        if (isKubernetesError(error) && error.status === 403) return undefined
        throw error
      })
    const shards = current?.spec.shardNumber ?? number.shards
    const numbers = resharding.numbers.map((one) => (one === number ? { ...one, shards } : one))
    this.#reshardingPlan = { ...resharding, numbers }
  }

  /** The move is complete, or its target is gone. */
  #forgetMoves(view: ClusterView): void {
    if (view.unsettled !== undefined || view.broken !== undefined) return
    this.#moves = unfinishedMoves(view, this.#moves)
  }

  async #perform(
    view: ClusterView,
    step: Step,
    bytes: number,
  ): Promise<'again' | 'wait' | FinalReport> {
    const { log, reporter, time } = this.#tools
    const text = describeStep(view, step)
    this.#stepText = text
    await reporter.verifyOwnership()
    log.info({ step: text, purpose: this.#purpose, bytes }, 'step started')
    try {
      switch (step.do) {
        case 'replicate':
        case 'repair': {
          // The next pod must know of the move: it drops the source, or knows that it must not.
          if (step.do === 'replicate' && step.move !== undefined) this.#moves.push(step.move)
          this.#transfers.start(step, bytes, time.now().getTime())
          await reporter.checkpoint(text, { shards: this.#result(text) })
          await this.#engine(view).replicate(step, this.#tools.signal)
          return 'again'
        }
        case 'streamPoints': {
          this.#transfers.start(step, bytes, time.now().getTime())
          await reporter.checkpoint(text, { shards: this.#result(text) })
          const engine = new EngineResharding(this.#memberEngine(view))
          await engine.stream(step, this.#tools.signal)
          this.#transfers.confirm(step)
          return 'again'
        }
        case 'startResharding':
        case 'finishMigration':
        case 'commitRead':
        case 'cleanReplica':
        case 'commitWrite':
        case 'finishResharding':
        case 'checkReplica':
        case 'abortResharding': {
          const outcome = await this.#reshard(view, step)
          if (outcome !== undefined) return outcome
          break
        }
        case 'drop':
          await this.#engine(view, step.peer).drop(
            step.collection,
            step.shard,
            step.peer,
            this.#tools.signal,
          )
          break
        case 'removePeer':
          await this.#removePeer(view, step)
          break
        case 'scaleDown':
          this.#removedOrdinal = step.nodes
          await reporter.checkpoint(text, { shards: this.#result(text) })
          await scaleDown(step.nodes, this.#plan, this.#tools)
          break
        case 'updateNode':
          if (view.update === undefined) return 'wait'
          // Each node is an Event.
          await reporter.checkpoint(text, { shards: this.#result(text) })
          await releaseNode(step.ordinal, view.update, this.#plan, this.#tools)
          // Its replicas miss the changes that are made while it restarts.
          this.#memory.equal.clear()
          break
      }
      this.#steps += 1
      this.#updateStep = step.do === 'updateNode' ? text : undefined
      this.#rejections.delete(text)
      await reporter.progress(text, { shards: this.#result(text) })
      return 'again'
    } catch (error) {
      return this.#rejected(view, { step, text, error })
    }
  }

  /**
   * The step was rejected, or its answer was lost. The next observation shows what is the case, so
   * nothing is repeated blindly.
   */
  #rejected(
    view: ClusterView,
    { step, text, error }: { step: Step; text: string; error: unknown },
  ): 'wait' | FinalReport {
    const { log, signal } = this.#tools
    signal.throwIfAborted()
    if (!(error instanceof EngineError) && !isKubernetesError(error)) throw error
    log.warn({ step: text, reason: error.message }, 'step failed')
    // Kubernetes or another client has changed the StatefulSet meanwhile.
    if (step.do === 'updateNode' && error.status === 409) return 'wait'
    const isRejection = error.status !== undefined && error.status < 500
    if (!isRejection || ALREADY_RUNNING.test(error.message)) return 'wait'
    if (step.do === 'replicate' || step.do === 'repair' || step.do === 'streamPoints') {
      return this.#countFailure(step, view, error.message) ?? 'wait'
    }
    const rejections = (this.#rejections.get(text) ?? 0) + 1
    this.#rejections.set(text, rejections)
    if (rejections < MAX_FAILURES) return 'wait'
    const message = `${text} failed ${rejections} times: ${error.message}`
    const reason =
      'collection' in step && step.do !== 'drop' ? 'ReshardingFailed' : 'TransferFailed'
    return this.#ended('Failed', reason, message)
  }

  async #removePeer(
    view: ClusterView,
    { peer, ordinal }: Extract<Step, { do: 'removePeer' }>,
  ): Promise<void> {
    await this.#engine(view, peer).removePeer(peer, this.#tools.signal)
    const isReplaced = ordinal !== undefined && ordinal < this.#plan.nodes
    if (isReplaced) await restartFailedPod(ordinal, this.#plan, this.#tools)
  }

  /** Undefined if the step is complete. */
  async #reshard(
    view: ClusterView,
    step: Exclude<ReshardingStep, { do: 'streamPoints' }>,
  ): Promise<'wait' | FinalReport | undefined> {
    const outcome = await this.#resharding.perform(view, step)
    if (outcome === 'done') return undefined
    if (outcome === 'again later') return 'wait'
    return this.#ended('Failed', 'ReshardingFailed', outcome.failure)
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

  async #finishRemoval(): Promise<boolean> {
    const ordinal = this.#removedOrdinal
    if (ordinal === undefined) return true
    const text = `removing node ${ordinal}`
    if (!(await finishRemoval(ordinal, this.#plan, this.#tools))) {
      await this.#tools.reporter.progress(text, { shards: this.#result(text) })
      return false
    }
    this.#removedOrdinal = undefined
    await this.#tools.reporter.checkpoint(text, { shards: this.#result(text) })
    return true
  }

  #countFailure(
    transfer: ShardTransfer,
    view: ClusterView,
    reason = 'it ended without an Active replica',
  ): FinalReport | undefined {
    const failures = this.#transfers.fail(transfer)
    const times = failures === 1 ? 'once' : `${failures} times`
    const text = `${describeTransfer(view, transfer)} failed ${times}: ${reason}`
    this.#failed = { transfer, message: text }
    this.#tools.log.warn({ failures, reason }, `${describeTransfer(view, transfer)} failed`)
    return failures < MAX_FAILURES ? undefined : this.#ended('Failed', 'TransferFailed', text)
  }

  /** If a transfer has failed, the next Job would only wait and fail in the same way: a user has to know. */
  #pausedBy(pause: Pause, view: ClusterView): FinalReport {
    const failure = pause === 'yield' ? this.#unsolvedFailure(view) : undefined
    return failure ?? this.#paused()
  }

  /** A transfer has failed, and its target is not Active since. */
  #unsolvedFailure(view: ClusterView): FinalReport | undefined {
    if (this.#failed === undefined) return undefined
    const { transfer, message } = this.#failed
    const target = findShard(view, transfer)?.replicas.find(({ peer }) => peer === transfer.to)
    if (target === undefined || target.state === 'Active') return undefined
    return this.#ended('Failed', 'TransferFailed', message)
  }

  async #abortStalled(view: ClusterView): Promise<void> {
    const { log, signal, time } = this.#tools
    for (const transfer of this.#transfers.stalled(view, time.now().getTime())) {
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

  /** Read before every step: a user may have changed the number of nodes meanwhile. */
  async #pauseReason(): Promise<Pause | undefined> {
    const { namespace, name, nodes, cluster, update, endsAt } = this.#plan
    const { kubernetes, time } = this.#tools
    const resource = { apiVersion: API_VERSION, plural: this.#plan.resource, namespace }
    const current = await kubernetes.get(resource, name, DesiredNodes)
    const replicas = current?.spec.replicas
    this.#replicas ??= replicas
    this.#generation ??= current?.metadata.generation
    // A new spec may be what repairs a node that does not become ready.
    if (update !== undefined && current?.metadata.generation !== this.#generation) return 'outdated'
    const isDrain = nodes < cluster.replicas
    if (replicas !== this.#replicas || (isDrain && replicas !== undefined && replicas > nodes)) {
      return 'outdated'
    }
    const now = time.now().getTime()
    const isOver = endsAt !== undefined && now >= Date.parse(endsAt)
    return isOver || now - this.#startedAt.getTime() >= YIELD_MS ? 'yield' : undefined
  }

  #mayRecover({ broken }: ClusterView): boolean {
    const now = this.#tools.time.now().getTime()
    this.#brokenSince = broken === undefined ? undefined : (this.#brokenSince ?? now)
    return this.#brokenSince !== undefined && now - this.#brokenSince < BROKEN_MS
  }

  async #wait(message: string, step = message): Promise<'wait'> {
    await this.#tools.reporter.progress(message, { shards: this.#result(step) })
    return 'wait'
  }

  #done(view: ClusterView): FinalReport {
    const { balance } = this.#plan
    this.#estimate = { at: 0, steps: 0, bytes: 0 }
    return {
      state: 'Done',
      shards: { ...this.#result(), ...(balance && { balancedNodes: view.nodes }) },
    }
  }

  /** Steps are left for the next Job. */
  #paused(): FinalReport {
    return { state: 'Done', shards: { ...this.#result(), isYielded: true } }
  }

  #ended(state: 'Failed' | 'Refused', reason: string, message: string): FinalReport {
    return { state, reason, message, shards: this.#result() }
  }

  /** Counting the whole plan costs more than planning one step. */
  #updateEstimate(view: ClusterView, desired: DesiredShards, decision: Plan): void {
    const now = this.#tools.time.now().getTime()
    if (decision.is !== 'step' && now - this.#estimate.at < ESTIMATE_MS) return
    const { steps } = planAll(afterTransfers(view), desired)
    const bytes = steps.reduce((sum, step) => sum + step.bytes, 0)
    this.#estimate = { at: now, steps: steps.length, bytes }
  }

  #describeTransfers(view: ClusterView): string {
    return this.#transfers.running.map((transfer) => describeTransfer(view, transfer)).join(', ')
  }

  #result(step?: string): ShardsResult {
    const rate = this.#transfers.bytesPerSecond
    const bytesLeft = this.#estimate.bytes + this.#transfers.bytesRunning
    const { running, completed, bytesMoved } = this.#transfers
    return {
      startedAt: this.#startedAt.toISOString(),
      ...(step !== undefined && { step: step.slice(0, MAX_STEP_TEXT) }),
      ...(step !== undefined && this.#purpose !== undefined && { purpose: this.#purpose }),
      stepsDone: this.#previousSteps + this.#steps + completed,
      stepsLeft: this.#estimate.steps + running.length,
      bytesMoved: this.#previousBytes + bytesMoved,
      bytesLeft,
      ...(rate !== undefined && {
        bytesPerSecond: rate,
        secondsLeft: Math.ceil(bytesLeft / Math.max(1, rate)),
      }),
      ...(this.#previousBalance !== undefined && { balancedNodes: this.#previousBalance }),
      moves: this.#moves.slice(-MAX_MOVES),
      ...(running.length > 0 && { transfers: running.slice(-MAX_MOVES) }),
      ...(this.#resharding.record !== undefined && { resharding: this.#resharding.record }),
      ...(this.#removedOrdinal !== undefined && { removedOrdinal: this.#removedOrdinal }),
      ...(this.#blocked !== undefined && {
        blocked: { ...this.#blocked, message: this.#blocked.message.slice(0, MAX_BLOCKED) },
      }),
    }
  }
}

const ALREADY_RUNNING = /is already involved in transfer/

/**
 * A node whose peer was removed serves nothing any more: its pod is removed even if the number of
 * nodes was raised again meanwhile.
 */
function mustFollow(step: Step): boolean {
  return step.do === 'scaleDown'
}
