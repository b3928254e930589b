/** The rolling update of a StatefulSet: which pods have the new template, and the partition. */
import { REVISION_LABEL } from '../../../crds/contract/names.ts'
import { Pod, type StatefulSet, isStable, partitionOf } from '../../../crds/kubernetes.ts'
import { pods, statefulSets } from '../../clients/kubernetes/api-resources.ts'
import { mapConcurrently } from '../../retry.ts'
import type { Dependencies } from '../../dependencies.ts'
import { podName, readStatefulSet, type RemovalPlan } from './removal.ts'
import type { ClusterView, UpdateView } from './view.ts'

const CONCURRENCY = 10

/** The view of the nodes with the update that is in progress, if there is one. */
export function withUpdate(
  view: ClusterView,
  set: StatefulSet,
  podOf: (ordinal: number) => Pod | undefined,
): ClusterView {
  const { metadata, status } = set
  const { generation = 0 } = metadata
  // The revisions in the status may be those of an older template.
  if (status?.observedGeneration !== undefined && status.observedGeneration < generation) {
    const unsettled = 'Kubernetes has not processed the last change of the StatefulSet yet'
    return { ...view, unsettled: view.unsettled ?? unsettled }
  }
  const update = updateView(set, podOf)
  return update === undefined ? view : { ...view, update }
}

/**
 * Undefined if every pod has the template of the StatefulSet. A pod that does not exist gets its
 * template when it is created.
 */
export function updateView(
  set: StatefulSet,
  podOf: (ordinal: number) => Pod | undefined,
): UpdateView | undefined {
  const { currentRevision, updateRevision: revision } = set.status ?? {}
  if (revision === undefined) return undefined
  const ordinals = ordinalsOf(set)
  const isCurrent = (ordinal: number) =>
    podOf(ordinal)?.metadata.labels?.[REVISION_LABEL] === revision
  const view = {
    generation: set.metadata.generation ?? 0,
    partition: partitionOf(set),
    outdated: ordinals.filter((ordinal) => podOf(ordinal) !== undefined && !isCurrent(ordinal)),
    unready: ordinals.filter((ordinal) => !isStable(podOf(ordinal))),
  }
  const isComplete = view.outdated.length === 0 && currentRevision === revision
  return isComplete ? undefined : view
}

/** The pods of the StatefulSet by ordinal; those that do not exist are undefined. */
export function readPods(
  set: StatefulSet,
  plan: Pick<RemovalPlan, 'namespace' | 'release'>,
  { kubernetes }: Pick<Dependencies, 'kubernetes'>,
): Promise<(Pod | undefined)[]> {
  return mapConcurrently(ordinalsOf(set), CONCURRENCY, (ordinal) =>
    kubernetes.get(pods(plan.namespace), podName(plan, ordinal), Pod),
  )
}

function ordinalsOf({ spec }: StatefulSet): number[] {
  return Array.from({ length: spec.replicas ?? 1 }, (_, ordinal) => ordinal)
}

/**
 * Lowers the partition to this node. Does nothing if the StatefulSet has changed since it was
 * observed.
 */
export async function releaseNode(
  ordinal: number,
  { generation }: UpdateView,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<void> {
  const set = await readStatefulSet(plan, tools)
  if (set?.metadata.generation !== generation || partitionOf(set) <= ordinal) return
  const { resourceVersion, uid } = set.metadata
  await tools.kubernetes.patch(statefulSets(plan.namespace), plan.release, {
    metadata: { ...(uid !== undefined && { uid }), resourceVersion },
    spec: { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: ordinal } } },
  })
  tools.log.info(
    { statefulSet: plan.release, partition: ordinal },
    'released a node for its update',
  )
}
