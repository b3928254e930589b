/** Reads all that a decision about a VecCluster may know: from the request, and through ports the rest. */
import { connectionOf } from '../../crds/connection.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { endOf, type Pod, type Secret, type StatefulSet } from '../../crds/kubernetes.ts'
import { END_REPORT_SECONDS } from '../../crds/limits.ts'
import { releaseName } from '../../crds/names.ts'
import { workAt } from '../allow-from.ts'
import { secondsSince } from '../conditions.ts'
import { isUnfinished, newestOf } from '../job.ts'
import { seeLease } from '../lease.ts'
import { objectsOf, readReport, shownJobs } from '../observations.ts'
import type { Passes } from '../pass.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { tells } from './failure.ts'
import type { ClusterPorts, PodConsensus } from './ports.ts'
import type { Turns } from './turns.ts'
import { dueRun } from './plan.ts'
import { waitsForSlot } from './slots.ts'
import { usedSecrets } from './secrets.ts'
import { lacksPods, mayAskPods } from './status.ts'
import type { Observed } from './observed.ts'

export interface Reach {
  ports: ClusterPorts
  consensus: Passes<PodConsensus[]>
  turns: Turns
}

export async function observe(
  request: HookRequest<VecCluster>,
  { ports, consensus, turns }: Reach,
  context: Context,
): Promise<Observed> {
  const cluster = request.parent
  const { namespace, uid } = cluster.metadata
  const statefulSet = relatedStatefulSet(request)
  const observed: Observed = {
    cluster,
    ...shownJobs(request),
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: await readSecrets(cluster, ports),
  }
  if (lacksEndReport(observed, context)) {
    // The cache may lag behind the last report; only the resource itself tells a crash from that.
    await readReport(observed, cluster, (...of) => ports.cluster(...of))
  }
  if (lacksPods(observed)) observed.pods = await podsOf(observed, ports)
  if (cluster.spec.cluster.enabled && mayAskPods(observed)) {
    // The pods there are, which may be fewer or more than the spec wants by now.
    const replicas = statefulSet?.spec.replicas ?? 1
    const connection = { ...connectionOf(cluster), replicas }
    const pass = await consensus.result(uid, context.now, (signal) =>
      ports.consensus(connection, signal),
    )
    if (pass.value !== undefined) observed.consensus = pass.value
    if (pass.failure !== undefined) observed.consensusFailure = pass.failure
    if (pass.againAfterSeconds !== undefined) {
      observed.consensusAgainAfterSeconds = pass.againAfterSeconds
    }
  }
  const due = dueRun(observed, context.settings)
  if (due === undefined) {
    return isSilent(observed)
      ? { ...observed, leases: await readLeases(cluster, ports, context) }
      : observed
  }
  const unfinishedHelmJobs = (await ports.unfinishedHelmJobs()) + turns.others(uid, context.now)
  const isFull = unfinishedHelmJobs >= context.settings.maxHelmJobs
  if (isFull && waitsForSlot(cluster, context.settings)) {
    return { ...observed, due, unfinishedHelmJobs }
  }
  const [liveJobs, leases] = await Promise.all([
    ports.jobsOf(namespace, uid),
    readLeases(cluster, ports, context),
  ])
  return { ...observed, due, liveJobs, unfinishedHelmJobs, leases }
}

/** A Job that has not reported may have come so late that another one holds the Lease by now. */
function isSilent({ jobs, progress }: Observed): boolean {
  const running = jobs.find(isUnfinished)
  return running !== undefined && progress?.job !== running.metadata.uid
}

async function readLeases(cluster: VecCluster, ports: ClusterPorts, context: Context) {
  const rules = workAt(cluster, context)
  const [write, backup] = await Promise.all([
    seeLease(cluster.metadata, 'write', ports, rules),
    seeLease(cluster.metadata, 'backup', ports, rules),
  ])
  return { write, backup }
}

/** For finalize: no related objects are shown, so the StatefulSet comes through a port. */
export async function observeEnd(
  request: HookRequest<VecCluster>,
  { ports, consensus }: Reach,
): Promise<Observed> {
  const { namespace, name, uid } = request.parent.metadata
  await consensus.abort(uid)
  const [statefulSet, liveJobs, namespaceEnds] = await Promise.all([
    ports.statefulSet(namespace, releaseName(name)),
    ports.jobsOf(namespace, uid),
    ports.namespaceEnds(namespace),
  ])
  const observed: Observed = {
    cluster: request.parent,
    ...shownJobs(request),
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: new Map(),
    liveJobs,
    namespaceEnds,
  }
  if (!liveJobs.some(isUnfinished)) {
    // The last Job may have told of helm's beginning, or its end, after what the cache shows.
    await readReport(observed, request.parent, (...of) => ports.cluster(...of))
  }
  return observed
}

function relatedStatefulSet({ parent, related }: HookRequest<VecCluster>): StatefulSet | undefined {
  const name = releaseName(parent.metadata.name)
  return objectsOf<StatefulSet>(related, 'StatefulSet.apps/v1').find(
    ({ metadata }) => metadata.name === name,
  )
}

async function podsOf({ cluster }: Observed, ports: ClusterPorts): Promise<Pod[]> {
  const release = releaseName(cluster.metadata.name)
  const pods = await ports.pods(cluster.metadata.namespace, release)
  return pods.filter(({ metadata: { name } }) => /^[0-9]+$/.test(name.slice(release.length + 1)))
}

async function readSecrets(
  { metadata, spec }: VecCluster,
  ports: ClusterPorts,
): Promise<Map<string, Secret>> {
  const secrets = new Map<string, Secret>()
  for (const { name } of usedSecrets(spec)) {
    const secret = await ports.secret(metadata.namespace, name)
    if (secret !== undefined) secrets.set(name, secret)
  }
  return secrets
}

/** The newest Job ended a while ago and its last report does not say how. */
function lacksEndReport({ jobs, progress }: Observed, { now }: Context): boolean {
  const newest = newestOf(jobs)
  if (newest === undefined || tells(progress, newest)) return false
  const end = endOf(newest)
  return end !== undefined && secondsSince(end.lastTransitionTime ?? '', now) >= END_REPORT_SECONDS
}
