/**
 * Deletion of a VecCluster: stops its Jobs, then runs `helm uninstall --wait`. The volumes
 * are retained, unless spec.persistence.onDelete is Delete.
 * Nothing else is created during deletion.
 */
import type { ClusterStatus } from '../../crds/cluster.ts'
import { REQUEUE_SOON_SECONDS, RETRY_SECONDS } from '../../crds/contract/limits.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { secondsSinceRecorded } from '../conditions.ts'
import {
  creationMessage,
  notCreatedReason,
  expiredJobs,
  hasReported,
  recreationReason,
  silenceReason,
  notStartedReason,
} from '../job-watch.ts'
import {
  childrenAfter,
  isUnfinished,
  jobsToDelete,
  latestJob,
  missingObjects,
  nextRunNumber,
  unchanged,
  allObserved,
} from '../request.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { hasStarted } from './decision.ts'
import { eventsOf } from './events.ts'
import { lastFailure } from './helm-result.ts'
import { clusterRbac, uninstallJob, uninstallRun } from './job.ts'
import type { Observed } from './ports.ts'
import { isShardsJob } from './shards/result.ts'
import { clusterStatus } from './status.ts'

const UNINSTALL_CHECK_SECONDS = 10

export function finalize(observed: Observed, context: Context): Desired<ClusterStatus> {
  const { progress, liveJobs = [] } = observed
  const unfinished = liveJobs.filter(isUnfinished)
  const upgrades = unfinished.filter((job) => !isUninstall(job))

  if (upgrades.length > 0) {
    return {
      ...uninstalling(observed, context, stopMessage(upgrades)),
      deleteJobs: jobsToDelete(upgrades),
    }
  }
  // Nothing can be created in a terminating namespace, and its deletion removes everything helm would.
  if (observed.isNamespaceTerminating === true) return finalizedState(observed, context)
  const [runningUninstall] = unfinished
  if (runningUninstall !== undefined)
    return uninstallInProgress(observed, runningUninstall, context)
  if (wasNeverInstalled(observed)) return finalizedState(observed, context)
  if (progress?.verb === 'uninstall' && progress.state === 'Done')
    return finalizedState(observed, context)

  const failure = lastFailure(observed, context)
  if (failure === 'unknown')
    return uninstalling(observed, context, 'helm uninstall has finished; waiting for its report')
  if (failure !== undefined && failure.plan === uninstallRun(observed).hash) {
    const remainingSeconds = RETRY_SECONDS - secondsSinceRecorded(failure.failedAt, context.now)
    if (remainingSeconds > 0) return desiredState(observed, context, failure, remainingSeconds)
  }
  return startUninstall(observed, context)
}

/** Recreates a Job that cannot start (image, quota, full nodes), like the Job of an upgrade. */
function uninstallInProgress(
  observed: Observed,
  job: Job,
  context: Context,
): Desired<ClusterStatus> {
  const { hash: desiredHash } = uninstallRun(observed)
  const facts = { desiredHash, lostLease: false, hasStarted: hasStarted(observed) }
  const restart = recreationReason(observed, job, facts, context)
  if (restart !== undefined) {
    const message = `Job ${job.metadata.name} ${restart}; recreating it`
    const notApplied = { reason: 'JobNotStarted', message }
    return {
      ...desiredState(observed, context, notApplied, REQUEUE_SOON_SECONDS),
      deleteJobs: jobsToDelete([job]),
    }
  }
  const stalled = hasReported(observed, job)
    ? silenceReason(job, observed.progress, context)
    : notStartedReason(job, context)
  const missingRbac = missingObjects(clusterRbac(observed.cluster), observed.children)
  if (stalled !== undefined)
    return desiredState(observed, context, stalled, UNINSTALL_CHECK_SECONDS, missingRbac)
  const message = 'helm uninstall is running'
  return uninstalling(observed, context, message, UNINSTALL_CHECK_SECONDS, missingRbac)
}

function startUninstall(observed: Observed, context: Context): Desired<ClusterStatus> {
  const { cluster, jobs, liveJobs = [], progress } = observed
  const rbac = clusterRbac(cluster)
  if (!allObserved(rbac, observed.children)) {
    return uninstalling(
      observed,
      context,
      'creating ServiceAccount, Role and RoleBinding of the uninstall Job',
      REQUEUE_SOON_SECONDS,
      rbac,
    )
  }
  const run = nextRunNumber([...jobs, ...liveJobs], progress?.run)
  const job = uninstallJob({ ...uninstallRun(observed), run }, rbac, context.settings)
  const problem = notCreatedReason(cluster, 'Applied', job)
  return problem === undefined
    ? uninstalling(observed, context, creationMessage(job), REQUEUE_SOON_SECONDS, [job])
    : desiredState(observed, context, problem, REQUEUE_SOON_SECONDS, [job])
}

/** No trace of a helm Job exists, so there is no release to uninstall. */
function wasNeverInstalled(observed: Observed): boolean {
  const { cluster, jobs, liveJobs = [], progress, statefulSet } = observed
  return (
    progress === undefined &&
    statefulSet === undefined &&
    cluster.status?.helmRelease === undefined &&
    jobs.length + liveJobs.length === 0
  )
}

/** Names what is stopped: a helm run, or the work on the shards. */
function stopMessage(jobs: Job[]): string {
  return jobs.every(isShardsJob)
    ? 'waiting for the work on the shards to stop'
    : 'waiting for the helm run to stop'
}

function isUninstall({ metadata }: Job): boolean {
  return metadata.labels?.[LABELS.verb] === 'uninstall'
}

function uninstalling(
  observed: Observed,
  context: Context,
  message: string,
  resyncAfterSeconds = REQUEUE_SOON_SECONDS,
  more: Child[] = [],
): Desired<ClusterStatus> {
  return desiredState(
    observed,
    context,
    { reason: 'Uninstalling', message },
    resyncAfterSeconds,
    more,
  )
}

function desiredState(
  observed: Observed,
  context: Context,
  notApplied: ConditionReason,
  resyncAfterSeconds: number,
  more: Child[] = [],
): Desired<ClusterStatus> {
  const { jobs, children } = observed
  // An uninstall may fail for days. Its last report describes the newest Job.
  const latest = latestJob(jobs)
  const pruned = expiredJobs(jobs, (job) => job !== latest, context)
  const status = clusterStatus(observed, notApplied, context)
  // That pods stop is intended: what the other conditions say of them is no Event.
  const conditions = status.conditions?.filter(({ type }) => type === 'Applied') ?? []
  return {
    status,
    events: eventsOf(observed, { conditions }, context.now),
    children: childrenAfter(children, { created: more, pruned }),
    ...(pruned.length > 0 && { pruned }),
    resyncAfterSeconds: Math.max(resyncAfterSeconds, 1),
  }
}

function finalizedState(observed: Observed, context: Context): Desired<ClusterStatus> {
  return {
    status: clusterStatus(
      observed,
      { reason: 'Uninstalled', message: 'no release exists' },
      context,
    ),
    children: observed.children.map(unchanged),
    finalized: true,
  }
}
