/**
 * Which work on the shards of a cluster is due, and whether a helm run has to wait for it. In order:
 * lost nodes and repairs, the removal of nodes, a helm run, an update of pods, a transfer that an ended Job has left,
 * another number of shards, balance. A helm run never waits for work that a user has to unblock, except that it does not
 * remove nodes that were not drained.
 */
import { isDeepStrictEqual } from 'node:util'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { ShardPurpose } from '../../../crds/contract/shards-job.ts'
import { type StatefulSet, partitionOf } from '../../../crds/kubernetes.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { errorMessage } from '../../background-task.ts'
import { isUnfinished } from '../../request.ts'
import { shardsPlan } from './job.ts'
import type { Context } from '../../protocol.ts'
import { isConsensusLost } from '../consensus.ts'
import { lostNodes } from '../nodes.ts'
import { lastFailure } from '../helm-result.ts'
import { needsBackup } from '../hibernation-backup.ts'
import type { DesiredRun, Observed } from '../ports.ts'
import { isShardsJob, lastShardsRun } from './result.ts'
import type { Goal, ShardFacts, ShardsSummary, ShardsTarget, ShardTargets } from './summary.ts'
import { hasOnlySurplusPods, hasSurplusPods, isRolledOut, isRollingOut } from '../rollout.ts'
import { acceptedRisks } from '../validation.ts'
import { awaitedByRun, awaitedWindow } from '../windows.ts'

export interface ShardWork {
  goal: Goal
  purpose: ShardPurpose
  target: ShardsTarget
  summary: ShardsSummary
}

export type ShardStep =
  | { is: 'none' }
  /** A Job is due now. */
  | { is: 'due'; work: ShardWork }
  /** The spec removes nodes that are not drained: helm has to wait. */
  | { is: 'held'; notApplied: ConditionReason }

export function nextShardStep(observed: Observed, context: Context): ShardStep {
  const { cluster, statefulSet, progress, pendingRun } = observed
  if (!cluster.spec.cluster.enabled || statefulSet === undefined) return { is: 'none' }
  if (progress?.applied === undefined) return { is: 'none' }
  // Replicas are repaired once all nodes run again; nodes that are to be removed are drained before. The
  // backup before it needs nodes that are repaired and up to date.
  const isAwaitingBackup = needsBackup(observed, context.now)
  const isStopping = cluster.spec.hibernate === true && !isAwaitingBackup
  const drainTo = drainTarget(observed)
  if (isStopping && drainTo === undefined) return { is: 'none' }
  const volume = volumeWork(observed, context)
  if (volume !== undefined) return { is: 'due', work: volume }
  if (pendingRun === undefined || mayPrecedeHelm(observed, pendingRun, context)) {
    const repair = dueWork(observed, 'repair', context)
    if (repair !== undefined) return { is: 'due', work: repair }
  }
  const drain = drainTo === undefined ? undefined : drainStep(observed, drainTo, context)
  if (drain?.is === 'due') return drain
  // A helm run may be what repairs an update that cannot continue. What keeps nodes from being removed does
  // not keep the others from being updated.
  if (pendingRun === undefined || drain?.is === 'held' || isAwaitingBackup) {
    const update = dueWork(observed, 'update', context)
    if (update !== undefined) return { is: 'due', work: update }
    const transfer = transferWork(observed, context)
    if (transfer !== undefined) return { is: 'due', work: transfer }
  }
  if (drain !== undefined) return drain
  if (pendingRun !== undefined) return { is: 'none' }
  const moved = dueWork(observed, 'reshard', context) ?? dueWork(observed, 'balance', context)
  const isAllowed = awaitedWindow(cluster, context.now) === undefined
  return moved === undefined || !isAllowed ? { is: 'none' } : { is: 'due', work: moved }
}

/** What Jobs would be asked to do about these nodes, if it turns out to be due. */
export function shardTargets(
  observed: Pick<Observed, 'cluster' | 'statefulSet' | 'progress'>,
  facts: ShardFacts,
): ShardTargets {
  const { cluster, statefulSet, progress } = observed
  const { healing, shards, replicas } = cluster.spec
  const nodes = statefulSet?.spec.replicas ?? 1
  const { shardNumbers: numbers } = facts
  const repair: ShardsTarget = {
    ...(numbers !== undefined && { resharding: { numbers, mayStart: false } }),
    nodes,
    repair: healing.replicas,
    balance: false,
    lost: lostNodes(cluster, facts)
      .filter(
        ({ isConfirmed, isAwaited }) =>
          isConfirmed || (healing.lostNodes === 'WhenSafe' && isAwaited !== true),
      )
      .map(({ peer }) => peer),
    maxTransfers: shards.maxTransfers,
    allowsFewerReplicas: acceptedRisks(cluster).includes('fewer-replicas'),
  }
  const drainTo = drainTarget(observed, facts)
  const update = updateTarget(cluster, statefulSet, facts)
  const targets = { repair, ...(update !== undefined && { update: { ...repair, update } }) }
  if (drainTo !== undefined) return { ...targets, drain: { ...repair, nodes: drainTo } }
  if (update !== undefined) return targets
  const isBalanced = replicas === nodes && isBalanceDue(cluster, progress, nodes)
  return {
    repair,
    // Balance follows: the Job reports that the shards have changed.
    ...(numbers !== undefined && {
      reshard: { ...repair, resharding: { numbers, mayStart: true } },
    }),
    ...(isBalanced && { balance: { ...repair, balance: true } }),
  }
}

