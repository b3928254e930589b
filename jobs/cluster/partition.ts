/**
 * Decides how far a rolling update of the pods may go: the partition of the StatefulSet. post-render.ts writes it into
 * what helm applies, and a Job on the shards then lowers it for one node after the other.
 */
import type { UpgradePlan } from '../../crds/contract/job.ts'
import { isPodOfRelease, trailingNumber } from '../../crds/contract/names.ts'
import {
  Pod,
  hasTwoRevisions,
  isOutdated,
  mayHaveOutdatedPods,
  partitionOf,
} from '../../crds/kubernetes.ts'
import { pods, statefulSets } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'
import { poll } from '../retry.ts'
import { LiveStatefulSet, isStatusCurrent } from './safety-checks.ts'

const STATUS_POLL_MS = 500
const STATUS_TIMEOUT_MS = 30_000

/**
 * The partition with which no pod is replaced: a Job on the shards then releases one node at a time.
 * Undefined if Kubernetes replaces the pods by itself. An update that it has begun continues
 * this way: its pods may have another API key than the others, and then do not answer for their shards.
 */
export function gatePartition(
  { isGated, spec: { replicas } }: Pick<UpgradePlan, 'isGated' | 'spec'>,
  live: Pick<LiveStatefulSet, 'spec' | 'status'>,
  isUpdating: boolean,
): number | undefined {
  const liveReplicas = live.spec.replicas ?? 1
  if (isGated !== true || liveReplicas <= 1) return undefined
  // The last node of a gated update has the partition 0, too.
  const isLastNode = (live.status?.updatedReplicas ?? 0) >= liveReplicas - 1
  if (isUpdating && partitionOf(live) === 0 && !isLastNode) return undefined
  return Math.max(liveReplicas, replicas)
}

/** Pods are left that do not have the newest template, also if the change was taken back. */
export async function isUpdating(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  tools: Dependencies,
): Promise<boolean> {
  if (hasTwoRevisions(live)) return true
  if (!mayHaveOutdatedPods(live)) return false
  return (await podsOf(plan, tools)).some((pod) => isOutdated(pod, live))
}

/**
 * After a helm run in the middle of an update: Kubernetes creates a pod below the partition from the former template, which
 * would start the former version of the engine on files of the newer one. So the partition is lowered to the nodes that have
 * the newest template already, which restarts none.
 */
export async function releaseUpdatedNodes(plan: UpgradePlan, tools: Dependencies): Promise<void> {
  const set = await readCurrent(plan, tools)
  if (set === undefined || !hasTwoRevisions(set)) return
  const partition = lowestUpdated(await podsOf(plan, tools), set)
  if (partition === undefined || partition >= partitionOf(set)) return
  const { uid } = set.metadata
  // Not by its resourceVersion, which changes with each pod: the Lease keeps other changes of the partition away.
  await tools.kubernetes.patch(statefulSets(plan.namespace), plan.release, {
    ...(uid !== undefined && { metadata: { uid } }),
    spec: { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition } } },
  })
  tools.log.info(
    { statefulSet: plan.release, partition },
    'lowered the partition to the updated nodes',
  )
}

/** The lowest node above all outdated ones that has the newest template; undefined if none has it. */
function lowestUpdated(found: readonly Pod[], set: LiveStatefulSet): number | undefined {
  const ordinals = (isOld: boolean) =>
    found
      .filter((pod) => isOutdated(pod, set) === isOld)
      .map(({ metadata: { name } }) => trailingNumber(name))
  const highestOutdated = Math.max(-1, ...ordinals(true))
  const updated = ordinals(false).filter((ordinal) => ordinal > highestOutdated)
  return updated.length === 0 ? undefined : Math.min(...updated)
}

/** With the revisions of what helm has just applied; undefined if the controller does not write them. */
async function readCurrent(
  { namespace, release }: UpgradePlan,
  { kubernetes, time, signal, log }: Dependencies,
): Promise<LiveStatefulSet | undefined> {
  const found = await poll({ time, signal, pauseMs: STATUS_POLL_MS }, async ({ waitedMs }) => {
    const set = await kubernetes.get(statefulSets(namespace), release, LiveStatefulSet)
    if (set === undefined || isStatusCurrent(set)) return { set }
    return waitedMs() < STATUS_TIMEOUT_MS ? undefined : {}
  })
  if (found.set === undefined) {
    log.warn({ statefulSet: release }, 'the controller has not observed the StatefulSet')
  }
  return found.set
}

async function podsOf({ namespace, release }: UpgradePlan, { kubernetes }: Dependencies) {
  const labelSelector = `app.kubernetes.io/instance=${release}`
  const found = await kubernetes.list(pods(namespace), Pod, { labelSelector })
  return found.filter(({ metadata: { name } }) => isPodOfRelease(name, release))
}
