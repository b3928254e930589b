/** Phase, conditions and all other status fields of a VecCluster. */
import type { ClusterStatus } from '../../crds/cluster.ts'
import { clusterConnection, serviceUrl } from '../../crds/contract/connection.ts'
import { releaseName } from '../../crds/contract/names.ts'
import type { ContainerStatus, Pod } from '../../crds/kubernetes.ts'
import type { Condition, ConditionReason } from '../../crds/schema.ts'
import { getCondition, setConditions, type ConditionUpdate } from '../conditions.ts'
import { jobNameField } from '../request.ts'
import type { Context } from '../protocol.ts'
import { capacityCondition, type RunState } from './capacity.ts'
import { certificateCondition, pendingCertificate } from './certificate.ts'
import { consensusCondition, isConsensusLost, formedNodes } from './consensus.ts'
import type { Observed } from './ports.ts'
import {
  differingVersions,
  isBeingReplaced,
  isNewlyApplied,
  isRolledOut,
  isRollingOut,
  isServingPhase,
} from './rollout.ts'
import { HIBERNATED, hibernatedConditions, isHibernated } from './hibernate.ts'
import { hibernationBackupStatus } from './hibernation-backup.ts'
import { keyRotatedCondition, keyRotationStatus } from './keys/status.ts'
import { unusableRelease } from './release-objects.ts'
import { versionSteps } from './version-steps.ts'
import { plannedVolumeSize } from './volumes.ts'
import { awaitedByRun } from './windows.ts'
import { closedGateOf, isDraining, shardsCondition, shardsStatus } from './shards/status.ts'

/**
 * The whole status. `notApplied` becomes the condition Applied, and `shardWork` the condition
 * ShardsPlaced.
 */
export function clusterStatus(
  observed: Observed,
  notApplied: ConditionReason | undefined,
  context: Context,
  shardWork?: ConditionReason,
): ClusterStatus {
  const { now, settings } = context
  const { cluster, pendingRun, progress } = observed
  const applied = progress?.applied
  const phase = phaseOf(observed)
  const window = pendingRun && awaitedByRun(observed, pendingRun, now)
  const run = { window, notApplied }
  const volumeSize = plannedVolumeSize(observed, { isRunHeld: isRunHeld(observed, run) })
  const nodes = formedNodes(observed, isRolledOut(observed))
  const { remaining } = versionSteps(observed)
  const podVersions = differingVersions(observed)
  const certificate = pendingCertificate(observed)
  const findings = [
    ...podConditions(observed, context, { run, shardWork }),
    ...secretConditions(observed, certificate),
    appliedCondition(cluster.metadata.generation, notApplied),
  ]
  return {
    ...(phase !== undefined && { phase }),
    replicas: cluster.spec.replicas,
    readyReplicas: readyReplicas(observed),
    ...(applied !== undefined && {
      version: applied.version,
      helmRelease: releaseName(cluster.metadata.name),
      endpoint: serviceUrl(clusterConnection(cluster), settings.clusterDomain),
      appliedGeneration: applied.generation,
      appliedRun: applied.run,
    }),
    ...(remaining.length > 0 && { versionPlan: remaining }),
    ...(podVersions.length > 0 && { podVersions }),
    ...(nodes !== undefined && { formedNodes: nodes }),
    ...shardsStatus(observed),
    ...hibernationBackupStatus(observed),
    ...keyRotationStatus(observed),
    ...(certificate !== undefined && { pendingCertificate: certificate }),
    ...(volumeSize !== undefined && { volumeSize }),
    ...jobNameField(observed),
    conditions: setConditions(cluster, findings, now).map((condition) =>
      withGeneration(condition, rolledOutGeneration(observed)),
    ),
  }
}

/** What only a user changes, before the helm run that is due. */
const SPEC_ERRORS = new Set(['InvalidSpec', 'InvalidSecret'])

/** The helm run that is due may have to wait for days. Its plan may change until then. */
function isRunHeld({ cluster }: Observed, { window, notApplied }: RunState): boolean {
  // The run stops the pods, and volumes grow while they run.
  if (cluster.spec.hibernate === true) return false
  return SPEC_ERRORS.has(notApplied?.reason ?? '') || window !== undefined
}

function secretConditions(
  observed: Observed,
  certificate: ClusterStatus['pendingCertificate'],
): ConditionUpdate[] {
  const conditions = [keyRotatedCondition(observed), certificateCondition(observed, certificate)]
  return conditions.filter((condition) => condition !== undefined)
}

