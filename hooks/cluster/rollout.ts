/** Whether the pods of a VecCluster are as the last helm run and the StatefulSet say. */
import type { ClusterStatus } from '../../crds/cluster.ts'
import {
  type Pod,
  type StatefulSet,
  hasTwoRevisions,
  isOutdated,
  mayHaveOutdatedPods,
  partitionOf,
} from '../../crds/kubernetes.ts'
import { trailingNumber } from '../../crds/contract/names.ts'
import { engineVersions } from '../../crds/versions.ts'
import { isUnfinished } from '../request.ts'
import { helmJobs } from './helm-result.ts'
import type { Observed } from './ports.ts'

/** The status does not show the last reported helm run yet. */
export function isNewlyApplied({ cluster, progress }: Observed): boolean {
  return progress?.applied !== undefined && progress.applied.run !== cluster.status?.appliedRun
}

/** All pods were ready, and the nodes have been serving since. */
export function isServingPhase(phase: ClusterStatus['phase']): boolean {
  return phase === 'Running' || phase === 'Draining'
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

/** Pods are missing, not ready or perhaps outdated, so they are read to find the cause. */
export function needsPods({ statefulSet, progress }: Observed): boolean {
  if (statefulSet === undefined || progress?.applied === undefined) return false
  const { spec, status } = statefulSet
  return (status?.readyReplicas ?? 0) !== (spec.replicas ?? 1) || mayHaveOutdatedPods(statefulSet)
}

/**
 * Pods have another template than the StatefulSet, and Kubernetes replaces only those that a Job on
 * the shards has released.
 */
export function isUpdateGated(observed: Observed): boolean {
  const { statefulSet, progress } = observed
  if (statefulSet === undefined || progress?.applied === undefined) return false
  const { metadata, status } = statefulSet
  const generation = metadata.generation ?? 0
  return (
    partitionOf(statefulSet) > 0 &&
    generation >= (progress.applied.statefulSetGeneration ?? 0) &&
    (status?.observedGeneration ?? 0) >= generation &&
    isUpdating(statefulSet, observed)
  )
}

/** All pods have the same revision. If a Running cluster has lost pods, the remaining ones are queried. */
export function canQueryPods(observed: Observed): boolean {
  if (isRolledOut(observed)) return true
  const { statefulSet, cluster } = observed
  const isServing = (statefulSet?.status?.readyReplicas ?? 0) > 0
  // Between two nodes all pods answer, and the gate may be closed for long.
  if (isServing && isUpdateGated(observed)) return true
  if (isServing && hasOnlySurplusPods(observed)) return true
  return isServing && isServingPhase(cluster.status?.phase) && !isRollingOut(observed)
}

/** The StatefulSet controller has not rolled out the applied release completely. */
export function isRollingOut(observed: Observed): boolean {
  const { statefulSet } = observed
  if (statefulSet === undefined) return false
  return isReplacingPods(statefulSet, observed) || hasSurplusPods(statefulSet)
}

function isReplacingPods(statefulSet: StatefulSet, observed: Observed): boolean {
  const { metadata, status = {} } = statefulSet
  const generation = metadata.generation ?? 0
  return (
    generation < (observed.progress?.applied?.statefulSetGeneration ?? 0) ||
    (status.observedGeneration ?? 0) < generation ||
    isUpdating(statefulSet, observed)
  )
}

/** Pods of removed nodes have not ended. Fewer replicas mean lost pods, not a rollout. */
export function hasSurplusPods({ spec, status = {} }: StatefulSet): boolean {
  return (status.replicas ?? 0) > (spec.replicas ?? 1)
}

/**
 * The pod of a removed node whose Kubernetes node does not answer exists for as long as that one. The others are all
 * ready, and must not be left alone for that long.
 */
export function hasOnlySurplusPods(observed: Observed): boolean {
  const { statefulSet, progress } = observed
  if (statefulSet === undefined || progress?.applied === undefined) return false
  const { spec, status = {} } = statefulSet
  const areReady = (status.readyReplicas ?? 0) >= (spec.replicas ?? 1)
  return areReady && hasSurplusPods(statefulSet) && !isReplacingPods(statefulSet, observed)
}

/** Not every pod has the newest template. If the pods could not be listed, those that are not counted do not. */
function isUpdating(statefulSet: StatefulSet, { pods = [] }: Observed): boolean {
  if (hasTwoRevisions(statefulSet)) return true
  if (!mayHaveOutdatedPods(statefulSet)) return false
  // The pod of a removed node keeps its template until it ends.
  const present = podsOfNodes(statefulSet, pods)
  return pods.length === 0 || present.some((pod) => isOutdated(pod, statefulSet))
}

function podsOfNodes({ spec }: StatefulSet, pods: readonly Pod[]): Pod[] {
  const nodes = spec.replicas ?? 1
  return pods.filter(({ metadata }) => trailingNumber(metadata.name) < nodes)
}

/** Versions of the engine by the images of the pods, the oldest first; none while all pods have the same. */
export function differingVersions({ statefulSet, pods = [] }: Observed): string[] {
  if (statefulSet === undefined) return []
  const images = podsOfNodes(statefulSet, pods).map(({ spec }) => spec?.containers?.[0]?.image)
  const versions = engineVersions(images)
  return versions.length > 1 ? versions : []
}

/**
 * A helm Job replaces the StatefulSet to enlarge the volumes: for a moment it is missing, or has no status
 * yet. Its pods keep running, and what was observed of them last is still the best answer.
 */
export function isBeingReplaced({ cluster, jobs, statefulSet, progress }: Observed): boolean {
  return (
    progress?.applied !== undefined &&
    cluster.status?.readyReplicas !== undefined &&
    statefulSet?.status?.observedGeneration === undefined &&
    helmJobs(jobs).some(isUnfinished)
  )
}
