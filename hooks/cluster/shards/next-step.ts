/**
 * Which work on the shards of a cluster is due, and whether a helm run has to wait for it. In order:
 * lost nodes and repairs, the removal of nodes, a helm run, an update of pods, another number of shards, balance. A helm run never
 * waits for work that a user has to unblock, except that it does not remove nodes that were not drained.
 */
import { isDeepStrictEqual } from 'node:util'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { ShardPurpose } from '../../../crds/contract/shards-job.ts'
import { type StatefulSet, partitionOf } from '../../../crds/kubernetes.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { errorMessage } from '../../background-task.ts'
import { getCondition, secondsSince } from '../../conditions.ts'
import { shardsPlan } from './job.ts'
import type { Context } from '../../protocol.ts'
import { isConsensusLost } from '../consensus.ts'
import { lostNodes } from '../nodes.ts'
import { lastFailure } from '../helm-result.ts'
import { needsBackup } from '../hibernation-backup.ts'
import type { DesiredRun, Observed } from '../observed.ts'
import { lastShardsRun } from './result.ts'
import type { Goal, ShardFacts, ShardsSummary, ShardsTarget, ShardTargets } from './summary.ts'
import { isRolledOut } from '../rollout.ts'
import { acceptedRisks } from '../validation.ts'
import { awaitedWindow } from '../windows.ts'

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
  const isAwaitingBackup = needsBackup(observed)
  const isStopping = cluster.spec.hibernate === true && !isAwaitingBackup
  if (isStopping && drainTarget(cluster, statefulSet) === undefined) return { is: 'none' }
  if (pendingRun === undefined || mayPrecedeHelm(observed, pendingRun, context)) {
    const repair = dueWork(observed, 'repair', context)
    if (repair !== undefined) return { is: 'due', work: repair }
  }
  const drain =
    drainTarget(cluster, statefulSet) === undefined ? undefined : drainStep(observed, context)
  if (drain?.is === 'due') return drain
  // A helm run may be what repairs an update that cannot continue. What keeps nodes from being removed does
  // not keep the others from being updated.
  if (pendingRun === undefined || drain?.is === 'held' || isAwaitingBackup) {
    const update = dueWork(observed, 'update', context)
    if (update !== undefined) return { is: 'due', work: update }
  }
  if (drain !== undefined) return drain
  if (pendingRun !== undefined) return { is: 'none' }
  const moved = dueWork(observed, 'reshard', context) ?? dueWork(observed, 'balance', context)
  const isAllowed = awaitedWindow(cluster, context.now) === undefined
  return moved === undefined || !isAllowed ? { is: 'none' } : { is: 'due', work: moved }
}

/**
 * The desired number of nodes, if it is lower than that of the StatefulSet and its shards are not to
 * be lost.
 */
export function drainTarget(
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
): number | undefined {
  const { replicas, cluster: distribution } = cluster.spec
  if (!distribution.enabled || replicas >= (statefulSet?.spec.replicas ?? 0)) return undefined
  return acceptedRisks(cluster).includes('shard-loss') ? undefined : replicas
}