function readyReplicas(observed: Observed): number {
  const reported = observed.statefulSet?.status?.readyReplicas ?? 0
  return isBeingReplaced(observed) ? (observed.cluster.status?.readyReplicas ?? reported) : reported
}

/** Conditions that describe the pods and the shards on them. */
function podConditions(
  observed: Observed,
  context: Context,
  { run, shardWork }: { run: RunState; shardWork: ConditionReason | undefined },
): ConditionUpdate[] {
  const isApplied = observed.progress?.applied !== undefined
  if (isApplied && isHibernated(observed)) {
    const isStopping = phaseOf(observed) !== HIBERNATED
    const conditions = hibernatedConditions(observed.cluster)
    return isStopping ? [progressingCondition(observed), ...conditions.slice(1)] : conditions
  }
  // What hibernation left says nothing about the pods that were started after it.
  const known = [
    consensusCondition(observed),
    shardsCondition(observed, shardWork, context),
    capacityCondition(observed, run),
  ]
  return [
    ...(isApplied ? [progressingCondition(observed), readyCondition(observed)] : []),
    ...known
      .filter((condition) => condition !== undefined)
      .filter(({ reason }) => reason !== HIBERNATED),
  ]
}

/** Conditions that describe the pods, not the spec. */
const POD_CONDITIONS = new Set(['Ready', 'Progressing', 'Consensus'])

/**
 * `kubectl wait --for=condition=Ready` compares the condition's generation with that of the resource:
 * a change that is rejected or not rolled out yet must not count as Ready.
 */
function withGeneration(condition: Condition, generation: number | undefined): Condition {
  if (!POD_CONDITIONS.has(condition.type) || generation === undefined) return condition
  return { ...condition, observedGeneration: generation }
}

/**
 * The generation that the pods run: that of the last helm run once it is rolled out, else the previous.
 * Between two steps to a version, the pods do not run what the spec says yet.
 */
function rolledOutGeneration(observed: Observed): number | undefined {
  const { cluster, progress } = observed
  const previous = getCondition(cluster, 'Ready')?.observedGeneration
  const hasSteps = versionSteps(observed).remaining.length > 0
  const isComplete = !hasSteps && (isRolledOut(observed) || phaseOf(observed) === HIBERNATED)
  if (previous === undefined || (isComplete && !isNewlyApplied(observed))) {
    return progress?.applied?.generation
  }
  return previous
}

function phaseOf(observed: Observed): ClusterStatus['phase'] {
  const { cluster, progress } = observed
  const previousPhase = cluster.status?.phase
  if (progress?.applied === undefined) return previousPhase ?? 'Pending'
  const wasRunning =
    isServingPhase(previousPhase) || previousPhase === 'Upgrading' || previousPhase === HIBERNATED
  if (isNewlyApplied(observed)) return wasRunning ? 'Upgrading' : 'Pending'
  if (isBeingReplaced(observed) && previousPhase !== undefined) return previousPhase
  if (isHibernated(observed) && !isRollingOut(observed)) return HIBERNATED
  if (wasRunning && isDraining(observed)) return 'Draining'
  if (isRolledOut(observed) && !isConsensusLost(observed)) return 'Running'
  // If a pod is lost later, the phase remains Running and the condition Ready reports it.
  if (isServingPhase(previousPhase) && !isRollingOut(observed)) return 'Running'
  return wasRunning ? 'Upgrading' : 'Pending'
}

function progressingCondition(observed: Observed): ConditionUpdate {
  const { cluster, progress } = observed
  const run = progress?.applied?.run ?? 0
  const release = releaseName(cluster.metadata.name)
  const gate = closedGateOf(observed)
  if (gate !== undefined) return { type: 'Progressing', status: 'False', ...gate }
  return isServingPhase(phaseOf(observed))
    ? {
        type: 'Progressing',
        status: 'False',
        reason: 'RolloutComplete',
        message: `run ${run} of ${release} is rolled out`,
      }
    : {
        type: 'Progressing',
        status: 'True',
        reason: 'HelmReleaseApplied',
        message: `run ${run} of ${release} was applied`,
      }
}