/** Undefined while Kubernetes updates the pods by itself, and if all pods have the current template. */
function updateTarget(
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
  { nodes }: ShardFacts,
): ShardsTarget['update'] {
  if (statefulSet === undefined || partitionOf(statefulSet) === 0) return undefined
  const revision = statefulSet.status?.updateRevision
  if (revision === undefined) return undefined
  const isOutdated = nodes.some((node) => (node.revision ?? revision) !== revision)
  if (!isOutdated) return undefined
  return {
    revision,
    singleCopies: cluster.spec.update.singleCopies,
    allowsLastCopy: acceptedRisks(cluster).includes('last-copy'),
  }
}

/** The summary answers the questions that are asked now. */
export function isCurrent(summary: ShardsSummary, targets: ShardTargets): boolean {
  return isDeepStrictEqual(summary.targets, targets)
}

/**
 * The number of nodes over which the shards are known to be balanced; 0 after their number has changed. The
 * last report may be older than the status: that counts only while its Job runs.
 */
export function balancedNodes(observed: Observed): number | undefined {
  const { cluster, statefulSet, jobs, progress, shards } = observed
  const nodes = statefulSet?.spec.replicas ?? 1
  if (shards?.plans.balance?.is === 'done') return nodes
  if (progress?.shards?.balancedNodes === nodes) return nodes
  const isWorking = jobs.some((job) => isShardsJob(job) && isUnfinished(job))
  if (isWorking && progress?.shards?.balancedNodes === 0) return 0
  // A cluster of an earlier release, or a new one: moves of a user are not undone.
  return cluster.status?.balancedNodes ?? (shards === undefined ? undefined : nodes)
}

function isBalanceDue(cluster: VecCluster, progress: Observed['progress'], nodes: number): boolean {
  const { balance } = cluster.spec.shards
  if (balance !== 'OnScale') return balance === 'Always'
  if (progress?.shards?.balancedNodes === nodes) return false
  const { balancedNodes: balanced } = cluster.status ?? {}
  return balanced !== undefined && balanced !== nodes
}

/**
 * Repairs do not go before a helm run that may bring pods back, unless that run has failed: it fails
 * for as long as the pod of a lost node is not ready. Nor do they go before a run that waited for the
 * last Job to end, or while other work keeps them from starting.
 */
function mayPrecedeHelm(observed: Observed, pendingRun: DesiredRun, context: Context): boolean {
  const { progress, conflictingWork = [] } = observed
  if (conflictingWork.length > 0) return false
  // A run that waits for a backup or a window does not start soon, and the backup needs the replicas.
  const isAwaiting =
    needsBackup(observed, context.now) ||
    awaitedByRun(observed, pendingRun, context.now) !== undefined
  if (isAwaiting) return true
  const hasYielded = progress?.verb === 'shards' && progress.shards?.isYielded === true
  // The run waits for the removal of the next node, and that for the pod of the last one.
  const isHeld = terminatingNode(observed) !== undefined && drainTarget(observed) !== undefined
  if (hasYielded && !isHeld) return false
  if (isRolledOut(observed) || hasOnlySurplusPods(observed)) return true
  const failure = lastFailure(observed, context)
  return failure !== undefined && failure !== 'unknown' && failure.plan === pendingRun.hash
}

function dueWork(observed: Observed, goal: Goal, context: Context): ShardWork | undefined {
  const { shards: summary } = observed
  const outcome = summary?.plans[goal]
  const target = summary?.targets[goal]
  if (summary === undefined || target === undefined || outcome?.is !== 'step') return undefined
  // The planner then updates only nodes that are down. A pod whose peer was removed is no longer a node.
  const isHelping = goal === 'update' || (goal === 'drain' && begunRemoval(observed) !== undefined)
  if (isConsensusLost(observed) && !isHelping) return undefined
  const work = { goal, purpose: outcome.purpose, target, summary }
  return isResting(observed, work, context) ? undefined : work
}

/** The pod of a removed node has ended after the Job that waited for it: its volume is not deleted yet. */
function volumeWork(observed: Observed, context: Context): ShardWork | undefined {
  const { shards: summary, statefulSet, progress } = observed
  const removed = progress?.shards?.removedOrdinal
  if (summary === undefined || removed === undefined || isRollingOut(observed)) return undefined
  if ((statefulSet?.spec.replicas ?? 1) > removed) return undefined
  const target = summary.targets.repair
  const work: ShardWork = { goal: 'repair', purpose: 'scale-in', target, summary }
  return isResting(observed, work, context) ? undefined : work
}

