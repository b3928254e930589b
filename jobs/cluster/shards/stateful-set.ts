/**
 * The StatefulSet and its pods, as the work on shards changes them.
 *
 * To remove a node, the StatefulSet is lowered by one pod at a time, and the volume of the removed pod is
 * deleted or marked. The volume records a peer that the others have removed: a pod that starts with it serves
 * old data and never joins again. To update a node, the partition of the rolling update is lowered to it.
 */
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import { claimName, LABELS, REVISION_LABEL } from '../../../crds/contract/names.ts'
import {
  AnyObject,
  Pod,
  StatefulSet,
  isReady,
  isStable,
  isUnschedulable,
  partitionOf,
} from '../../../crds/kubernetes.ts'
import {
  persistentVolumeClaims,
  pods,
  statefulSets,
} from '../../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../../dependencies.ts'
import { mapConcurrently } from '../../retry.ts'
import type { ClusterView, UpdateView } from './view.ts'

const CONCURRENCY = 10

export type RemovalPlan = Pick<ShardsPlan, 'namespace' | 'release' | 'onScaleIn'>

export function readStatefulSet(
  { namespace, release }: Pick<RemovalPlan, 'namespace' | 'release'>,
  { kubernetes }: Pick<Dependencies, 'kubernetes'>,
): Promise<StatefulSet | undefined> {
  return kubernetes.get(statefulSets(namespace), release, StatefulSet)
}

/**
 * Lowers the StatefulSet from one more pod to this number. The claims are marked first: if this
 * process is killed afterwards, they cannot be used again by mistake.
 */