/** Describes the pods of the last applied release, which may be fewer or more than the spec asks for. */
function readyCondition(observed: Observed): ConditionUpdate {
  const { cluster, statefulSet, pods = [] } = observed
  const unusable = unusableRelease(observed)
  if (unusable !== undefined) return { type: 'Ready', status: 'False', ...unusable }
  const previous = getCondition(cluster, 'Ready')
  if (previous !== undefined && isBeingReplaced(observed)) {
    const { type, status, reason, message } = previous
    return { type, status, reason, message }
  }
  const release = releaseName(cluster.metadata.name)
  const desiredReplicas = statefulSet?.spec.replicas ?? cluster.spec.replicas
  const readyReplicas = statefulSet?.status?.readyReplicas ?? 0
  // While a pod is being removed, more of them are ready.
  const counted = Math.min(readyReplicas, desiredReplicas)
  const message = `${counted}/${desiredReplicas} replicas ready`
  if (statefulSet !== undefined && desiredReplicas > 0 && readyReplicas >= desiredReplicas) {
    return { type: 'Ready', status: 'True', reason: 'AllReplicasReady', message }
  }
  const cause =
    statefulSet === undefined ? `StatefulSet ${release} does not exist` : formatCauses(pods)
  return {
    type: 'Ready',
    status: 'False',
    reason: 'ReplicasNotReady',
    message: cause === undefined ? message : `${message}: ${cause}`,
  }
}

function appliedCondition(
  generation: number,
  notApplied: ConditionReason | undefined,
): ConditionUpdate {
  return notApplied === undefined
    ? {
        type: 'Applied',
        status: 'True',
        reason: 'UpToDate',
        message: `generation ${generation} is applied`,
      }
    : { type: 'Applied', status: 'False', ...notApplied }
}

/** Number of pods that the message names; the rest is only counted. */
const MAX_PODS = 3
const MAX_CAUSE = 200

/**
 * `vec-docs-0: ...; vec-docs-1: ...`: why pods are not ready, in the words of the scheduler, the kubelet and
 * the container; undefined if no cause is known.
 */
export function formatCauses(pods: readonly Pod[]): string | undefined {
  const causes = pods
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .flatMap((pod) => {
      const cause = podCause(pod)
      return cause === undefined ? [] : [`${pod.metadata.name}: ${oneLine(cause)}`]
    })
  if (causes.length === 0) return undefined
  const suffix = causes.length > MAX_PODS ? `; and ${causes.length - MAX_PODS} more` : ''
  return causes.slice(0, MAX_PODS).join('; ') + suffix
}

function podCause({ metadata, status = {} }: Pod): string | undefined {
  if (podCondition(status, 'Ready')?.status === 'True') return undefined
  if (metadata.deletionTimestamp !== undefined) return 'is terminating'
  const scheduled = podCondition(status, 'PodScheduled')
  if (scheduled?.status === 'False') return scheduled.message ?? scheduled.reason
  // The kubelet has the reason, such as a volume that is attached to another node, only in an Event of the pod.
  if (podCondition(status, 'PodReadyToStartContainers')?.status === 'False')
    return 'its volumes or its network are not ready, see `kubectl describe pod`'
  const init = firstContainerCause(status.initContainerStatuses ?? [])
  if (init !== undefined) return `init container ${init}`
  const main = firstContainerCause(status.containerStatuses ?? [])
  return main === undefined ? undefined : `container ${main}`
}

function podCondition({ conditions = [] }: NonNullable<Pod['status']>, conditionType: string) {
  return conditions.find(({ type }) => type === conditionType)
}

function firstContainerCause(containers: readonly ContainerStatus[]): string | undefined {
  for (const container of containers) {
    const cause = containerCause(container)
    if (cause !== undefined) return `${container.name}: ${cause}`
  }
  return undefined
}

/**
 * The message of CrashLoopBackOff only states the kubelet's back-off, which changes constantly, so the exit
 * of the container is shown instead.
 */
function containerCause({ state, lastState }: ContainerStatus): string | undefined {
  const terminated = state?.terminated ?? lastState?.terminated
  const exit =
    terminated === undefined || terminated.exitCode === 0 ? undefined : formatExit(terminated)
  const reason = state?.waiting?.reason
  if (reason === undefined) return exit
  if (reason === 'CrashLoopBackOff') return exit === undefined ? reason : `${reason}, ${exit}`
  // Every container passes through this state.
  if (reason === 'PodInitializing') return undefined
  const message = state?.waiting?.message
  return message === undefined ? reason : `${reason}: ${message}`
}

function formatExit({
  exitCode,
  reason,
  message,
}: {
  exitCode: number
  reason?: string
  message?: string
}) {
  const details = [reason === 'Error' ? undefined : reason, message].filter(
    (detail) => detail !== undefined && detail !== '',
  )
  return [`exit code ${exitCode}`, ...details].join(', ')
}

function oneLine(text: string): string {
  return text
    .slice(0, MAX_CAUSE * 2)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .slice(0, MAX_CAUSE)
}