/** What Jobs would be asked to do about these nodes, if it turns out to be due. */
export function shardTargets(
  { cluster, statefulSet, progress }: Pick<Observed, 'cluster' | 'statefulSet' | 'progress'>,
  facts: ShardFacts,
  { now }: Pick<Context, 'now'>,
): ShardTargets {
  const { healing, shards, replicas } = cluster.spec
  const nodes = statefulSet?.spec.replicas ?? 1
  const { shardNumbers: numbers } = facts
  const repair: ShardsTarget = {
    ...(numbers !== undefined && { resharding: { numbers, mayStart: false } }),
    nodes,
    repair: healing.replicas,
    balance: false,
    lost: lostNodes(cluster, facts)
      .filter(({ isConfirmed }) => isConfirmed || healing.lostNodes === 'WhenSafe')
      .map(({ peer }) => peer),
    maxTransfers: shards.maxTransfers,
    allowsFewerReplicas: acceptedRisks(cluster).includes('fewer-replicas'),
    deadSeconds: deadSeconds(cluster, now),
  }
  const drainTo = drainTarget(cluster, statefulSet)
  const update = updateTarget(cluster, statefulSet, facts)
  const targets = { repair, ...(update !== undefined && { update: { ...repair, update } }) }
  if (drainTo !== undefined) return { ...targets, drain: { ...repair, nodes: drainTo } }
  if (update !== undefined) return targets
  const isBalanced = replicas === nodes && isBalanceDue(cluster, progress, nodes)
  return {
    repair,
    ...(numbers !== undefined && {
      // Another shard is another load: those that were moved by a user are moved again.
      reshard: {
        ...repair,
        balance: shards.balance !== 'Never',
        resharding: { numbers, mayStart: true },
      },
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
  return isDeepStrictEqual(withoutClock(summary.targets), withoutClock(targets))
}

function withoutClock({ repair, drain, update, reshard, balance }: ShardTargets) {
  const fixed = (target: ShardsTarget | undefined) => target && { ...target, deadSeconds: 0 }
  return {
    ...{ repair: fixed(repair), drain: fixed(drain) },
    ...{ update: fixed(update), reshard: fixed(reshard), balance: fixed(balance) },
  }
}

/** The number of nodes over which the shards are known to be balanced. */
export function balancedNodes(observed: Observed): number | undefined {
  const { cluster, statefulSet, progress, shards } = observed
  const nodes = statefulSet?.spec.replicas ?? 1
  if (shards?.plans.balance?.is === 'done') return nodes
  if (progress?.shards?.balancedNodes === nodes) return nodes
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

/** Reasons of ShardsPlaced that say that a replica is not Active. */
const DEFECT_REASONS = new Set([
  'ReplicasNotActive',
  'Repairing',
  'NoActiveReplica',
  'NoCapacity',
  'LostNode',
  'ReplacingNode',
  'LastReplicaLost',
])

/** For how long the condition has reported that replicas are not Active. */
function deadSeconds(cluster: VecCluster, now: Date): number {
  const placed = getCondition(cluster, 'ShardsPlaced')
  if (placed?.status !== 'False' || !DEFECT_REASONS.has(placed.reason)) return 0
  return Math.max(0, Math.floor(secondsSince(placed.lastTransitionTime, now)))
}

/**
 * Repairs do not go before a helm run that may bring pods back, unless that run has failed: it fails
 * for as long as the pod of a lost node is not ready. Nor do they go before a run that waited for the
 * last Job to end, or while other work keeps them from starting.
 */
function mayPrecedeHelm(observed: Observed, pendingRun: DesiredRun, context: Context): boolean {
  const { progress, conflictingWork = [] } = observed
  const hasYielded = progress?.verb === 'shards' && progress.shards?.isYielded === true
  if (hasYielded || conflictingWork.length > 0) return false
  // A run that waits for a backup does not start soon.
  if (isRolledOut(observed) || needsBackup(observed)) return true
  const failure = lastFailure(observed, context)
  return failure !== undefined && failure !== 'unknown' && failure.plan === pendingRun.hash
}

function dueWork(observed: Observed, goal: Goal, context: Context): ShardWork | undefined {
  const { shards: summary } = observed
  const outcome = summary?.plans[goal]
  const target = summary?.targets[goal]
  if (summary === undefined || target === undefined || outcome?.is !== 'step') return undefined
  // The planner then updates only nodes that are down.
  if (isConsensusLost(observed) && goal !== 'update') return undefined
  const work = { goal, purpose: outcome.purpose, target, summary }
  return isResting(observed, work, context) ? undefined : work
}

/** The last Job had the same plan, and ended too short a time ago to try again. */
function isResting(observed: Observed, work: ShardWork, context: Context): boolean {
  const last = lastShardsRun(observed, context)
  const { hash } = shardsPlan(observed, work, 1)
  return last !== undefined && last.plan === hash && last.restSeconds > 0
}

function drainStep(observed: Observed, context: Context): ShardStep {
  const { shards, shardsFailure, statefulSet, cluster } = observed
  const work = dueWork(observed, 'drain', context)
  const awaited = awaitedWindow(cluster, context.now)
  if (work !== undefined && awaited === undefined) return { is: 'due', work }
  const nodes = statefulSet?.spec.replicas ?? 1
  const label = `spec.replicas: ${nodes} -> ${cluster.spec.replicas}`
  const held = (reason: string, message: string): ShardStep => ({
    is: 'held',
    notApplied: { reason, message },
  })
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
  return message.replace(/ \(.*\)$/s, '')
}
