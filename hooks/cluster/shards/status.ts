/** What the status of a VecCluster says about its shards and nodes. */
import type { ShardPurpose } from '../../../crds/contract/shards-job.ts'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { ANNOTATIONS, claimName, releaseName } from '../../../crds/contract/names.ts'
import { SHARD_WORK_REASONS } from '../../../crds/critical-conditions.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { formatNames } from '../../../crds/units.ts'
import { errorMessage } from '../../background-task.ts'
import { getCondition, secondsSince, type ConditionUpdate } from '../../conditions.ts'
import { hasReported, silenceReason } from '../../job-watch.ts'
import { isUnfinished } from '../../request.ts'
import type { Context } from '../../protocol.ts'
import {
  intactNodes,
  lostMajorityMessage,
  lostNodeMessage,
  lostNodes,
  nodeRecord,
  replacedPeers,
} from '../nodes.ts'
import type { Observed } from '../ports.ts'
import { balancedNodes, withoutProgress, drainTarget } from './next-step.ts'
import { isUpdateGated } from '../rollout.ts'
import { isShardsJob, lastShardsRun } from './result.ts'
import { stepEventsOf } from './step-events.ts'
import type { PlanOutcome, ShardsSummary } from './summary.ts'
import { dataClaimTemplate } from '../volumes.ts'
import { awaitedWindow } from '../windows.ts'

const MAX_MESSAGE = 1000
const MAX_LISTED = 5
/** A disagreement that lasts longer than this does not pass by itself. */
const DISAGREEMENT_SECONDS = 600

const WORK_REASONS = SHARD_WORK_REASONS satisfies Record<ShardPurpose, string>

export function workReason(purpose: ShardPurpose): (typeof WORK_REASONS)[ShardPurpose] {
  return WORK_REASONS[purpose]
}

/** Whether a reason says that the operator works on the shards, or is about to. */
export function isWorkReason(reason: string | undefined): boolean {
  return Object.values<string | undefined>(WORK_REASONS).includes(reason)
}

/** Nodes are being removed, and nothing that a user has to change keeps it from going on. */
export function isDraining(observed: Observed): boolean {
  const { cluster, jobs, shards } = observed
  if (drainTarget(observed) === undefined) return false
  if (jobs.some((job) => isShardsJob(job) && isUnfinished(job))) return true
  const plan = shards?.plans.drain
  if (plan === undefined) return cluster.status?.phase === 'Draining'
  return plan.is === 'step' || plan.is === 'waiting'
}

/** Reasons of Progressing for an update that stops until a repair or a user changes something. */
const GATE_REASONS = new Set([
  ...['LastCopy', 'SingleCopies', 'NodeMissing', 'NoQuorum', 'TransferStalled'],
])
/** The same, but of replicas that have differed for some time: the service counts it again once a Job has ended. */
const LASTING_REASONS = new Set(['ReplicasDiffer', 'ReplicasNotCounted'])

/**
 * Why no further node is updated: as the Job in progress reports it, or as the nodes were last
 * observed. Until either is known, as the status has it.
 */
export function closedGateOf(observed: Observed): ConditionReason | undefined {
  const { cluster, jobs, progress, shards: summary } = observed
  if (!isUpdateGated(observed)) return undefined
  const job = jobs.find((candidate) => isShardsJob(candidate) && isUnfinished(candidate))
  if (job !== undefined && hasReported(observed, job)) return bounded(progress?.shards?.blocked)
  if (job === undefined && summary !== undefined && !isUnsettled(summary)) {
    return bounded(summary.closedGate ?? lastingGate(observed, summary))
  }
  const previous = getCondition(cluster, 'Progressing')
  if (previous === undefined || !isGateReason(previous.reason)) return undefined
  return { reason: previous.reason, message: previous.message }
}

/** What the last Job has reported, while the nodes still report the same. */
function lastingGate(
  { progress }: Observed,
  { plans: { update } }: ShardsSummary,
): ConditionReason | undefined {
  const blocked = progress?.shards?.blocked
  if (blocked === undefined || !LASTING_REASONS.has(blocked.reason)) return undefined
  // Not the messages: writes change the numbers in them.
  const isSame = update?.is === 'waiting' && update.differs === blocked.differs
  return isSame && blocked.differs !== undefined ? blocked : undefined
}

