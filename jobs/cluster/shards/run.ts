/**
 * `cluster shards`: works on the shards of a VecCluster, one step at a time. Each step is planned
 * from a new observation, so that a pod which is killed anywhere needs no more than its report to
 * continue, and a change by a user or by the engine is never overlooked.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { StatefulSet } from '../../../crds/kubernetes.ts'
import type { Dependencies, RunResult } from '../../dependencies.ts'
import { isKubernetesError } from '../../reporter.ts'
import { isTransient } from '../../retry.ts'
import { Defects } from './defects.ts'
import { describeTransfer } from './describe.ts'
import { DropChecks, type DropObstruction } from './drop-checks.ts'
import { newObservationMemory, observeShards, type ObservationMemory } from './observe.ts'
import { StepRunner } from './perform-step.ts'
import { planShards } from './plan.ts'
import { ShardsProgress, type FinalReport } from './progress.ts'
import { ReshardingSteps } from './resharding-steps.ts'
import { SpecChanges, type Pause } from './spec-changes.ts'
import { readPods, readStatefulSet, runOf, withUpdate } from './stateful-set.ts'
import type { Plan, Step } from './step.ts'
import { Transfers, withStalled } from './transfers.ts'
import { closedGate } from './update.ts'
import type { ClusterView, DesiredShards, Move } from './view.ts'

/** Many transfers take less than a second: the next step is not to wait much longer than the transfer took. */
const FIRST_POLL_MS = 200
/** A transfer that takes long is observed less often. */
const MAX_POLL_MS = 10_000
const POLL_GROWTH = 1.5
/** Before a step that was rejected, or an API that did not answer, is tried again. */
const RETRY_MS = 2_000
/** Pods that are being restarted may leave a cluster without a majority for a while. */
const BROKEN_MS = 60_000
/** Nodes that have not agreed for this long may never do so again, and the end of a transfer is not seen before. */
const DISAGREEMENT_MS = 600_000

type RoundResult = 'again' | 'wait' | 'retry'

export async function manageShards(plan: ShardsPlan, tools: Dependencies): Promise<RunResult> {
  const run = new ShardsRun(plan, tools)
  const report = await run.execute()
  if (report.state !== 'Done') tools.log.error(report, 'attempt failed')
  await tools.reporter.finish(report)
  return report.state
}

class ShardsRun {
  readonly #plan: ShardsPlan
  readonly #tools: Dependencies
  readonly #memory: ObservationMemory
  readonly #progress: ShardsProgress
  readonly #transfers: Transfers
  readonly #resharding: ReshardingSteps
  readonly #spec: SpecChanges
  readonly #steps: StepRunner
  readonly #drops: DropChecks
  /** Since when planning has not been possible, in monotonic milliseconds. */
  #brokenSince: number | undefined
  /** Since when the nodes have not agreed, or planning has not been possible. */
  #unsettledSince: number | undefined
  /** The pods as last read during an update. */
  #pods: string | undefined

