/**
 * The end of a VecCluster: its Jobs are stopped, then `helm uninstall --wait` runs; the volumes stay
 * (specification: states and transitions). Nothing else is made on the way.
 */
import type { ClusterStatus } from '../../crds/cluster.ts'
import { RETRY_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import { LABELS } from '../../crds/names.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { secondsSince } from '../conditions.ts'
import { isUnfinished, kept, nextRun, staying, toStop } from '../job.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { hasReported, silenceOf, whyStuck } from '../transfer.ts'
import { clusterRights, uninstallJob } from './children.ts'
import { failureOf } from './failure.ts'
import type { Observed } from './observed.ts'
import { uninstallRun } from './plan.ts'
import { clusterStatus, type Shortfall } from './status.ts'

const UNINSTALL_CHECK_SECONDS = 10

export function finalize(observed: Observed, context: Context): Desired<ClusterStatus> {
  const { progress, liveJobs = [] } = observed
  const unfinished = liveJobs.filter(isUnfinished)
  const upgrades = unfinished.filter((job) => !isUninstall(job))

  if (upgrades.length > 0) {
    return {
      ...waiting(observed, context, 'waits for the helm run to stop'),
      stop: toStop(upgrades),
    }
  }
  // Nothing can be made in a namespace that ends, and all that helm would remove goes with it.
  if (observed.namespaceEnds === true) return finished(observed, context)
  const [running] = unfinished
  if (running !== undefined) return whileUninstalling(observed, running, context)
  if (isNeverInstalled(observed)) return finished(observed, context)
  if (progress?.verb === 'uninstall' && progress.state === 'Done')
    return finished(observed, context)

  const failure = failureOf(observed, context)
  if (failure === 'unknown') return waiting(observed, context, 'helm uninstall has ended')
  if (failure !== undefined && failure.plan === uninstallRun(observed.cluster).hash) {
    const left = RETRY_SECONDS - secondsSince(failure.at, context.now)
    if (left > 0) return answer(observed, context, failure, left)
  }
  return uninstall(observed, context)
}

/** A Job that cannot start (an image, a quota, full nodes) is made again, as that of an upgrade is. */
function whileUninstalling(observed: Observed, job: Job, context: Context): Desired<ClusterStatus> {
  const { hash: wanted } = uninstallRun(observed.cluster)
  const stuck = hasReported(observed, job)
    ? undefined
    : whyStuck(job, { wanted, missedTurn: false }, context)
  if (stuck !== undefined) {
    const message = `Job ${job.metadata.name} ${stuck}: it is made again`
    const shortfall = { reason: 'JobNotStarted', message }
    return { ...answer(observed, context, shortfall, SOON_SECONDS), stop: toStop([job]) }
  }
  const silent = silenceOf(job, observed.progress, context)
  if (silent !== undefined) return answer(observed, context, silent, UNINSTALL_CHECK_SECONDS)
  return waiting(observed, context, 'helm uninstall is under way', UNINSTALL_CHECK_SECONDS)
}

function uninstall(observed: Observed, context: Context): Desired<ClusterStatus> {
  const { cluster, jobs, liveJobs = [], progress } = observed
  const rights = clusterRights(cluster)
  if (!areObserved(rights, observed.children)) {
    return waiting(
      observed,
      context,
      'the rights of the uninstall are being made',
      SOON_SECONDS,
      rights,
    )
  }
  const run = nextRun([...jobs, ...liveJobs], progress?.run)
  const job = uninstallJob({ ...uninstallRun(cluster), run }, rights, context.settings)
  return waiting(observed, context, 'helm uninstall was started', SOON_SECONDS, [job])
}

/** Nothing tells of a Job that was ever made for it: there is no release. */
function isNeverInstalled(observed: Observed): boolean {
  const { cluster, jobs, liveJobs = [], progress, statefulSet } = observed
  return (
    progress === undefined &&
    statefulSet === undefined &&
    cluster.status?.helmRelease === undefined &&
    jobs.length + liveJobs.length === 0
  )
}

function isUninstall({ metadata }: Job): boolean {
  return metadata.labels?.[LABELS.verb] === 'uninstall'
}

function waiting(
  observed: Observed,
  context: Context,
  message: string,
  again = SOON_SECONDS,
  more: Child[] = [],
): Desired<ClusterStatus> {
  return answer(observed, context, { reason: 'Uninstalling', message }, again, more)
}

function answer(
  observed: Observed,
  context: Context,
  shortfall: Shortfall,
  again: number,
  more: Child[] = [],
): Desired<ClusterStatus> {
  return {
    status: clusterStatus(observed, shortfall, context),
    children: staying(observed.children, { more }),
    resyncAfterSeconds: Math.max(again, 1),
  }
}

function finished(observed: Observed, context: Context): Desired<ClusterStatus> {
  return {
    status: clusterStatus(
      observed,
      { reason: 'Uninstalled', message: 'the release is gone' },
      context,
    ),
    children: observed.children.map(kept),
    finalized: true,
  }
}