export async function scaleDown(
  nodes: number,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<void> {
  const set = await readStatefulSet(plan, tools)
  // Never by more than one pod, and not if the number has changed since it was observed.
  if (set?.spec.replicas !== nodes + 1) return
  const { namespace, release } = plan
  await markClaims(nodes, set, plan, tools)
  const { resourceVersion } = set.metadata
  const scale = { ...statefulSets(namespace), subresource: 'scale' }
  const metadata = resourceVersion === undefined ? {} : { metadata: { resourceVersion } }
  await tools.kubernetes.patch(scale, release, { ...metadata, spec: { replicas: nodes } })
  tools.log.info({ statefulSet: release, replicas: nodes }, 'removed a node')
}

/**
 * Marks the claims of a node that was removed with its shards, before its peer is removed: a later node must not start
 * with them. Returns false if the node is desired again; its peer must stay then.
 */
export async function markFormerNode(
  ordinal: number,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<boolean> {
  const set = await readStatefulSet(plan, tools)
  if (set === undefined || (set.spec.replicas ?? 1) > ordinal) return false
  await markClaims(ordinal, set, plan, tools)
  return true
}

async function markClaims(
  ordinal: number,
  set: StatefulSet,
  plan: RemovalPlan,
  { kubernetes }: Pick<Dependencies, 'kubernetes'>,
): Promise<void> {
  const claims = persistentVolumeClaims(plan.namespace)
  for (const name of claimNames(plan, set, ordinal)) {
    const uid = (await kubernetes.get(claims, name, AnyObject))?.metadata.uid
    if (uid === undefined) continue
    const metadata = { uid, labels: { [LABELS.removedPeer]: String(ordinal) } }
    await kubernetes.patch(claims, name, { metadata })
  }
}

/** `waiting` while the pod still exists. Its claims are deleted if the plan says so. */
export async function finishRemoval(
  ordinal: number,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<'waiting' | 'done' | 'volume deleted'> {
  const { namespace } = plan
  const set = await readStatefulSet(plan, tools)
  // The pod is required again, or was not removed: its volume is in use.
  if (set === undefined || (set.spec.replicas ?? 1) > ordinal) return 'done'
  const pod = await tools.kubernetes.get(pods(namespace), podName(plan, ordinal), AnyObject)
  if (pod !== undefined) return 'waiting'
  if (plan.onScaleIn === 'Keep') return 'done'
  let result: 'done' | 'volume deleted' = 'done'
  for (const name of claimNames(plan, set, ordinal)) {
    const claim = await tools.kubernetes.get(persistentVolumeClaims(namespace), name, AnyObject)
    const { uid, labels } = claim?.metadata ?? {}
    // Only a claim that this operator has marked: any other one is not known to be of a removed node.
    if (uid === undefined || labels?.[LABELS.removedPeer] !== String(ordinal)) continue
    await tools.kubernetes.delete(persistentVolumeClaims(namespace), name, { uid })
    tools.log.info({ claim: name }, 'deleted the volume claim of a removed node')
    result = 'volume deleted'
  }
  return result
}

/**
 * The pod of a node whose peer was removed restarts at intervals of up to five minutes; a new pod
 * joins at once. A pod that is ready is left alone.
 */
export async function restartFailedPod(
  ordinal: number,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<void> {
  const apiResource = pods(plan.namespace)
  const name = podName(plan, ordinal)
  const pod = await tools.kubernetes.get(apiResource, name, Pod)
  if (pod?.metadata.uid === undefined || isReady(pod)) return
  tools.log.info({ pod: name }, 'deleting a pod that can join the cluster now')
  await tools.kubernetes.delete(apiResource, name, { uid: pod.metadata.uid })
}

/** Whether the pod of a node is ready and is not about to stop. */
export async function isPodStable(
  ordinal: number,
  plan: RemovalPlan,
  { kubernetes }: Pick<Dependencies, 'kubernetes'>,
): Promise<boolean> {
  return isStable(await kubernetes.get(pods(plan.namespace), podName(plan, ordinal), Pod))
}

type Loss = NonNullable<ShardsPlan['losses']>[number]

/**
 * Why the node may still have its data; undefined if it is still lost. The service determined the loss before the Job
 * started. A Job may not read Kubernetes nodes: the scheduler assigns the pod when the one with its volume is registered again.
 */
export async function returnReason(
  { ordinal, claim, volume }: Loss,
  plan: RemovalPlan,
  { kubernetes }: Pick<Dependencies, 'kubernetes'>,
): Promise<string | undefined> {
  const found = await kubernetes.get(persistentVolumeClaims(plan.namespace), claim, AnyObject)
  if (volume !== undefined && found?.metadata.uid !== volume) return undefined
  const name = podName(plan, ordinal)
  const pod = await kubernetes.get(pods(plan.namespace), name, Pod)
  const node = pod?.spec?.nodeName
  if (node === undefined && pod !== undefined && isUnschedulable(pod)) return undefined
  const state =
    node === undefined ? 'is not known to be unschedulable' : `is on Kubernetes node ${node}`
  return `node ${ordinal} is not replaced, because it may have its data: its volume exists, and pod ${name} ${state}`
}

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
    runs: ordinals.map((ordinal) => runOf(podOf(ordinal))),
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

/** What changes when the pod is replaced, its containers restart, or it becomes ready or not. */
export function runOf(pod: Pod | undefined): string {
  if (pod === undefined) return ''
  const restarts = (pod.status?.containerStatuses ?? []).map(({ restartCount = 0 }) => restartCount)
  return [pod.metadata.uid, isStable(pod), ...restarts].join(' ')
}

/**
 * Lowers the partition to this node. `retry` if the StatefulSet or another pod has changed since they were
 * observed, and nothing was done: two nodes must not be down at the same time.
 */
export async function releaseNode(
  ordinal: number,
  { generation, runs }: UpdateView,
  plan: RemovalPlan,
  tools: Pick<Dependencies, 'kubernetes' | 'log'>,
): Promise<'done' | 'retry'> {
  const set = await readStatefulSet(plan, tools)
  if (set?.metadata.generation !== generation || partitionOf(set) <= ordinal) return 'retry'
  const pods = await readPods(set, plan, tools)
  const changed = pods.findIndex((pod, index) => index !== ordinal && runOf(pod) !== runs[index])
  if (changed >= 0) {
    tools.log.info({ ordinal, changed }, 'another pod has changed: the node is not released')
    return 'retry'
  }
  const { resourceVersion, uid } = set.metadata
  await tools.kubernetes.patch(statefulSets(plan.namespace), plan.release, {
    metadata: { ...(uid !== undefined && { uid }), resourceVersion },
    spec: { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: ordinal } } },
  })
  tools.log.info(
    { statefulSet: plan.release, partition: ordinal },
    'released a node for its update',
  )
  return 'done'
}

export function podName({ release }: Pick<RemovalPlan, 'release'>, ordinal: number): string {
  return `${release}-${ordinal}`
}

function claimNames({ release }: RemovalPlan, { spec }: StatefulSet, ordinal: number): string[] {
  return (spec.volumeClaimTemplates ?? []).map(({ metadata }) =>
    claimName(metadata.name, release, ordinal),
  )
}

function ordinalsOf({ spec }: StatefulSet): number[] {
  return Array.from({ length: spec.replicas ?? 1 }, (_, ordinal) => ordinal)
}
