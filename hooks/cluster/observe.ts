/** Reads the state a decision about a VecCluster is based on, from the request and through the ports. */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { claimName, releaseName } from '../../crds/contract/names.ts'
import {
  finishedCondition,
  type Pod,
  type Secret,
  type StatefulSet,
} from '../../crds/kubernetes.ts'
import type { BackgroundTasks } from '../background-task.ts'
import { secondsSinceRecorded } from '../conditions.ts'
import { blockingRules } from '../cross-namespace.ts'
import { readLease } from '../lease.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { isUnfinished, latestJob, objectsOf, observedJobs, refreshProgress } from '../request.ts'
import { reportsEndOf } from './helm-result.ts'
import { areSlotsTaken, isWaitingForSlot, type HelmConcurrency } from './helm-slots.ts'
import { withSilentThreads } from './consensus.ts'
import { findPendingRun, isChangedByOthers, missingObjectsRun, recreationRun } from './job.ts'
import { isHibernated, stopsPods } from './hibernate.ts'
import { observeKeys } from './keys/observe.ts'
import type { KeyAnswers } from './keys/ports.ts'
import { keyRotation } from './keys/rotation.ts'
import { mayNeedBackup, needsBackup, readHibernationBackup } from './hibernation-backup.ts'
import { canQueryShards, observeShards } from './shards/observe.ts'
import type { ClusterPorts, DesiredRun, Observed, PodConsensus } from './ports.ts'
import { readMissingObjects } from './release-objects.ts'
import { canQueryPods, needsPods } from './rollout.ts'
import { nextShardStep } from './shards/next-step.ts'
import type { ShardsSummary } from './shards/summary.ts'
import { dataClaimTemplate } from './volumes.ts'
import { referencedSecrets } from './validation.ts'

export interface Dependencies {
  ports: ClusterPorts
  consensus: BackgroundTasks<PodConsensus[]>
  shards: BackgroundTasks<ShardsSummary>
  nodeKeys: BackgroundTasks<KeyAnswers>
  helmConcurrency: HelmConcurrency
}

export async function observe(
  request: HookRequest<VecCluster>,
  { ports, consensus, shards, nodeKeys, helmConcurrency }: Dependencies,
  context: Context,
): Promise<Observed> {
  const cluster = request.parent
  const { uid } = cluster.metadata
  const statefulSet = relatedStatefulSet(request)
  const observed: Observed = {
    cluster,
    stepVersions: context.settings.stepVersions,
    ...observedJobs(request),
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: await readSecrets(cluster, ports),
  }
  if (isEndReportMissing(observed, context)) {
    // The cache may lag behind the last report; only a live read distinguishes that from a crash.
    await refreshProgress(observed, cluster, (...of) => ports.cluster(...of))
  }
  observed.missingObjects = await readMissingObjects(observed, ports)
  if (needsPods(observed)) observed.pods = await readPods(observed, ports)
  Object.assign(observed, await observeKeys(observed, { ports, nodeKeys }, context))
  const rotation = keyRotation(observed, context.now)
  if (rotation !== undefined) observed.rotation = rotation
  if (cluster.spec.cluster.enabled && canQueryPods(observed)) {
    // Ask the existing pods, which may be fewer or more than the spec asks for.
    const replicas = statefulSet?.spec.replicas ?? 1
    const connection = { ...clusterConnection(cluster), replicas }
    const previous = consensus.latest(uid)
    const answer = await consensus.run(uid, context.now, async (signal) =>
      withSilentThreads(await ports.consensus(connection, signal), previous, context.now),
    )
    if (answer.value !== undefined) observed.consensus = answer.value
    if (answer.failure !== undefined) observed.consensusFailure = answer.failure
    if (answer.requeueAfterSeconds !== undefined) {
      observed.consensusResyncSeconds = answer.requeueAfterSeconds
    }
  }
  const pendingRun =
    findPendingRun(observed, context.settings) ??
    (await findRecreationRun(observed, ports, context)) ??
    missingObjectsRun(observed, context)
  if (pendingRun !== undefined) {
    observed.pendingRun = pendingRun
    if (mayNeedBackup(observed, context.now)) {
      const live = await ports.statefulSet(
        cluster.metadata.namespace,
        releaseName(cluster.metadata.name),
      )
      if (live !== undefined) observed.statefulSet = live
    }
  }
  if (canQueryShards(observed, context)) {
    Object.assign(observed, await observeShards(observed, { ports, tasks: shards }, context))
  } else if (observed.jobs.some(isUnfinished)) {
    // What was planned before the Job started is outdated.
    await shards.abort(uid)
  }
  // Pods that start again must not be judged by what they answered before.
  if (isHibernated(observed)) await Promise.all([consensus.abort(uid), shards.abort(uid)])
  const shardStep = nextShardStep(observed, context)
  if (pendingRun === undefined && shardStep.is !== 'due') {
    return hasUnreportedJob(observed)
      ? { ...observed, leases: await readLeases(cluster, ports, context) }
      : observed
  }
  if (shardStep.is === 'due' || stopsPods(observed)) {
    const rules = blockingRules(cluster, context)
    observed.conflictingWork = await ports.conflictingWork(cluster.metadata, rules)
  }
  if (pendingRun === undefined) return { ...observed, ...(await readWork(cluster, ports, context)) }
  if (needsBackup(observed, context.now))
    observed.hibernationBackup = await readHibernationBackup(observed, ports, context.now)
  observed.retainedVolumes = await readRetainedVolumes(observed, ports)
  const { maxHelmJobs } = context.settings
  const unfinishedHelmJobs =
    (await ports.unfinishedHelmJobs(cluster.metadata.namespace, maxHelmJobs)) +
    helmConcurrency.slotsOfOthers(uid, context.now)
  const isLimitReached = areSlotsTaken(unfinishedHelmJobs, context.settings)
  if (isLimitReached && shardStep.is !== 'due' && isWaitingForSlot(cluster, context.settings)) {
    return { ...observed, unfinishedHelmJobs }
  }
  return { ...observed, unfinishedHelmJobs, ...(await readWork(cluster, ports, context)) }
}