/** The Job aborts a transfer of an ended Job if that makes no progress; until its end, all other work may wait for it. */
function transferWork(observed: Observed, context: Context): ShardWork | undefined {
  const { shards: summary, progress } = observed
  const isRecorded = (progress?.shards?.transfers ?? []).length > 0
  if (summary?.isTransferLeft !== true || !isRecorded || isConsensusLost(observed)) return undefined
  const last = lastShardsRun(observed, context)
  // Another Job that ends well would let the failed work start again at once.
  if (last?.failure !== undefined && last.restSeconds > 0) return undefined
  const target = summary.targets.repair
  const work: ShardWork = { goal: 'repair', purpose: 'repair', target, summary }
  return isResting(observed, work, context) ? undefined : work
}

/** A removed node whose pod has not ended. */
function terminatingNode({ statefulSet, progress }: Observed): number | undefined {
  const removed = progress?.shards?.removedOrdinal
  const isSurplus = statefulSet !== undefined && hasSurplusPods(statefulSet)
  return isSurplus && (statefulSet.spec.replicas ?? 1) === removed ? removed : undefined
}

/** The last Job had the same plan, and ended too short a time ago to try again. */
function isResting(observed: Observed, work: ShardWork, context: Context): boolean {
  const last = lastShardsRun(observed, context)
  const { hash } = shardsPlan(observed, work, 1)
  return last !== undefined && last.plan === hash && last.restSeconds > 0
}

function drainStep(observed: Observed, drainTo: number, context: Context): ShardStep {
  const { shards, shardsFailure, statefulSet, cluster } = observed
  const work = dueWork(observed, 'drain', context)
  const isBegun = begunRemoval(observed) === drainTo
  const awaited = isBegun ? undefined : awaitedWindow(cluster, context.now)
  const terminating = terminatingNode(observed)
  if (work !== undefined && awaited === undefined && terminating === undefined)
    return { is: 'due', work }
  const nodes = statefulSet?.spec.replicas ?? 1
  const label = isBegun ? `the removal of node ${drainTo}` : `spec.replicas: ${nodes} -> ${drainTo}`
  const held = (reason: string, message: string): ShardStep => ({
    is: 'held',
    notApplied: { reason, message },
  })
  if (terminating !== undefined) {
    const cause = `the pod of node ${terminating}, which was removed, has not ended`
    const hint = 'if its Kubernetes node does not answer, delete that node, or the pod with --force'
    return held('Draining', `${label} waits: ${cause}; ${hint}`)
  }
  if (work !== undefined && awaited !== undefined) {
    return held(awaited.reason, `${label} ${awaited.message}`)
  }
  const outcome = shards?.plans.drain
  if (outcome === undefined) {
    const cause = shardsFailure === undefined ? '' : `: ${errorMessage(shardsFailure.error)}`
    return held('Draining', `${label} waits until the nodes report their shards${cause}`)
  }
  switch (outcome.is) {
    case 'done':
      return { is: 'none' }
    case 'waiting':
      return held('Draining', `${label} waits: ${withoutProgress(outcome.message)}`)
    case 'refused': {
      // The condition Consensus says what to do about a split cluster.
      if (shards?.obstruction !== undefined)
        return held('Draining', `${label} waits: ${outcome.message}`)
      return held(outcome.reason, outcome.message)
    }
    case 'step': {
      const failure = lastShardsRun(observed, context)?.failure
      return failure === undefined
        ? held('Draining', `${label} waits until consensus works`)
        : held(failure.reason, failure.message)
    }
  }
}

/** Without the engine's description of a transfer, which changes all the time. */
export function withoutProgress(message: string): string {
  const start = message.indexOf(' (')
  return start >= 0 && message.endsWith(')') ? message.slice(0, start) : message
}

type Known = Pick<Observed, 'cluster' | 'statefulSet' | 'progress'>

/**
 * The desired number of nodes, if it is lower than that of the StatefulSet and its shards are not to
 * be lost. The removal of a node is completed also if a user wants more nodes again.
 */
export function drainTarget(
  observed: Known & Pick<Observed, 'shards'>,
  facts: Pick<ShardFacts, 'peers'> | undefined = observed.shards,
): number | undefined {
  const { cluster, statefulSet } = observed
  const { replicas, cluster: distribution } = cluster.spec
  if (!distribution.enabled) return undefined
  const begun = begunRemoval(observed, facts)
  if (begun !== undefined && begun < replicas) return begun
  if (replicas >= (statefulSet?.spec.replicas ?? 0)) return undefined
  return acceptedRisks(cluster).includes('shard-loss') ? undefined : replicas
}

/**
 * The last node of the StatefulSet, if a Job has removed its peer and not its pod. The others do not list such
 * a pod any more; with its volume it never joins again, and it answers reads with what it had.
 */
export function begunRemoval(
  { statefulSet, progress, shards }: Omit<Known, 'cluster'> & Pick<Observed, 'shards'>,
  facts: Pick<ShardFacts, 'peers'> | undefined = shards,
): number | undefined {
  const removed = progress?.shards?.removedPeer
  if (removed === undefined || statefulSet?.spec.replicas !== removed.ordinal + 1) return undefined
  const isMember = facts?.peers.some(
    (peer) => peer.id === removed.peer || (peer.isMember && peer.ordinal === removed.ordinal),
  )
  return isMember === true ? undefined : removed.ordinal
}