/** Whether a reason says that an update stops until a repair or a user changes something. */
export function isGateReason(reason: string): boolean {
  return GATE_REASONS.has(reason) || LASTING_REASONS.has(reason)
}

function bounded(gate: ConditionReason | undefined): ConditionReason | undefined {
  return gate && { reason: gate.reason, message: gate.message.slice(0, MAX_MESSAGE) }
}

/** The fields of the status that describe nodes and shards. */
export function shardsStatus(observed: Observed): Partial<ClusterStatus> {
  const { cluster, progress, shards: summary } = observed
  if (!cluster.spec.cluster.enabled || progress?.applied === undefined) return {}
  const nodes =
    summary === undefined ? cluster.status?.nodes : nodeRecord(cluster.status?.nodes, summary)
  const replaced = replacedPeers(cluster, summary)
  const balanced = balancedNodes(observed)
  const stepEvents = stepEventsOf(observed)
  const shards = {
    ...replicaCounts(observed),
    ...stepFields(observed),
    ...reshardingFields(observed),
    ...outcomeFields(observed),
    ...(stepEvents !== undefined && { stepEvents }),
  }
  return {
    ...(nodes !== undefined && { nodes }),
    ...(replaced.length > 0 && { replacedPeers: replaced }),
    ...(balanced !== undefined && { balancedNodes: balanced }),
    ...(Object.keys(shards).length > 0 && { shards }),
    selector: `app.kubernetes.io/instance=${releaseName(cluster.metadata.name)}`,
  }
}

function replicaCounts({
  cluster,
  shards: summary,
}: Observed): NonNullable<ClusterStatus['shards']> {
  if (hasAgreed(summary)) {
    const { replicas, activeReplicas } = summary
    return { replicas, activeReplicas }
  }
  const { replicas, activeReplicas } = cluster.status?.shards ?? {}
  return {
    ...(replicas !== undefined && { replicas }),
    ...(activeReplicas !== undefined && { activeReplicas }),
  }
}

/** As the nodes report it: the engine may have aborted the one of the last report. Until they have, of that. */
function reshardingFields({
  progress,
  shards: summary,
}: Observed): NonNullable<ClusterStatus['shards']> {
  const record = hasAgreed(summary) ? summary.resharding : progress?.shards?.resharding
  if (record === undefined) return {}
  const { collection, direction, shard, stage, points } = record
  return {
    resharding: { collection, direction, shard, stage, ...(points !== undefined && { points }) },
  }
}

/** As the last Job has reported them: the nodes may have ended one since, and that remains so. */
function outcomeFields({
  cluster,
  progress,
  shards: summary,
}: Observed): NonNullable<ClusterStatus['shards']> {
  const all = progress?.shards?.reshardings ?? []
  if (all.length === 0) return {}
  const recorded = new Map(
    (cluster.status?.shards?.reshardings ?? []).map(({ id, stage }) => [id, stage]),
  )
  const ended = hasAgreed(summary) ? summary.endedResharding : undefined
  const reshardings = all.map(({ uuid: id, stage: reported, ...resharding }) => {
    const before = recorded.get(id)
    const isEnded = before !== undefined && before !== 'migrate' && before !== 'commit'
    const stage = isEnded ? before : ended?.uuid === id ? ended.stage : reported
    return { id, ...resharding, stage }
  })
  return { reshardings }
}

/** Of the Job in progress, as it reports them. */
function stepFields(observed: Observed): NonNullable<ClusterStatus['shards']> {
  const { jobs, progress } = observed
  const job = jobs.find((candidate) => isShardsJob(candidate) && isUnfinished(candidate))
  if (job === undefined || !hasReported(observed, job) || progress?.shards === undefined) return {}
  const { step, stepsDone, stepsLeft, bytesMoved, bytesLeft, bytesPerSecond, secondsLeft } =
    progress.shards
  return {
    ...(step !== undefined && { step }),
    ...{ stepsDone, stepsLeft, bytesMoved, bytesLeft },
    ...(bytesPerSecond !== undefined && { bytesPerSecond }),
    ...(secondsLeft !== undefined && { secondsLeft }),
  }
}

/**
 * The condition ShardsPlaced. Undefined while nothing is known; the previous one while the nodes do
 * not agree, which is usual for seconds after a change. `work` is what the operator is about to do.
 */
