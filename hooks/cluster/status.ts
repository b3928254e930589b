/** Phase and conditions of a VecCluster (specification: states and transitions). */
import { connectionOf, endpointOf } from '../../crds/connection.ts'
import type { ClusterStatus } from '../../crds/cluster.ts'
import { releaseName } from '../../crds/names.ts'
import { conditionOf, conditionsOf, type Finding } from '../conditions.ts'
import type { Context } from '../protocol.ts'
import type { Observed } from './observed.ts'

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
  const findings = [
    ...(applied === undefined ? [] : [progressing(observed), ready(observed)]),
    ...consensus(observed),
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
    conditions: conditionsOf(cluster, findings, now),
  }
}

/** The helm run of the last report has not been shown in the status yet. */
export function isJustApplied({ cluster, progress }: Observed): boolean {
  return progress?.applied !== undefined && progress.applied.run !== cluster.status?.appliedRun
}

function phaseOf(observed: Observed): ClusterStatus['phase'] {
  const { cluster, progress } = observed
  const before = cluster.status?.phase
  if (progress?.applied === undefined) return before
  const wasRunning = before === 'Running' || before === 'Upgrading'
  if (isJustApplied(observed)) return wasRunning ? 'Upgrading' : 'Pending'
  if (isRolledOut(observed) && stoppedPods(observed).length === 0) return 'Running'
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

/** The StatefulSet has not caught up with what was applied. */
function isRolling({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined) return false
  const { metadata, spec, status = {} } = statefulSet
  const generation = metadata.generation ?? 0
  return (
    generation < (progress?.applied?.statefulSetGeneration ?? 0) ||
    (status.observedGeneration ?? 0) < generation ||
    status.currentRevision !== status.updateRevision ||
    (status.replicas ?? 0) !== (spec.replicas ?? 1)
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

function ready({ cluster, statefulSet }: Observed): Finding {
  const wanted = cluster.spec.replicas
  const count = statefulSet?.status?.readyReplicas ?? 0
  const all = count >= wanted
  return {
    type: 'Ready',
    status: all ? 'True' : 'False',
    reason: all ? 'AllReplicasReady' : 'ReplicasNotReady',
    message: `${count}/${wanted} replicas ready`,
  }
}

/** `/readyz` stays 200 when the consensus thread of a pod has stopped, so the pods are asked. */
function consensus(observed: Observed): Finding[] {
  const { cluster } = observed
  if (observed.consensus === undefined) {
    const before = conditionOf(cluster, 'Consensus')
    return before === undefined ? [] : [before]
  }
  const stopped = stoppedPods(observed)
  const silent = observed.consensus.filter(({ state }) => state === 'unknown')
  const name = (ordinal: number) => `${releaseName(cluster.metadata.name)}-${ordinal}`
  const said = stopped.map(({ ordinal, error }) => `${name(ordinal)}: ${error ?? 'stopped'}`)
  if (stopped.length > 0) {
    return [
      {
        type: 'Consensus',
        status: 'False',
        reason: 'ConsensusStopped',
        message: said.join('; ').slice(0, 1000),
      },
    ]
  }
  return [
    silent.length > 0
      ? {
          type: 'Consensus',
          status: 'Unknown',
          reason: 'PodsNotAnswering',
          message: `no answer from ${silent.map(({ ordinal }) => name(ordinal)).join(', ')}`,
        }
      : {
          type: 'Consensus',
          status: 'True',
          reason: 'ConsensusWorking',
          message: `consensus works on ${observed.consensus.length} nodes`,
        },
  ]
}

function stoppedPods({ consensus: pods = [] }: Observed) {
  return pods.filter(({ state }) => state === 'stopped')
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
