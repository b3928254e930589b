/** The desired children and status of a VecCluster: which Job runs, and when. */
import { Rejected } from '../../crds/contract/errors.ts'
import {
  FIRST_READINESS_CHECK_SECONDS,
  READINESS_CHECK_SECONDS,
  REFUSED_RETRY_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import type { AnyObject, Job } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { getCondition, secondsSinceRecorded } from '../conditions.ts'
import {
  creationMessage,
  notCreatedReason,
  hasReported,
  recreationReason,
  silenceReason,
  notStartedReason,
} from '../job-watch.ts'
import { isHelmBinding } from '../job.ts'
import { allObserved, isUnfinished, missingObjects, nextRunNumber, runNumber } from '../request.ts'
import { formatHolderName } from '../lease.ts'
import { claim, type Claim } from '../lease-claim.ts'
import { resyncAtWindow, windowsError } from '../maintenance-windows.ts'
import type { Child, Context } from '../protocol.ts'
import {
  desiredState,
  hasLostLease,
  hasStarted,
  leaseHolder,
  releaseLeases,
  type Decision,
} from './decision.ts'
import { splitBlocker } from './consensus.ts'
import { stoppedError, stopsPods } from './hibernate.ts'
import { awaitedBackup, type AwaitedBackup } from './hibernation-backup.ts'
import { awaitingNextAttempt, lastFailure, previousFailure } from './helm-result.ts'
import { areSlotsTaken, limitMessage, slotRetrySeconds } from './helm-slots.ts'
import { clusterRbac, desiredRun, upgradeJob } from './job.ts'
import type { DesiredRun, Observed } from './ports.ts'
import { incompleteRelease } from './release-objects.ts'
import { isNewlyApplied } from './rollout.ts'
import { nextShardStep } from './shards/next-step.ts'
import { shardsRbac } from './shards/job.ts'
import { isShardsEndUnknown, isShardsJob } from './shards/result.ts'
import { isWorkReason } from './shards/status.ts'
import { shardsInProgress, startShards } from './shards/sync.ts'
import { referencedSecrets, validateSecrets, validateSpec } from './validation.ts'
import { digestStepError, stepReason, versionSteps } from './version-steps.ts'
import { dataVolumeSize } from './volumes.ts'
import { awaitedByRun } from './windows.ts'

export function sync(observed: Observed, context: Context): Decision {
  const { jobs, pendingRun } = observed

  // A running Job ignores changes made since it started.
  const running = jobs.find(isUnfinished)
  if (running !== undefined) {
    return isShardsJob(running)
      ? shardsInProgress(observed, running, context)
      : runInProgress(observed, running, context)
  }

  const failure = lastFailure(observed, context)
  // The Job finished without reporting its outcome: its last report may still arrive.
  if (failure === 'unknown' || isShardsEndUnknown(observed, context))
    return awaitReport(observed, context)

  const shardStep = nextShardStep(observed, context)
  // Repairs and balance; nodes are removed only once the spec is known to be valid.
  if (shardStep.is === 'due' && (pendingRun === undefined || shardStep.work.goal !== 'drain')) {
    return startShards(observed, shardStep.work, context)
  }
  if (pendingRun === undefined) return upToDate(observed, context)

  const specError =
    validateSpec(observed.cluster, observed.statefulSet, dataVolumeSize(observed)) ??
    digestStepError(observed) ??
    stoppedError(observed) ??
    windowsError(observed.cluster.spec)
  if (specError !== undefined) {
    return releaseLeases(observed, blocked(observed, context, 'InvalidSpec', specError))
  }
  const secretError = validateSecrets(referencedSecrets(observed.cluster.spec), observed.secrets)
  if (secretError !== undefined) {
    return releaseLeases(observed, blocked(observed, context, 'InvalidSecret', secretError))
  }

  const splitError = splitBlocker(observed)
  if (splitError !== undefined) {
    return releaseLeases(observed, blocked(observed, context, 'SplitBrain', splitError))
  }

  const [retainedVolume] = observed.retainedVolumes ?? []
  if (retainedVolume !== undefined) {
    const message = `spec.replicas would start a node with the volume of a removed one: delete PersistentVolumeClaim ${retainedVolume}, and the node starts empty`
    return releaseLeases(observed, blocked(observed, context, 'VolumeKept', message))
  }
  if (shardStep.is === 'due') return startShards(observed, shardStep.work, context)
  if (shardStep.is === 'held') {
    const { notApplied } = shardStep
    return releaseLeases(
      observed,
      desiredState(observed, context, {
        notApplied,
        resyncAfterSeconds: resyncAtWindow(
          observed.cluster,
          context.now,
          shardsResync(observed, RETRY_SECONDS),
        ),
      }),
    )
  }

  // The same plan is retried after a back-off, a different plan immediately.
  if (failure?.plan === pendingRun.hash) {
    const backOffSeconds = failure.rejected ? REFUSED_RETRY_SECONDS : RETRY_SECONDS
    const remainingSeconds = backOffSeconds - secondsSinceRecorded(failure.failedAt, context.now)
    if (remainingSeconds > 0) {
      const resyncAfterSeconds = failure.rejected ? READINESS_CHECK_SECONDS : remainingSeconds
      return desiredState(observed, context, {
        notApplied: failure,
        resyncAfterSeconds: Math.max(resyncAfterSeconds, 1),
      })
    }
  }
  const other = workBeforeStop(observed)
  if (other !== undefined) {
    const message = `waiting for ${other}`
    return releaseLeases(observed, blocked(observed, context, 'ClusterBusy', message))
  }
  const awaited = awaitedBackup(observed, context.now)
  if (awaited !== undefined) return awaitBackup(observed, awaited, context)
  return start(observed, context, pendingRun, failure)
}

/** Nothing is known about the end of the last Job: the spec is applied only if an earlier run has applied it. */
function awaitReport(observed: Observed, context: Context): Decision {
  const { cluster, pendingRun } = observed
  const awaited = { reason: 'HelmStarting', message: 'waiting for the report of the last Job' }
  const notApplied =
    pendingRun === undefined
      ? stepReason(versionSteps(observed))
      : (previousFailure(cluster) ?? awaited)
  return desiredState(observed, context, { notApplied, resyncAfterSeconds: REQUEUE_SOON_SECONDS })
}

/**
 * What the run that stops the pods waits for: a migration holds no Lease. Checked before the backup, which counts
 * for an hour. The Job of the run itself may be among the live ones before the cache has it, and keeps its Lease.
 */
function workBeforeStop(observed: Observed): string | undefined {
  const { conflictingWork = [], liveJobs = [] } = observed
  const isFree = stopsPods(observed) && !liveJobs.some(isUnfinished)
  return isFree ? conflictingWork[0] : undefined
}

/** The backup needs the Lease, so it is released. */
function awaitBackup(
  observed: Observed,
  { notApplied, request }: AwaitedBackup,
  context: Context,
): Decision {
  const isNew =
    request !== undefined && observed.cluster.status?.hibernationBackup?.name !== request.name
  return releaseLeases(
    observed,
    desiredState(observed, context, {
      notApplied,
      hibernationBackup: request,
      resyncAfterSeconds: isNew ? REQUEUE_SOON_SECONDS : FIRST_READINESS_CHECK_SECONDS,
    }),
  )
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
  const awaited = awaitedByRun(observed, desired, context.now)
  if (awaited !== undefined) return awaitWindow(observed, { awaited, failure }, context)
  if (!allObserved(rbac, observed.children)) {
    // A Job must not start before it is permitted to report.
    const { reason, message } = incompleteRelease(observed) ?? {
      reason: 'HelmStarting',
      message: 'creating ServiceAccount, Role and RoleBinding of the helm Job',
    }
    return pending(reason, message, rbac)
  }
  if (areSlotsTaken(unfinishedHelmJobs, context.settings)) {
    return releaseLeases(observed, {
      ...pending('HelmConcurrencyLimit', limitMessage(context.settings)),
      resyncAfterSeconds: slotRetrySeconds(cluster),
      isWaitingForSlot: true,
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
    const problem = notCreatedReason(cluster, 'Applied', job)
    const { reason, message } = problem ?? {
      reason: 'HelmStarting',
      message: creationMessage(job),
    }
    return { ...pending(reason, message, [job]), leases: leaseClaim.writes }
  } catch (error) {
    if (error instanceof Rejected) return blocked(observed, context, 'InvalidSpec', error.message)
    throw error
  }
}

function awaitWindow(
  observed: Observed,
  { awaited, failure }: { awaited: ConditionReason; failure: ConditionReason | undefined },
  context: Context,
): Decision {
  const failedRun = failure && { reason: failure.reason, message: failure.message }
  return releaseLeases(
    observed,
    desiredState(observed, context, {
      notApplied: failedRun === undefined ? awaited : awaitingNextAttempt(failedRun, awaited),
      failedRun,
      resyncAfterSeconds: resyncAtWindow(observed.cluster, context.now, RETRY_SECONDS),
    }),
  )
}

/**
 * A helm run restarts pods: during a backup the copies would be incomplete, and during a restore a
 * higher replication factor would make the engine start repairs halfway. Before the first install there is
 * nothing to protect.
 */
function claimLease(observed: Observed, run: number, { now }: Context): Claim {
  const { cluster, leases } = observed
  if (leases === undefined || isFirstInstall(observed)) return { state: 'held', writes: [] }
  return claim([leases.backup], leaseHolder(cluster), { cluster, now, run, free: [leases.write] })
}

function isFirstInstall({ cluster, statefulSet, progress }: Observed): boolean {
  return (
    statefulSet === undefined &&
    progress?.applied === undefined &&
    cluster.status?.helmRelease === undefined
  )
}

function runInProgress(observed: Observed, job: Job, context: Context): Decision {
  const { cluster, progress } = observed
  const { namespace = '', name, uid = '' } = job.metadata
  const isReported = hasReported(observed, job)
  const facts = {
    desiredHash: desiredRun(observed, context.settings).hash,
    lostLease: !isFirstInstall(observed) && hasLostLease(observed, context),
    hasStarted: hasStarted(observed),
  }
  const restart = recreationReason(observed, job, facts, context)
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
  const problem = isReported
    ? silenceReason(job, progress, context)
    : notStartedReason(job, context)
  return desiredState(observed, context, {
    notApplied: problem ?? previousFailure(cluster) ?? running,
    resyncAfterSeconds: isReported ? READINESS_CHECK_SECONDS : FIRST_READINESS_CHECK_SECONDS,
    more: missingObjects(clusterRbac(cluster), observed.children),
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
  const resyncAfterSeconds = resyncAtWindow(
    observed.cluster,
    context.now,
    isNewlyApplied(observed) ? FIRST_READINESS_CHECK_SECONDS : READINESS_CHECK_SECONDS,
  )
  // Before the status confirms it, a Job that the cache does not show yet may still need its RBAC objects.
  const isApplied = getCondition(observed.cluster, 'Applied')?.status === 'True'
  return desiredState(observed, context, {
    notApplied: stepReason(versionSteps(observed)) ?? incompleteRelease(observed),
    resyncAfterSeconds: Math.min(
      shardsResync(observed, resyncAfterSeconds),
      observed.consensusResyncSeconds ?? resyncAfterSeconds,
      observed.keysResyncSeconds ?? resyncAfterSeconds,
    ),
    ...(isApplied && { unused: unusedRbac(observed) }),
  })
}

/** While the nodes are being asked for their shards, the answer is awaited. */
function shardsResync({ shardsResyncSeconds }: Observed, seconds: number): number {
  return Math.min(seconds, shardsResyncSeconds ?? seconds)
}

/** The helm binding, RBAC objects of the work on shards, and those of earlier operator versions, whose names depend on the rules. */
function unusedRbac({ cluster, children }: Observed): AnyObject[] {
  // The cache may not show the Job yet that the status announces.
  const { reason } = getCondition(cluster, 'ShardsPlaced') ?? {}
  const isShardWorkDue = isWorkReason(reason) || reason === 'JobNotStarted'
  const currentRbac = [...clusterRbac(cluster), ...(isShardWorkDue ? shardsRbac(cluster) : [])]
  const current = new Set(currentRbac.map(({ kind, metadata }) => `${kind}/${metadata.name}`))
  return children.filter(
    (child) =>
      isHelmBinding(child) ||
      (child.kind !== 'Job' && !current.has(`${child.kind}/${child.metadata.name}`)),
  )
}
