/**
 * Counts the helm runs of all tenants, which share a limited number of slots. A user can copy the name, the labels and
 * the signature of a helm Job, keep its pod running and set its report, so no single namespace may use all slots.
 */
import { KubernetesError } from '../../crds/contract/errors.ts'
import { LABELS, clusterOfRelease } from '../../crds/contract/names.ts'
import { AnyObject, type Job } from '../../crds/kubernetes.ts'
import type { ClusterPorts } from '../../hooks/cluster/ports.ts'
import { secondsSince } from '../../hooks/conditions.ts'
import { isSigned } from '../../hooks/request.ts'
import { clusters, inNamespaces, jobs } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { mapConcurrently } from '../../jobs/retry.ts'
import { listActiveJobs } from './common.ts'
import { ttlCache } from './ttl-cache.ts'

export interface HelmSlotDependencies {
  kubernetes: Kubernetes
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  /** Keys that sign the Jobs of this installation (hooks/request.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
}

const TTL_SECONDS = 5
/** A Job without a ready pod after this time is not expected to start. */
const START_TIMEOUT_SECONDS = 120
/** Calls to the API server at the same time. */
const CONCURRENCY = 5

export function helmSlotPort(
  dependencies: HelmSlotDependencies,
): ClusterPorts['unfinishedHelmJobs'] {
  let loading: Promise<Map<string, number>> | undefined
  // A count may take longer than it is cached, and a second one would only delay it.
  const read = (limit: string) =>
    (loading ??= readSlots(dependencies, Number(limit)).finally(() => (loading = undefined)))
  const cached = ttlCache(read, TTL_SECONDS, dependencies.now)
  return async (namespace, limit) => {
    const used = (await cached(String(limit))) ?? new Map<string, number>()
    // Other namespaces can use the last slot, even if that is one more than the limit.
    const share = Math.max(1, limit - 1)
    return [...used].reduce(
      (sum, [other, count]) => sum + (other === namespace ? count : Math.min(count, share)),
      0,
    )
  }
}

/** Number of slots in use by namespace. */
async function readSlots(
  dependencies: HelmSlotDependencies,
  limit: number,
): Promise<Map<string, number>> {
  const { kubernetes, namespaces, jobKeys, now } = dependencies
  const found = await listActiveJobs(kubernetes, inNamespaces(jobs, namespaces), {
    labels: { [LABELS.component]: 'helm' },
    matches: (job) => isSigned(job, jobKeys()) && mayRun(job, now()),
    // At worst, more runs start at once than the limit.
    skipsUnreadable: true,
  })
  const owners = Map.groupBy(ownersOf(found), ({ namespace }) => namespace)
  // Copies of Jobs of deleted VecClusters cost no more reads than this.
  const read = [...owners.values()].flatMap((some) => some.slice(0, limit))
  const live = await mapConcurrently(read, CONCURRENCY, async (owner) =>
    (await isLive(kubernetes, owner)) ? [owner] : [],
  )
  const used = new Map<string, number>()
  for (const { namespace } of live.flat()) used.set(namespace, (used.get(namespace) ?? 0) + 1)
  return used
}

/** A suspended Job without pods, or a Job whose pods cannot start, uses no slot. */
function mayRun(job: Job, now: Date): boolean {
  const { spec, status = {} } = job
  return !cannotStart(job, now) && (spec?.suspend !== true || (status.active ?? 0) > 0)
}

/**
 * A wrong image, a quota or full nodes prevent the pods from starting; other clusters do not wait
 * until that is fixed.
 */
function cannotStart({ metadata, status }: Job, now: Date): boolean {
  const seconds = secondsSince(metadata.creationTimestamp ?? '', now)
  return (status?.ready ?? 0) === 0 && seconds >= START_TIMEOUT_SECONDS
}

interface Owner {
  namespace: string
  name: string
  uid: string
}

/** The VecClusters that the Jobs belong to: each uses at most one slot. */
function ownersOf(found: Job[]): Owner[] {
  const owners = found.map(({ metadata: { namespace = '', labels = {} } }) => ({
    namespace,
    name: clusterOfRelease(labels[LABELS.release] ?? ''),
    uid: labels[LABELS.parent] ?? '',
  }))
  return [...new Map(owners.map((owner) => [owner.uid, owner])).values()]
}

/** A VecCluster is deleted only after its Jobs, so a Job of one that is gone is a copy. If it cannot be read, it counts. */
async function isLive(kubernetes: Kubernetes, { namespace, name, uid }: Owner): Promise<boolean> {
  if (name === '') return false
  try {
    const cluster = await kubernetes.get(clusters(namespace), name, AnyObject)
    return cluster?.metadata.uid === uid
  } catch (error) {
    if (error instanceof KubernetesError) return true
    throw error
  }
}