export function shardsCondition(
  observed: Observed,
  work: ConditionReason | undefined,
  context: Context,
): ConditionUpdate | undefined {
  const { cluster, progress, shards: summary, shardsFailure } = observed
  if (!cluster.spec.cluster.enabled || progress?.applied === undefined) return undefined
  const previous = getCondition(cluster, 'ShardsPlaced')
  const reason = work ?? jobReason(observed, context)
  if (reason !== undefined) return notPlaced(reason)
  if (summary === undefined) {
    if (shardsFailure === undefined) return previous
    const message = `querying the shards failed: ${errorMessage(shardsFailure.error)}`
    return update('Unknown', { reason: 'ShardsUnknown', message })
  }
  if (summary.obstruction !== undefined) {
    const lost = lostMajority(observed, summary)
    if (lost !== undefined) return notPlaced(lost)
    const { message } = summary.obstruction
    return update('Unknown', { reason: 'ShardsUnknown', message })
  }
  const unplaced =
    lostNodeReason(observed, summary) ??
    intactNodeReason(observed, summary) ??
    failedRun(observed, summary, context) ??
    unplacedReason(observed, summary)
  if (unplaced !== undefined) return notPlaced(unplaced)
  if (isUnsettled(summary)) return lastingDisagreement(summary) ?? previous
  const notes = `${windowNote(observed, summary, context)}${annotationNote(observed, summary)}`
  const message = `${countMessage(summary)}${notes}`.slice(0, MAX_MESSAGE)
  return update('True', { reason: 'Placed', message })
}

/** What is due, and not started before the next maintenance window. */
function windowNote(
  { cluster }: Observed,
  { plans: { reshard, balance } }: ShardsSummary,
  { now }: Context,
): string {
  const awaited = awaitedWindow(cluster, now)
  if (awaited === undefined) return ''
  if (reshard?.is === 'step') return `; resharding ${awaited.message}`
  return balance?.is === 'step' ? `; balance ${awaited.message}` : ''
}

/** What a Job in progress does. The message stays the same until it ends, so it causes one Event. */
function jobReason(observed: Observed, context: Context): ConditionReason | undefined {
  const { cluster, jobs, progress } = observed
  const job = jobs.find((candidate) => isShardsJob(candidate) && isUnfinished(candidate))
  if (job === undefined) return undefined
  const silence = silenceReason(job, progress, context)
  if (silence !== undefined) return silence
  const purpose = hasReported(observed, job) ? progress?.shards?.purpose : undefined
  const previous = getCondition(cluster, 'ShardsPlaced')?.reason
  const reason = isPurpose(purpose)
    ? WORK_REASONS[purpose]
    : (Object.values(WORK_REASONS).find((known) => known === previous) ?? 'Repairing')
  return { reason, message: `Job ${job.metadata.name} is in progress` }
}

function isPurpose(purpose: string | undefined): purpose is ShardPurpose {
  return purpose !== undefined && purpose in WORK_REASONS
}

/** A lost node that no Job is to replace: a user decides. */
function lostNodeReason(
  { cluster }: Observed,
  summary: ShardsSummary,
): ConditionReason | undefined {
  const undecided = lostNodes(cluster, summary).filter(
    ({ peer }) => !summary.targets.repair.lost.includes(peer),
  )
  if (undecided.length === 0) return undefined
  return { reason: 'LostNode', message: lostNodeMessage(undecided, summary) }
}

/** Not if the cluster is split: then a pod without its volume has founded a cluster, and Consensus says what to do. */
function lostMajority(
  { cluster, consensus = [] }: Observed,
  summary: ShardsSummary,
): ConditionReason | undefined {
  if (summary.obstruction?.reason !== 'NoLeader') return undefined
  const answering = consensus.flatMap(({ ordinal, state }) => (state === 'unknown' ? [] : ordinal))
  const message = lostMajorityMessage(cluster, summary, answering)
  return message === undefined ? undefined : { reason: 'LostNode', message }
}

