/** The Job on the shards of a VecCluster: from the decision that it is due until it ends. */
import { Rejected } from '../../../crds/contract/errors.ts'
import {
  FIRST_READINESS_CHECK_SECONDS,
  LEASE_RECHECK_SECONDS,
  READINESS_CHECK_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../../crds/contract/limits.ts'
import type { Job } from '../../../crds/kubernetes.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import {
  creationMessage,
  notCreatedReason,
  hasReported,
  recreationReason,
  notStartedReason,
} from '../../job-watch.ts'
import { isUnfinished, nextRunNumber, allObserved, missingObjects } from '../../request.ts'
import { formatHolderName, secondsSinceAcquired } from '../../lease.ts'
import { claim } from '../../lease-claim.ts'
import type { Context } from '../../protocol.ts'
import {
  desiredState,
  hasLostLease,
  hasStarted,
  inAcquireOrder,
  leaseHolder,
  releaseLeases,
  type Decision,
  type StateOptions,
} from '../decision.ts'
import { previousFailure } from '../helm-result.ts'
import { unappliedRun } from '../job.ts'
import type { Observed } from '../ports.ts'
import { type ShardWork, begunRemoval, drainTarget } from './next-step.ts'
import { shardsJob, shardsPlan, shardsRbac } from './job.ts'
import { workReason } from './status.ts'
import type { Goal } from './summary.ts'
import { windowState } from '../../maintenance-windows.ts'

/** RBAC first, then both Leases, then the Job. Each step is observed before the next. */
export function startShards(observed: Observed, work: ShardWork, context: Context): Decision {
  const { cluster, jobs, liveJobs = [], leases, conflictingWork = [], progress } = observed
  const { now, settings } = context
  const rbac = shardsRbac(cluster)
  const pending = (message: string, options: Partial<StateOptions> = {}) =>
    desiredState(observed, context, {
      notApplied: notAppliedBehind(observed, context),
      shardWork: { reason: workReason(work.purpose), message },
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      ...options,
    })

  const active = liveJobs.find(isUnfinished)
  if (active !== undefined) return pending(`Job ${active.metadata.name} is in progress`)
  if (leases === undefined || !allObserved(rbac, observed.children)) {
    // A Job must not start before it is permitted to report.
    return pending('creating ServiceAccount, Role and RoleBindings of the Job', { more: rbac })
  }
  const [other] = conflictingWork
  if (other !== undefined) {
    const waiting = pending(`waiting for ${other}`, { resyncAfterSeconds: RETRY_SECONDS })
    return releaseLeases(observed, waiting)
  }
  const run = nextRunNumber([...jobs, ...liveJobs], progress?.run)
  const ownLeases = inAcquireOrder(leases)
  const leaseClaim = claim(ownLeases, leaseHolder(cluster), { cluster, now, run })
  if (leaseClaim.state === 'waiting') {
    const message = `waiting for ${formatHolderName(leaseClaim.holder)}`
    const waiting = pending(message, { resyncAfterSeconds: RETRY_SECONDS })
    return { ...waiting, leases: leaseClaim.writes }
  }
  if (leaseClaim.state === 'taking') {
    return { ...pending('acquiring the Leases of the cluster'), leases: leaseClaim.writes }
  }
  // Work that checked the Leases just before they were acquired is visible by then.
  const remainingSeconds = LEASE_RECHECK_SECONDS - secondsSinceAcquired(ownLeases, now)
  if (remainingSeconds > 0) {
    const message =
      'the Leases of the cluster are acquired; checking once more for other work on it'
    return pending(message, { resyncAfterSeconds: Math.ceil(remainingSeconds) })
  }
  const window = UNWINDOWED.has(work.goal) ? undefined : windowState(cluster, now)
  const endsAt = window?.is === 'open' ? window.endsAt : undefined
  const plan = shardsPlan(observed, { ...work, ...(endsAt !== undefined && { endsAt }) }, run)
  try {
    const job = shardsJob(cluster, plan, rbac, settings)
    const problem = notCreatedReason(cluster, 'ShardsPlaced', job)
    const creating = pending(creationMessage(job), {
      more: [job],
      ...(problem !== undefined && { shardWork: problem }),
    })
    return { ...creating, leases: leaseClaim.writes }
  } catch (error) {
    if (!(error instanceof Rejected)) throw error
    const shardWork = { reason: 'PlanTooLarge', message: error.message }
    return releaseLeases(
      observed,
      pending(error.message, { shardWork, resyncAfterSeconds: RETRY_SECONDS }),
    )
  }
}

/** Repairs never wait, and an update of pods is completed once helm has begun it. */
const UNWINDOWED: ReadonlySet<Goal> = new Set<Goal>(['repair', 'update'])

export function shardsInProgress(observed: Observed, job: Job, context: Context): Decision {
  const { namespace = '', name, uid = '' } = job.metadata
  const isReported = hasReported(observed, job)
  const notApplied = notAppliedBehind(observed, context)
  const facts = {
    desiredHash: undefined,
    lostLease: hasLostLease(observed, context),
    hasStarted: hasStarted(observed),
  }
  const restart = recreationReason(observed, job, facts, context)
  if (restart !== undefined) {
    const message = `Job ${name} ${restart}; recreating it`
    return {
      ...desiredState(observed, context, {
        notApplied,
        shardWork: { reason: 'JobNotStarted', message },
        resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      }),
      deleteJobs: [{ namespace, name, uid }],
    }
  }
  const problem = isReported ? undefined : notStartedReason(job, context)
  return desiredState(observed, context, {
    notApplied,
    ...(problem !== undefined && { shardWork: problem }),
    more: missingObjects(shardsRbac(observed.cluster), observed.children),
    resyncAfterSeconds: isReported ? READINESS_CHECK_SECONDS : FIRST_READINESS_CHECK_SECONDS,
  })
}

/** The condition Applied while a helm run is due that starts after the work on the shards. */
function notAppliedBehind(observed: Observed, { settings }: Context): ConditionReason | undefined {
  const { cluster, statefulSet } = observed
  const drainTo = drainTarget(observed)
  if (drainTo !== undefined && begunRemoval(observed) === drainTo) {
    const message = `node ${drainTo} was removed from the cluster: its pod is removed before spec.replicas is applied`
    return { reason: 'Draining', message }
  }
  if (drainTo !== undefined) {
    const message = `spec.replicas: ${statefulSet?.spec.replicas ?? 1} -> ${drainTo} is applied node by node, once the shards of each removed node are on other nodes`
    return { reason: 'Draining', message }
  }
  if (unappliedRun(observed, settings) === undefined) return undefined
  return (
    previousFailure(cluster) ?? {
      reason: 'ShardsRunning',
      message: 'helm runs once the work on the shards has ended',
    }
  )
}
