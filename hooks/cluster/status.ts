/** Phase and conditions of a VecCluster (specification: states and transitions). */
import { connectionOf, endpointOf } from '../../crds/connection.ts'
import type { ClusterStatus } from '../../crds/cluster.ts'
import { releaseName } from '../../crds/names.ts'
import type { Condition } from '../../crds/schema.ts'
import { conditionOf, conditionsOf, type Finding } from '../conditions.ts'
import type { Context } from '../protocol.ts'
import { consensusFinding, isConsensusLost } from './consensus.ts'
import type { Observed } from './observed.ts'
import { causeOf } from './pods.ts'

/** Why the release is not, or not yet, as the spec wants it; absent when it is. */
export interface Shortfall {
  reason: string
  message: string
}

/** The whole status. `shortfall` becomes the condition Applied. */
export function clusterStatus(
  observed: Observed,
  shortfall: Shortfall | undefined,
  { now }: Context,
): ClusterStatus {
  const { cluster, progress } = observed
  const applied = progress?.applied
  const phase = phaseOf(observed)
  const consensus = consensusFinding(observed)
  const findings = [
    ...(applied === undefined ? [] : [progressing(observed), ready(observed)]),
    ...(consensus === undefined ? [] : [consensus]),
    appliedFinding(cluster.metadata.generation, shortfall),
  ]
  return {
    ...(phase !== undefined && { phase }),
    replicas: cluster.spec.replicas,
    readyReplicas: observed.statefulSet?.status?.readyReplicas ?? 0,
    ...(applied !== undefined && {
      version: applied.version,
      helmRelease: releaseName(cluster.metadata.name),
      endpoint: endpointOf(connectionOf(cluster)),
      appliedGeneration: applied.generation,
      appliedRun: applied.run,
    }),
    conditions: conditionsOf(cluster, findings, now).map((condition) =>
      ofGeneration(condition, shownGeneration(observed)),
    ),
  }
}

/** Conditions about the pods, not about the spec. */
const ABOUT_PODS = new Set(['Ready', 'Progressing', 'Consensus'])

/**
 * `kubectl wait --for=condition=Ready` compares the generation of the condition with that of the
 * resource: a change that is not rolled out yet, or refused, is not Ready.
 */
function ofGeneration(condition: Condition, generation: number | undefined): Condition {
  if (!ABOUT_PODS.has(condition.type) || generation === undefined) return condition
  return { ...condition, observedGeneration: generation }
}

/** The generation that the pods run: that of the last helm run once it is rolled out, else the former. */
function shownGeneration(observed: Observed): number | undefined {
  const { cluster, progress } = observed
  const before = conditionOf(cluster, 'Ready')?.observedGeneration
  if (before === undefined || (isRolledOut(observed) && !isJustApplied(observed))) {
    return progress?.applied?.generation
  }
  return before
}

/** The helm run of the last report has not been shown in the status yet. */
export function isJustApplied({ cluster, progress }: Observed): boolean {
  return progress?.applied !== undefined && progress.applied.run !== cluster.status?.appliedRun
}

function phaseOf(observed: Observed): ClusterStatus['phase'] {
  const { cluster, progress } = observed
  const before = cluster.status?.phase
  if (progress?.applied === undefined) return before ?? 'Pending'
  const wasRunning = before === 'Running' || before === 'Upgrading'
  if (isJustApplied(observed)) return wasRunning ? 'Upgrading' : 'Pending'
  if (isRolledOut(observed) && !isConsensusLost(observed)) return 'Running'
  // A pod that is lost later leaves Running, and the condition Ready tells of it.
  if (before === 'Running' && !isRolling(observed)) return 'Running'
  return wasRunning ? 'Upgrading' : 'Pending'
}

/** Every replica is ready, and it is this StatefulSet, not an older one of a lagging cache. */
export function isRolledOut(observed: Observed): boolean {
  const { statefulSet, progress } = observed
  const wanted = statefulSet?.spec.replicas ?? 1
  return (
    statefulSet?.status !== undefined &&
    progress?.applied !== undefined &&
    !isRolling(observed) &&
    wanted > 0 &&
    (statefulSet.status.readyReplicas ?? 0) === wanted
  )
}

/** Pods are missing or not ready, so why is worth a question. */
export function lacksPods({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined || progress?.applied === undefined) return false
  return (statefulSet.status?.readyReplicas ?? 0) !== (statefulSet.spec.replicas ?? 1)
}

/** The pods are those of one revision; while a cluster that was Running lost some, the others are asked. */
export function mayAskPods(observed: Observed): boolean {
  if (isRolledOut(observed)) return true
  const { statefulSet, cluster } = observed
  const isServing = (statefulSet?.status?.readyReplicas ?? 0) > 0
  return isServing && cluster.status?.phase === 'Running' && !isRolling(observed)
}

/** The StatefulSet has not caught up with what was applied. */
function isRolling({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined) return false
  const { metadata, spec, status = {} } = statefulSet
  const generation = metadata.generation ?? 0
  return (
    generation < (progress?.applied?.statefulSetGeneration ?? 0) ||
    (status.observedGeneration ?? 0) < generation ||
    status.currentRevision !== status.updateRevision ||
    // Fewer are pods that were lost, not a rollout.
    (status.replicas ?? 0) > (spec.replicas ?? 1)
  )
}

function progressing(observed: Observed): Finding {
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

/** Speaks of the pods that run what was applied last, which may be fewer or more than the spec asks for. */
function ready({ cluster, statefulSet, pods = [] }: Observed): Finding {
  const release = releaseName(cluster.metadata.name)
  const wanted = statefulSet?.spec.replicas ?? cluster.spec.replicas
  const count = statefulSet?.status?.readyReplicas ?? 0
  const message = `${count}/${wanted} replicas ready`
  if (statefulSet !== undefined && wanted > 0 && count === wanted) {
    return { type: 'Ready', status: 'True', reason: 'AllReplicasReady', message }
  }
  const cause = statefulSet === undefined ? `StatefulSet ${release} does not exist` : causeOf(pods)
  return {
    type: 'Ready',
    status: 'False',
    reason: 'ReplicasNotReady',
    message: cause === undefined ? message : `${message}: ${cause}`,
  }
}

function appliedFinding(generation: number, shortfall: Shortfall | undefined): Finding {
  return shortfall === undefined
    ? {
        type: 'Applied',
        status: 'True',
        reason: 'UpToDate',
        message: `generation ${generation} is applied`,
      }
    : { type: 'Applied', status: 'False', ...shortfall }
}