/** A node that a user has given up is not replaced while its volume is intact. */
function intactNodeReason(
  { cluster, statefulSet }: Observed,
  summary: ShardsSummary,
): ConditionReason | undefined {
  const nodes = intactNodes(cluster, summary)
  if (nodes.length === 0) return undefined
  const release = releaseName(cluster.metadata.name)
  const messages = nodes.map(({ ordinal, peer }) => {
    const claim = claimName(dataClaimTemplate(statefulSet), release, ordinal)
    const last = summary.onlyOn.flatMap((entry) => (entry.peer === peer ? entry.shards : []))
    const price =
      last.length === 0
        ? 'every shard on it has an Active replica on another node'
        : `no other node has an Active replica of ${formatNames(last, MAX_LISTED)}, which would be lost`
    return `node ${ordinal}, which the annotation ${ANNOTATIONS.replace} names, is not replaced while its volume exists, with which its pod could not join as a new node: repair the pod, or delete PersistentVolumeClaim ${claim} and pod ${release}-${ordinal}, and the node is replaced; ${price}`
  })
  return { reason: 'VolumeIntact', message: messages.join('; ') }
}

/** An annotation that has no effect, because of what it names. */
function annotationNote({ cluster }: Observed, { nodes, peers }: ShardsSummary): string {
  const ignored = replacedPeers(cluster, { nodes, peers }).filter(({ isIgnored }) => isIgnored)
  if (ignored.length === 0) return ''
  const names = formatNames(
    ignored.map(({ ordinal }) => `node ${ordinal}`),
    MAX_LISTED,
  )
  return `; the annotation ${ANNOTATIONS.replace} has no effect on ${names}: it was set while the node was running`
}

/** The last Job failed, and what it was to do is still due. */
function failedRun(
  observed: Observed,
  { plans }: ShardsSummary,
  context: Context,
): ConditionReason | undefined {
  if (!Object.values(plans).some(({ is }) => is === 'step')) return undefined
  return lastShardsRun(observed, context)?.failure
}

function unplacedReason(
  { cluster }: Observed,
  summary: ShardsSummary,
): ConditionReason | undefined {
  const { repair, drain, reshard, balance } = summary.plans
  const plans = [repair, drain, reshard, balance]
  const refused = plans.find((plan) => plan?.is === 'refused')
  if (refused?.is === 'refused') {
    const { reason, message } = refused
    return { reason, message: `${message}${backupsNote(reason, summary)}` }
  }
  if (summary.activeReplicas >= summary.replicas || isUnsettled(summary)) return undefined
  const cause = defectCause(summary.plans.repair, cluster.spec.healing.replicas)
  return { reason: 'ReplicasNotActive', message: `${countMessage(summary)}${cause}` }
}

function defectCause(repair: PlanOutcome, isRepaired: boolean): string {
  if (repair.is === 'waiting') return `: ${withoutProgress(repair.message)}`
  return isRepaired ? '' : '; spec.healing.replicas is false, so they are not repaired'
}

/** Shards without an Active replica can be restored only from a backup. */
function backupsNote(reason: string, { backups }: ShardsSummary): string {
  if (reason !== 'LastReplicaLost' && reason !== 'NoActiveReplica') return ''
  return backups.length === 0
    ? '; no Completed VecBackup of the cluster exists'
    : `; the newest Completed backups: ${backups.join(', ')}`
}

function countMessage({ replicas, activeReplicas }: ShardsSummary): string {
  return `${activeReplicas} of ${replicas} replicas are Active`
}

/** Nodes usually agree within seconds. Until they do, nothing is known of the replicas, and none is repaired. */
function lastingDisagreement({
  at,
  unsettledSince,
  plans: { repair },
}: ShardsSummary): ConditionUpdate | undefined {
  if (unsettledSince === undefined || repair.is !== 'waiting') return undefined
  if (secondsSince(unsettledSince, new Date(at)) < DISAGREEMENT_SECONDS) return undefined
  const message = `the nodes do not agree about the shards: ${repair.message}`
  return update('Unknown', { reason: 'ShardsUnknown', message: message.slice(0, MAX_MESSAGE) })
}

function hasAgreed(summary: ShardsSummary | undefined): summary is ShardsSummary {
  return summary !== undefined && summary.obstruction === undefined && !isUnsettled(summary)
}

function isUnsettled({ plans }: ShardsSummary): boolean {
  return plans.repair.is === 'waiting' && plans.repair.purpose === 'agreement'
}

function notPlaced({ reason, message }: ConditionReason): ConditionUpdate {
  return update('False', { reason, message: message.slice(0, MAX_MESSAGE) })
}

function update(status: ConditionUpdate['status'], reason: ConditionReason): ConditionUpdate {
  return { type: 'ShardsPlaced', status, ...reason }
}
