/**
 * Hibernation (`spec.hibernate`): helm scales the StatefulSet to 0 pods and to spec.replicas again. The
 * volumes keep the data and the identity of each node, so the nodes find each other when all of them
 * start together. No node is removed: nothing is drained, and spec.replicas stays.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { formatAcceptHint } from '../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { compareMinors } from '../../crds/versions.ts'
import type { ConditionUpdate } from '../conditions.ts'
import type { Observed } from './ports.ts'
import { acceptedRisks, appliedReplicas, parseAppliedSpec, valueAt } from './validation.ts'
import { versionSteps } from './version-steps.ts'
import { dataVolumeSize, resizedVolume } from './volumes.ts'

/** Phase of the cluster, and reason of its conditions. */
export const HIBERNATED = 'Hibernated'

/**
 * The StatefulSet has no pods because of spec.hibernate. Also true between the change of the spec to
 * false and the helm run that starts the pods.
 */
export function isHibernated({
  cluster,
  statefulSet,
}: Pick<Observed, 'cluster' | 'statefulSet'>): boolean {
  if (statefulSet?.spec.replicas !== 0) return false
  return cluster.spec.hibernate === true || cluster.status?.phase === HIBERNATED
}

/** The helm run that is due stops all pods. */
export function stopsPods({
  cluster,
  statefulSet,
}: Pick<Observed, 'cluster' | 'statefulSet'>): boolean {
  return cluster.spec.hibernate === true && (statefulSet?.spec.replicas ?? 0) > 0
}

/** The conditions that describe the pods, while there are none. */
export function hibernatedConditions({ spec }: VecCluster): ConditionUpdate[] {
  const message =
    spec.hibernate === true
      ? 'spec.hibernate is true: no pods run, and the volumes stay'
      : 'no pods run until the next helm run has started them'
  const condition = (type: string, status: ConditionUpdate['status']): ConditionUpdate => ({
    type,
    status,
    reason: HIBERNATED,
    message,
  })
  return [
    condition('Progressing', 'False'),
    condition('Ready', 'False'),
    ...(spec.cluster.enabled
      ? [condition('Consensus', 'Unknown'), condition('ShardsPlaced', 'Unknown')]
      : []),
  ]
}

/** Why helm must not run on a StatefulSet without pods; undefined if it may. */
export function stoppedError(observed: Observed): string | undefined {
  const { cluster, statefulSet } = observed
  if (statefulSet?.spec.replicas !== 0) return undefined
  const resized = resizedVolume(cluster.spec, statefulSet, dataVolumeSize(observed))
  // The claims of all pods grow with the StatefulSet, and some drivers need the pods for that.
  if (resized !== undefined) {
    return `spec.${resized.field}.size can be changed only while pods run: set it to ${resized.from} until the cluster is Running`
  }
  return versionError(observed, statefulSet) ?? missingNodesError(cluster)
}

/**
 * The files of a node are of the version that it ran last. Of two changes of the version without pods
 * only the second one would start, and the engine would skip a minor version.
 */
function versionError(
  observed: Observed,
  { metadata }: Pick<StatefulSet, 'metadata'>,
): string | undefined {
  if (acceptedRisks(observed.cluster).includes('version-skip')) return undefined
  const present =
    metadata.labels?.['app.kubernetes.io/version'] ?? observed.progress?.applied?.version
  if (present === undefined || compareMinors(present, versionSteps(observed).version) <= 0) {
    return undefined
  }
  return `spec.version can be raised to another minor version only while pods run: set it to ${present} until the cluster is Running`
}

/** While no pod runs, no engine can report the shards of a node that would not be started again. */
function missingNodesError(cluster: VecCluster): string | undefined {
  const { spec } = cluster
  if (!spec.cluster.enabled || acceptedRisks(cluster).includes('shard-loss')) return undefined
  const nodes = stoppedNodes(cluster)
  if (spec.replicas >= nodes) return undefined
  return `spec.replicas is ${spec.replicas}, but the cluster without pods has ${nodes} nodes: set spec.replicas to ${nodes}, and lower it once the cluster is Running; or ${formatAcceptHint('shard-loss')}`
}

/** Number of the nodes that have data. */
function stoppedNodes(cluster: VecCluster): number {
  const { metadata, status = {} } = cluster
  const applied = parseAppliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
  const replicas = appliedReplicas(cluster)
  // The run that stopped the pods removed no node with shards. Pods that were drained shortly before it may
  // still be in the status, which is not observed again until pods run.
  if (valueAt(applied, 'hibernate') === true && replicas !== undefined) return replicas
  return Math.max(status.formedNodes ?? 0, status.nodes?.length ?? 0, replicas ?? 0)
}
