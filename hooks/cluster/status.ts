/** Phase, conditions and all other status fields of a VecCluster. */
import type { ClusterStatus } from '../../crds/cluster.ts'
import { clusterConnection, serviceUrl } from '../../crds/contract/connection.ts'
import { releaseName } from '../../crds/contract/names.ts'
import type { ContainerStatus, Pod } from '../../crds/kubernetes.ts'
import type { Condition, ConditionReason } from '../../crds/schema.ts'
import { getCondition, setConditions, type ConditionUpdate } from '../conditions.ts'
import { jobNameField } from '../job.ts'
import type { Context } from '../protocol.ts'
import { consensusCondition, isConsensusLost } from './consensus.ts'
import { formedNodes } from './formation.ts'
import type { Observed } from './observed.ts'

/** The whole status. `notApplied` becomes the condition Applied. */
export function clusterStatus(
  observed: Observed,
  notApplied: ConditionReason | undefined,
  { now }: Context,
): ClusterStatus {
  const { cluster, progress } = observed
  const applied = progress?.applied
  const phase = phaseOf(observed)
  const consensus = consensusCondition(observed)
  const nodes = formedNodes(observed, isRolledOut(observed))
  const findings = [
    ...(applied === undefined ? [] : [progressingCondition(observed), readyCondition(observed)]),
    ...(consensus === undefined ? [] : [consensus]),
    appliedCondition(cluster.metadata.generation, notApplied),
  ]
  return {
    ...(phase !== undefined && { phase }),
    replicas: cluster.spec.replicas,
    readyReplicas: observed.statefulSet?.status?.readyReplicas ?? 0,
    ...(applied !== undefined && {
      version: applied.version,
      helmRelease: releaseName(cluster.metadata.name),
      endpoint: serviceUrl(clusterConnection(cluster)),
      appliedGeneration: applied.generation,
      appliedRun: applied.run,
    }),
    ...(nodes !== undefined && { formedNodes: nodes }),
    ...jobNameField(observed),
    conditions: setConditions(cluster, findings, now).map((condition) =>
      withGeneration(condition, rolledOutGeneration(observed)),
    ),
  }
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

/** The generation that the pods run: that of the last helm run once it is rolled out, else the previous. */
function rolledOutGeneration(observed: Observed): number | undefined {
  const { cluster, progress } = observed
  const previous = getCondition(cluster, 'Ready')?.observedGeneration
  if (previous === undefined || (isRolledOut(observed) && !isNewlyApplied(observed))) {
    return progress?.applied?.generation
  }
  return previous
}

/** The status does not show the last reported helm run yet. */
export function isNewlyApplied({ cluster, progress }: Observed): boolean {
  return progress?.applied !== undefined && progress.applied.run !== cluster.status?.appliedRun
}

function phaseOf(observed: Observed): ClusterStatus['phase'] {
  const { cluster, progress } = observed
  const previousPhase = cluster.status?.phase
  if (progress?.applied === undefined) return previousPhase ?? 'Pending'
  const wasRunning = previousPhase === 'Running' || previousPhase === 'Upgrading'
  if (isNewlyApplied(observed)) return wasRunning ? 'Upgrading' : 'Pending'
  if (isRolledOut(observed) && !isConsensusLost(observed)) return 'Running'
  // If a pod is lost later, the phase remains Running and the condition Ready reports it.
  if (previousPhase === 'Running' && !isRollingOut(observed)) return 'Running'
  return wasRunning ? 'Upgrading' : 'Pending'
}

/** Every replica is ready, and the StatefulSet is current, not an older version from a lagging cache. */
export function isRolledOut(observed: Observed): boolean {
  const { statefulSet, progress } = observed
  const desiredReplicas = statefulSet?.spec.replicas ?? 1
  return (
    statefulSet?.status !== undefined &&
    progress?.applied !== undefined &&
    !isRollingOut(observed) &&
    desiredReplicas > 0 &&
    (statefulSet.status.readyReplicas ?? 0) === desiredReplicas
  )
}

/** Pods are missing or not ready, so they are read to find the cause. */
export function hasUnreadyPods({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined || progress?.applied === undefined) return false
  return (statefulSet.status?.readyReplicas ?? 0) !== (statefulSet.spec.replicas ?? 1)
}

/** All pods have the same revision. If a Running cluster has lost pods, the remaining ones are queried. */
export function canQueryPods(observed: Observed): boolean {
  if (isRolledOut(observed)) return true
  const { statefulSet, cluster } = observed
  const isServing = (statefulSet?.status?.readyReplicas ?? 0) > 0
  return isServing && cluster.status?.phase === 'Running' && !isRollingOut(observed)
}

/** The StatefulSet controller has not rolled out the applied release completely. */
function isRollingOut({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined) return false
  const { metadata, spec, status = {} } = statefulSet
  const generation = metadata.generation ?? 0
  return (
    generation < (progress?.applied?.statefulSetGeneration ?? 0) ||
    (status.observedGeneration ?? 0) < generation ||
    status.currentRevision !== status.updateRevision ||
    // Fewer replicas mean lost pods, not a rollout.
    (status.replicas ?? 0) > (spec.replicas ?? 1)
  )
}

function progressingCondition(observed: Observed): ConditionUpdate {
  const { cluster, progress } = observed
  const run = progress?.applied?.run ?? 0
  const release = releaseName(cluster.metadata.name)
  return phaseOf(observed) === 'Running'
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
function readyCondition({ cluster, statefulSet, pods = [] }: Observed): ConditionUpdate {
  const release = releaseName(cluster.metadata.name)
  const desiredReplicas = statefulSet?.spec.replicas ?? cluster.spec.replicas
  const readyReplicas = statefulSet?.status?.readyReplicas ?? 0
  const message = `${readyReplicas}/${desiredReplicas} replicas ready`
  if (statefulSet !== undefined && desiredReplicas > 0 && readyReplicas === desiredReplicas) {
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