/** A user deleted or scaled the StatefulSet. The live read distinguishes that from a cache that lags behind. */
async function findRecreationRun(
  observed: Observed,
  ports: ClusterPorts,
  context: Context,
): Promise<DesiredRun | undefined> {
  const run = recreationRun(observed, context)
  if (run === undefined) return undefined
  const { namespace, name } = observed.cluster.metadata
  const live = await ports.statefulSet(namespace, releaseName(name))
  return isChangedByOthers(observed, live, context.now) ? run : undefined
}

/** The Jobs of the cluster and the holders of its Leases, read live before a Job is created. */
async function readWork(cluster: VecCluster, ports: ClusterPorts, context: Context) {
  const { namespace, uid } = cluster.metadata
  const [liveJobs, leases] = await Promise.all([
    ports.jobsOf(namespace, uid),
    readLeases(cluster, ports, context),
  ])
  return { liveJobs, leases }
}

/** Claims of the nodes that a helm run would add, if they were kept when nodes were removed. */
async function readRetainedVolumes(
  { cluster, statefulSet }: Observed,
  ports: ClusterPorts,
): Promise<string[]> {
  const { namespace, name } = cluster.metadata
  const present = statefulSet?.spec.replicas ?? 0
  const added = Array.from({ length: Math.max(cluster.spec.replicas - present, 0) }, (_, index) =>
    claimName(dataClaimTemplate(statefulSet), releaseName(name), present + index),
  )
  return added.length === 0 ? [] : ports.retainedVolumes(namespace, added)
}

/** A Job that has not reported may have started so late that another holder has the Lease. */
function hasUnreportedJob({ jobs, progress }: Observed): boolean {
  const running = jobs.find(isUnfinished)
  return running !== undefined && progress?.job !== running.metadata.uid
}

async function readLeases(cluster: VecCluster, ports: ClusterPorts, context: Context) {
  const rules = blockingRules(cluster, context)
  const [write, backup] = await Promise.all([
    readLease(cluster.metadata, 'write', ports, rules),
    readLease(cluster.metadata, 'backup', ports, rules),
  ])
  return { write, backup }
}

/** For finalize: the request contains no related objects, so the StatefulSet is read through a port. */
export async function observeDeletion(
  request: HookRequest<VecCluster>,
  { ports, consensus, shards, nodeKeys }: Dependencies,
): Promise<Observed> {
  const { namespace, name, uid } = request.parent.metadata
  await Promise.all([consensus.abort(uid), shards.abort(uid), nodeKeys.abort(uid)])
  const [statefulSet, liveJobs, isNamespaceTerminating] = await Promise.all([
    ports.statefulSet(namespace, releaseName(name)),
    ports.jobsOf(namespace, uid),
    ports.isNamespaceTerminating(namespace),
  ])
  const observed: Observed = {
    cluster: request.parent,
    ...observedJobs(request),
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: new Map(),
    liveJobs,
    isNamespaceTerminating,
  }
  if (!liveJobs.some(isUnfinished)) {
    // The cache may not contain the last Job's newest report yet.
    await refreshProgress(observed, request.parent, (...of) => ports.cluster(...of))
  }
  return observed
}

function relatedStatefulSet({ parent, related }: HookRequest<VecCluster>): StatefulSet | undefined {
  const name = releaseName(parent.metadata.name)
  return objectsOf<StatefulSet>(related, 'StatefulSet.apps/v1').find(
    ({ metadata }) => metadata.name === name,
  )
}

async function readPods({ cluster }: Observed, ports: ClusterPorts): Promise<Pod[]> {
  const release = releaseName(cluster.metadata.name)
  const pods = await ports.pods(cluster.metadata.namespace, release)
  return pods.filter(({ metadata: { name } }) => /^[0-9]+$/.test(name.slice(release.length + 1)))
}

async function readSecrets(
  { metadata, spec }: VecCluster,
  ports: ClusterPorts,
): Promise<Map<string, Secret>> {
  const secrets = new Map<string, Secret>()
  for (const { name } of referencedSecrets(spec)) {
    const secret = await ports.secret(metadata.namespace, name)
    if (secret !== undefined) secrets.set(name, secret)
  }
  return secrets
}

/** The newest Job finished a while ago, but its last report does not describe the outcome. */
function isEndReportMissing({ jobs, progress }: Observed, { now }: Context): boolean {
  const latest = latestJob(jobs)
  if (latest === undefined || reportsEndOf(progress, latest)) return false
  const finished = finishedCondition(latest)
  return (
    finished !== undefined &&
    secondsSinceRecorded(finished.lastTransitionTime ?? '', now) >= FINAL_REPORT_TIMEOUT_SECONDS
  )
}