  constructor(plan: ShardsPlan, tools: Dependencies) {
    this.#plan = plan
    this.#tools = tools
    const earlier = tools.reporter.previous?.shards
    const now = tools.time.monotonicMs()
    this.#memory = newObservationMemory(new Defects(plan.defects, now))
    this.#transfers = new Transfers(earlier?.transfers ?? [], now, earlier?.failed)
    this.#progress = new ShardsProgress(plan, tools, {
      transfers: this.#transfers,
      resharding: () => this.#resharding.record,
      reshardings: () => this.#resharding.outcomes,
    })
    this.#resharding = new ReshardingSteps(plan.uid, earlier ?? {}, {
      dependencies: tools,
      engineOf: (ordinal) => tools.engineForPod(plan.cluster, ordinal),
      save: () => this.#progress.checkpoint(),
    })
    this.#spec = new SpecChanges(plan, tools)
    this.#drops = new DropChecks(plan, tools, { transfers: this.#transfers, memory: this.#memory })
    this.#steps = new StepRunner({
      ...{ plan, tools, memory: this.#memory, progress: this.#progress },
      ...{ transfers: this.#transfers, resharding: this.#resharding },
    })
  }

  async execute(): Promise<FinalReport> {
    const { time, signal } = this.#tools
    for (let pauseMs = FIRST_POLL_MS; ;) {
      const result = await this.#round()
      if (result === 'again') {
        pauseMs = FIRST_POLL_MS
        continue
      }
      if (result !== 'wait' && result !== 'retry') return result
      if (result === 'retry') pauseMs = Math.max(pauseMs, RETRY_MS)
      await time.sleep(pauseMs, signal)
      pauseMs = Math.min(pauseMs * POLL_GROWTH, MAX_POLL_MS)
    }
  }

  /** One observation and at most one step. */
  async #round(): Promise<FinalReport | RoundResult> {
    const { time, log } = this.#tools
    try {
      const removal = await this.#steps.finishRemoval()
      if (removal !== 'done') return removal
      const set = await readStatefulSet(this.#plan, this.#tools)
      if (set === undefined) {
        const message = `querying the shards failed: StatefulSet ${this.#plan.release} not found`
        return this.#progress.ended('Refused', 'ShardsUnknown', message)
      }
      const view = this.#withStalled(await this.#observe(set))
      this.#noteObstruction(view)
      await this.#steps.restartReplacedNodes(view)
      const failed = this.#transfers.observe(view, time.monotonicMs())
      const completed = this.#transfers.takeCompleted()
      this.#progress.countCopies(completed)
      this.#resharding.observe(
        view,
        completed.filter(({ toShard }) => toShard !== undefined),
      )
      this.#progress.moves.push(...this.#transfers.takeReplaced())
      // Other shards are another load.
      if (this.#resharding.record?.stage === 'check') this.#progress.balancedNodes = 0
      for (const transfer of failed) {
        const failure = this.#steps.countFailure(transfer, view)
        if (failure !== undefined) return failure
      }
      await this.#steps.abortStalled(view)
      this.#progress.forgetMoves(view)
      this.#progress.forgetRemoval(view)
      await this.#spec.readShardNumber(this.#resharding.record)
      const desired = this.#desired()
      const decision = planShards(view, desired)
      // Nodes that do not agree for a moment do not open it.
      if (view.unsettled === undefined) this.#progress.blocked = closedGate(view, desired)
      this.#progress.updateEstimate(view, desired, decision)
      return await this.#act(view, decision)
    } catch (error) {
      if (error instanceof EngineError && isTransient(error)) {
        log.info({ reason: error.message }, 'waiting for the engine')
        return 'retry'
      }
      if (isKubernetesError(error) && (error.status === undefined || error.status >= 500)) {
        log.info({ reason: error.message }, 'waiting for the Kubernetes API')
        return 'retry'
      }
      throw error
    }
  }

  async #act(view: ClusterView, decision: Plan): Promise<FinalReport | RoundResult> {
    const pause = await this.#spec.pauseReason(this.#progress)
    switch (decision.is) {
      case 'done':
        return this.#steps.undoneMove() ?? this.#progress.done(view, this.#plan)
      case 'refused':
        if (this.#isTransferring() || this.#mayRecover()) return this.#wait(decision.message)
        // No failure: the update continues as soon as what blocks it has changed.
        if (this.#progress.blocked?.message === decision.message) return this.#progress.paused()
        return this.#progress.ended(
          decision.reason === 'TransferFailed' ? 'Failed' : 'Refused',
          decision.reason,
          decision.message,
        )
      case 'waiting':
        if (pause !== undefined && !this.#isTransferring()) return this.#pausedBy(pause, view)
        if (decision.isExternal === true && !this.#isTransferring()) return this.#progress.paused()
        return this.#wait(decision.message, this.#steps.updateStep)
      case 'step': {
        this.#brokenSince = undefined
        if (decision.step.do === 'scaleDown' && this.#progress.removedOrdinal !== undefined) {
          // Kubernetes ends the pods in their order, too.
          if (pause !== undefined) return this.#pausedBy(pause, view)
          return this.#wait(`removing node ${this.#progress.removedOrdinal}`)
        }
        if (pause !== undefined && !this.#resharding.isInProgress && !mustFollow(decision.step)) {
          if (this.#transfers.running.length === 0) return this.#pausedBy(pause, view)
          return this.#wait(this.#describeTransfers(view))
        }
        this.#progress.purpose = decision.purpose
        if (decision.purpose === 'lost node') {
          const reason = await this.#steps.unprovenLoss(decision.step)
          if (reason !== undefined) {
            if (this.#isTransferring()) return this.#wait(reason)
            return this.#progress.ended('Refused', 'NodeReturned', reason)
          }
        }
        // If the node stays after all, it is to get shards again.
        if (isDrainStep(decision)) this.#progress.balancedNodes = 0
        if (decision.step.do === 'drop') {
          const move = this.#moveFrom(decision.step)
          const obstruction = await this.#drops.obstructionOf(view, decision.step, move?.to)
          if (obstruction !== undefined) return this.#obstructed(obstruction, move)
        }
        return this.#steps.perform(view, decision.step, decision.bytes)
      }
    }
  }

  async #observe(set: StatefulSet): Promise<ClusterView> {
    const { zones, volumeBytes, cluster, update } = this.#plan
    const nodes = set.spec.replicas ?? 1
    const comparesCounts = update !== undefined
    if (comparesCounts && this.#pods === undefined) await this.#readPods(set)
    const view = await observeShards(
      {
        ...{ nodes, name: cluster.name, zones, volumeBytes, memory: this.#memory, comparesCounts },
        nowMs: this.#tools.time.monotonicMs(),
      },
      (ordinal) => this.#tools.engineForPod({ ...cluster, replicas: nodes }, ordinal),
      this.#tools.signal,
    )
    if (update === undefined) return view
    const { pods, hasRestarted } = await this.#readPods(set)
    const unsettled = view.unsettled ?? 'a pod has changed while the nodes were read'
    return withUpdate(hasRestarted ? { ...view, unsettled } : view, set, (ordinal) => pods[ordinal])
  }

  /**
   * Also whether a pod is another one than the last time, has restarted, or has become ready or not. A replica whose
   * node was away may miss points: that it was equal before says nothing.
   */
  async #readPods(set: StatefulSet) {
    const pods = await readPods(set, this.#plan, this.#tools)
    const present = pods.map(runOf).join()
    const hasRestarted = this.#pods !== undefined && this.#pods !== present
    if (hasRestarted) this.#memory.equal.clear()
    this.#pods = present
    return { pods, hasRestarted }
  }

  /** Counts for how long defects have lasted, and marks the transfers that no Job aborts. */
  #withStalled(view: ClusterView): ClusterView {
    const { time } = this.#tools
    const { defects } = this.#memory
    const nowMs = time.monotonicMs()
    defects.observe(view, nowMs)
    return withStalled(view, this.#transfers.running, { defects, nowMs, now: time.now() })
  }

  #desired(): DesiredShards {
    const { nodes, repair, balance, lost, maxTransfers, allowsFewerReplicas, update } = this.#plan
    // The system clock may be set meanwhile.
    const now = this.#tools.time.monotonicMs()
    const { defects } = this.#memory
    return {
      resharding: this.#resharding.desired(this.#spec.resharding),
      ...{ nodes, repair, balance, lost, maxTransfers, allowsFewerReplicas },
      ...(update !== undefined && { update }),
      moves: this.#progress.moves,
      ...this.#transfers.closed,
      copyFailure: (shard) => this.#drops.withUndone(shard, this.#transfers.failureOf(shard)),
      defectSeconds: (defect) => defects.secondsOf(defect, now),
      isOwnCopy: (transfer) => this.#transfers.isRunning(transfer),
      hasFewerPoints: (move) => this.#drops.hasFewerPoints(move),
    }
  }

  /** A move is undone, and another target is tried. Of any other drop, a user has to know. */
  async #obstructed(
    { message, isLasting = false }: DropObstruction,
    move: Move | undefined,
  ): Promise<FinalReport | RoundResult> {
    if (!isLasting) return this.#wait(message)
    if (move !== undefined) {
      this.#drops.undo(move, this.#steps.undoMove(move, message))
      return 'again'
    }
    if (this.#isTransferring()) return this.#wait(message)
    return this.#progress.ended('Refused', 'PointsMissing', message)
  }

  /** The move that ends with this drop. */
  #moveFrom({ collection, shard, peer }: Extract<Step, { do: 'drop' }>): Move | undefined {
    return this.#progress.moves.find(
      (move) =>
        move.collection === collection &&
        move.shard === shard &&
        move.from === peer &&
        !this.#drops.hasFewerPoints(move),
    )
  }

  /** If a transfer or a step has failed, the next Job would only wait and fail in the same way: a user has to know. */
  #pausedBy(pause: Pause, view: ClusterView): FinalReport {
    const failure = pause === 'yield' ? this.#steps.unsolvedFailure(view) : undefined
    return failure ?? this.#progress.paused()
  }

  #noteObstruction({ broken, unsettled }: ClusterView): void {
    const now = this.#tools.time.monotonicMs()
    const isUnsettled = broken !== undefined || unsettled !== undefined
    this.#brokenSince = broken === undefined ? undefined : (this.#brokenSince ?? now)
    this.#unsettledSince = isUnsettled ? (this.#unsettledSince ?? now) : undefined
  }

  #mayRecover(): boolean {
    const since = this.#brokenSince
    return since !== undefined && this.#tools.time.monotonicMs() - since < BROKEN_MS
  }

  /**
   * A transfer is waited for, unless its end may never be seen: a helm run that can repair the nodes waits for the end
   * of the Job. The next Job continues the transfer.
   */
  #isTransferring(): boolean {
    if (this.#transfers.running.length === 0) return false
    const since = this.#unsettledSince
    return since === undefined || this.#tools.time.monotonicMs() - since < DISAGREEMENT_MS
  }

  async #wait(message: string, step = message): Promise<'wait'> {
    await this.#progress.report(message, step)
    return 'wait'
  }

  #describeTransfers(view: ClusterView): string {
    return this.#transfers.running.map((transfer) => describeTransfer(view, transfer)).join(', ')
  }
}

function isDrainStep({ step, purpose }: Extract<Plan, { is: 'step' }>): boolean {
  return purpose === 'scale-in' && (step.do === 'replicate' || step.do === 'drop')
}

/**
 * A node whose peer was removed serves nothing any more: its pod is removed even if the number of
 * nodes was raised again meanwhile. The engine would repeat the failed copy of a move until the next Job.
 */
function mustFollow(step: Step): boolean {
  return step.do === 'scaleDown' || (step.do === 'drop' && step.isUndo === true)
}
