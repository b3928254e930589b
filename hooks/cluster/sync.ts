/** The desired children and status of a VecCluster: which Job runs, and when. */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import {
  FIRST_READINESS_CHECK_SECONDS,
  READINESS_CHECK_SECONDS,
  REFUSED_RETRY_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import type { AnyObject, ConfigMap, Job, LeaseHolder } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { getCondition, secondsSince } from '../conditions.ts'
import { hasReported, restartReason, silenceReason } from '../job-watch.ts'
import {
  childrenAfter,
  expiredJobs,
  isUnfinished,
  latestJob,
  nextRunNumber,
  runNumber,
} from '../job.ts'
import {
  claim,
  formatHolderName,
  holderOf,
  leaseReleases,
  type Claim,
  type LeaseWrite,
} from '../lease.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { allObserved, isHelmBinding } from '../rbac.ts'
import { eventsOf } from './events.ts'
import { formationRecord } from './formation.ts'
import { limitMessage, slotRetrySeconds } from './helm-concurrency.ts'
import { lastFailure, previousFailure } from './helm-result.ts'
import { clusterRbac, desiredRun, upgradeJob } from './job.ts'
import type { DesiredRun, Observed } from './observed.ts'
import { clusterStatus, isNewlyApplied } from './status.ts'
import { referencedSecrets, validateSecrets, validateSpec } from './validation.ts'

/** A decision: the hook response and the objects to write. */
export interface Decision extends Desired<ClusterStatus> {
  leases?: LeaseWrite[]
  /** Records that the cluster was formed. */
  formation?: ConfigMap
}

export function sync(observed: Observed, context: Context): Decision {
  const { jobs, pendingRun } = observed

  // A running Job ignores changes made since it started.
  const running = jobs.find(isUnfinished)
  if (running !== undefined) return runInProgress(observed, running, context)

  const failure = lastFailure(observed, context)
  // The Job finished without reporting its outcome: its last report may still arrive.
  if (failure === 'unknown')
    return desiredState(observed, context, { resyncAfterSeconds: REQUEUE_SOON_SECONDS })
  if (pendingRun === undefined) return upToDate(observed, context)

  const specError = validateSpec(observed.cluster, observed.statefulSet)
  if (specError !== undefined) {
    return releaseLease(observed, blocked(observed, context, 'InvalidSpec', specError))
  }
  const secretError = validateSecrets(referencedSecrets(observed.cluster.spec), observed.secrets)
  if (secretError !== undefined) {
    return releaseLease(observed, blocked(observed, context, 'InvalidSecret', secretError))
  }

  // The same plan is retried after a back-off, a different plan immediately.
  if (failure?.plan === pendingRun.hash) {
    const backOffSeconds = failure.rejected ? REFUSED_RETRY_SECONDS : RETRY_SECONDS
    const remainingSeconds = backOffSeconds - secondsSince(failure.failedAt, context.now)
    if (remainingSeconds > 0) {
      const resyncAfterSeconds = failure.rejected ? READINESS_CHECK_SECONDS : remainingSeconds
      return desiredState(observed, context, {
        notApplied: failure,
        resyncAfterSeconds: Math.max(resyncAfterSeconds, 1),
      })
    }
  }
  return start(observed, context, pendingRun, failure)
}

/** Creates the next Job once its RBAC objects exist, a helm slot is free and the Lease is held. */
function start(
  observed: Observed,
  context: Context,
  desired: DesiredRun,
  failure: ConditionReason | undefined,
): Decision {
  const { cluster, liveJobs = [], unfinishedHelmJobs = 0, progress } = observed
  const rbac = clusterRbac(cluster)
  const pending = (reason: string, message: string, more: Child[] = []) =>
    desiredState(observed, context, {
      notApplied: failure ?? previousFailure(cluster) ?? { reason, message },
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      more,
    })

  const activeJob = liveJobs.find(isUnfinished)
  if (activeJob !== undefined) return pending('HelmRunning', runMessage(runNumber(activeJob)))
  if (!allObserved(rbac, observed.children)) {
    // A Job must not start before it is permitted to report.
    return pending(
      'HelmStarting',
      'creating ServiceAccount, Role and RoleBinding of the helm Job',
      rbac,
    )
  }
  if (unfinishedHelmJobs >= context.settings.maxHelmJobs) {
    return releaseLease(observed, {
      ...pending('HelmConcurrencyLimit', limitMessage(context.settings)),
      resyncAfterSeconds: slotRetrySeconds(cluster),
    })
  }
  const run = nextRunNumber([...observed.jobs, ...liveJobs], progress?.run)
  const leaseClaim = claimLease(observed, run, context)
  if (leaseClaim.state === 'waiting') {
    const notApplied = {
      reason: 'ClusterBusy',
      message: `waiting for ${formatHolderName(leaseClaim.holder)}`,
    }
    return {
      ...desiredState(observed, context, { notApplied, resyncAfterSeconds: RETRY_SECONDS }),
      leases: leaseClaim.writes,
    }
  }
  if (leaseClaim.state === 'taking') {
    const acquiring = pending('HelmStarting', 'acquiring the Lease of the cluster')
    return { ...acquiring, leases: leaseClaim.writes }
  }
  try {
    const plan = { ...desired, run }
    const job = upgradeJob(cluster, plan, rbac, context.settings)
    return pending('HelmRunning', runMessage(run), [job])
  } catch (error) {
    if (error instanceof Rejected) return blocked(observed, context, 'InvalidSpec', error.message)
    throw error
  }
}

/**
 * A helm run restarts pods: during a backup the copies would be incomplete, and during a restore a
 * higher replication factor would make the engine start repairs halfway. Before the first install there is
 * nothing to protect.
 */
function claimLease(observed: Observed, run: number, { now }: Context): Claim {
  const { cluster, leases } = observed
  if (leases === undefined || isFirstInstall(observed)) return { state: 'held' }
  return claim([leases.backup], leaseHolder(cluster), { cluster, now, run, free: [leases.write] })
}

function isFirstInstall({ cluster, statefulSet, progress }: Observed): boolean {
  return (
    statefulSet === undefined &&
    progress?.applied === undefined &&
    cluster.status?.helmRelease === undefined
  )
}

export function leaseHolder({ metadata: { namespace, name, uid } }: VecCluster): LeaseHolder {
  return { kind: 'VecCluster', namespace, name, uid }
}

/** A cluster that does not start a Job must not block other lease holders. */
function releaseLease({ cluster, leases }: Observed, desired: Decision): Decision {
  const writes = leases === undefined ? [] : leaseReleases([leases.backup], leaseHolder(cluster))
  return writes.length === 0 ? desired : { ...desired, leases: writes }
}

/** The Job appeared after its Lease had expired, and another holder may be working. */
function lostLease(observed: Observed, { now }: Context): boolean {
  const { cluster, leases } = observed
  if (leases === undefined || isFirstInstall(observed)) return false
  return [leases.write, leases.backup].some((lease) => {
    const holder = holderOf(lease, now)
    return holder !== undefined && holder.uid !== cluster.metadata.uid
  })
}

function runInProgress(observed: Observed, job: Job, context: Context): Decision {
  const { cluster, progress } = observed
  const { namespace = '', name, uid = '' } = job.metadata
  const isReported = hasReported(observed, job)
  const restart = isReported
    ? undefined
    : restartReason(
        job,
        {
          desiredHash: desiredRun(observed, context.settings).hash,
          lostLease: lostLease(observed, context),
        },
        context,
      )
  if (restart !== undefined) {
    const message = `Job ${name} ${restart}; recreating it`
    return {
      ...desiredState(observed, context, {
        notApplied: { reason: 'JobNotStarted', message },
        resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      }),
      deleteJobs: [{ namespace, name, uid }],
    }
  }
  const running = { reason: 'HelmRunning', message: runMessage(runNumber(job)) }
  return desiredState(observed, context, {
    notApplied: silenceReason(job, progress, context) ?? previousFailure(cluster) ?? running,
    resyncAfterSeconds: isReported ? READINESS_CHECK_SECONDS : FIRST_READINESS_CHECK_SECONDS,
  })
}

/** The message is the same from start to finish, so each run causes one Event. */
function runMessage(run: number): string {
  return `helm run ${run} is in progress`
}

function blocked(observed: Observed, context: Context, reason: string, message: string): Decision {
  return desiredState(observed, context, {
    notApplied: { reason, message },
    resyncAfterSeconds: RETRY_SECONDS,
  })
}

function upToDate(observed: Observed, context: Context): Decision {
  const resyncAfterSeconds = isNewlyApplied(observed)
    ? FIRST_READINESS_CHECK_SECONDS
    : READINESS_CHECK_SECONDS
  // Before the status confirms it, a Job that the cache does not show yet may still need its RBAC objects.
  const isApplied = getCondition(observed.cluster, 'Applied')?.status === 'True'
  return desiredState(observed, context, {
    resyncAfterSeconds: Math.min(
      resyncAfterSeconds,
      observed.consensusResyncSeconds ?? resyncAfterSeconds,
    ),
    ...(isApplied && { unused: unusedRbac(observed) }),
  })
}

/** The helm binding and RBAC objects of earlier operator versions, whose names depend on the rules. */
function unusedRbac({ cluster, children }: Observed): AnyObject[] {
  const current = new Set(
    clusterRbac(cluster).map(({ kind, metadata }) => `${kind}/${metadata.name}`),
  )
  return children.filter(
    (child) =>
      isHelmBinding(child) ||
      (child.kind !== 'Job' && !current.has(`${child.kind}/${child.metadata.name}`)),
  )
}

interface StateOptions {
  notApplied?: ConditionReason
  resyncAfterSeconds: number
  /** Children in addition to the observed ones. */
  more?: Child[]
  /** RBAC objects that only a helm run needs; any user who can create pods in the namespace could use them. */
  unused?: AnyObject[]
}

/** Returns every observed child except expired Jobs and unused RBAC objects. */
function desiredState(
  observed: Observed,
  context: Context,
  { notApplied, resyncAfterSeconds, more = [], unused = [] }: StateOptions,
): Decision {
  const { cluster, jobs, children } = observed
  const latest = latestJob(jobs)
  const reportedRun = cluster.status?.appliedRun ?? 0
  // The Job is the only record of a run that the status does not show yet.
  const isRecorded = (job: Job) => job !== latest || runNumber(job) <= reportedRun
  const reason = 'no helm run is due'
  const pruned = [
    ...expiredJobs(jobs, isRecorded, context),
    ...unused.map(({ kind, metadata: { name } }) => ({ kind, name, reason })),
  ]
  const status = clusterStatus(observed, notApplied, context)
  const formation = formationRecord(cluster, status)
  return {
    status,
    children: childrenAfter(children, { created: more, pruned }),
    ...(pruned.length > 0 && { pruned }),
    resyncAfterSeconds,
    events: eventsOf(cluster, status, context.now),
    ...(formation !== undefined && { formation }),
    ...(observed.consensusFailure !== undefined && { failure: observed.consensusFailure }),
  }
}
