/** The desired state of a VecRestore: its Job, what blocks it, and when it starts. */
import type { VecCluster } from '../../crds/cluster.ts'
import { LEASE_RECHECK_SECONDS } from '../../crds/contract/limits.ts'
import type { LeaseHolder } from '../../crds/kubernetes.ts'
import {
  bucketNamespace,
  restoreBackupRef,
  restoreSource,
  restoreTarget,
  type RestoreStatus,
  type VecRestore,
} from '../../crds/restore.ts'
import { backupAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'
import type { DataJobDecision } from '../data-job/apply.ts'
import { cleanUpFinished, runNumberAfter } from '../data-job/job-watch.ts'
import { isFinished } from '../data-job/outcome.ts'
import {
  apiKeyBlocker,
  bucketBlocker,
  clusterBlocker,
  copyBlocker,
  endpointBlocker,
  selectBlocker,
  type Blocker,
} from '../data-job/preconditions.ts'
import {
  blocked,
  blockedBy,
  inProgress,
  queuedBehind,
  requeueSoon,
  startingReason,
  syncDataJob,
  type DataJobKind,
  type SyncContext,
} from '../data-job/sync.ts'
import {
  claim,
  isHolder,
  leaseReleases,
  secondsSinceAcquired,
  type ObservedLease,
} from '../lease.ts'
import type { Context } from '../protocol.ts'
import { allObserved } from '../rbac.ts'
import { desiredPlan, restoreJob, restoreRbac } from './job.ts'
import { copiedCredentials, copySources, type Observed } from './observe.ts'
import { activeStatus, finishedStatus, restoreEvents } from './status.ts'

export type Decision = DataJobDecision<RestoreStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A finished restore outlives its cluster. Its Job is retained for its log and never recreated.
  if (isFinished(observed.restore)) {
    const remaining = cleanUpFinished(observed, 'the restore has ended', context)
    return { status: observed.restore.status ?? {}, ...remaining }
  }
  return syncDataJob({ kind: RESTORE, observed, context })
}

export function leaseHolder({ metadata: { namespace, name, uid } }: VecRestore): LeaseHolder {
  return { kind: 'VecRestore', namespace, name, uid }
}

const RESTORE: DataJobKind<Observed, RestoreStatus> = {
  ...{
    activeStatus,
    finishedStatus,
    eventsOf: restoreEvents,
    firstBlocker,
    copiedCredentials,
    copySources,
    start,
  },
  startingReason: { reason: 'RestoreStarting' },
  leaseReleases: ({ restore, leases }) =>
    leases === undefined ? [] : leaseReleases(inAcquireOrder(leases), leaseHolder(restore)),
  desiredPlanHash: (observed) =>
    observed.cluster && desiredPlan(observed.restore, observed.cluster, observed)?.hash,
  hasStarted: ({ restore }) => restore.status?.startTime !== undefined,
  lostLease: ({ restore, leases }) =>
    leases !== undefined &&
    !inAcquireOrder(leases).every(({ lease }) => isHolder(lease, leaseHolder(restore))),
}

/**
 * Nothing blocks it: RBAC first, then the Leases, then the Job. Each step is observed before the
 * next.
 */
function start(syncContext: SyncContext<Observed, RestoreStatus>): Decision {
  const { restore, cluster, leases, conflictingWork = [], children } = syncContext.observed
  const { now } = syncContext.context
  const rbac = restoreRbac(restore)
  // A Job must not start before it has permission to report.
  if (cluster === undefined || leases === undefined || !allObserved(rbac, children)) {
    return requeueSoon(syncContext, 'the rights of the Job are being made', rbac)
  }
  const [other] = conflictingWork
  if (other !== undefined) return blockedBy(syncContext, other)
  const claimResult = claim(inAcquireOrder(leases), leaseHolder(restore), { cluster, now })
  if (claimResult.state === 'waiting') return queuedBehind(syncContext, claimResult)
  if (claimResult.state === 'taking') {
    const decision = requeueSoon(syncContext, 'the Leases of the cluster are being taken')
    return { ...decision, leases: claimResult.writes }
  }
  // Work that checked the Leases just before they were acquired is visible by then.
  const remainingSeconds = LEASE_RECHECK_SECONDS - secondsSinceAcquired(inAcquireOrder(leases), now)
  if (remainingSeconds > 0) {
    const message = 'the Leases of the cluster are held: looks once more who is at work there'
    return inProgress(syncContext, {
      conditionReason: startingReason(syncContext, message),
      resyncAfterSeconds: Math.ceil(remainingSeconds),
    })
  }
  return startJob(syncContext, cluster)
}

function startJob(
  syncContext: SyncContext<Observed, RestoreStatus>,
  cluster: VecCluster,
): Decision {
  const { observed, context } = syncContext
  const desired = desiredPlan(observed.restore, cluster, observed)
  if (desired === undefined) return blocked(syncContext)
  const plan = { ...desired, run: runNumberAfter(observed.progress) }
  const job = restoreJob(observed, cluster, plan, context.settings)
  return requeueSoon(syncContext, `Job ${job.metadata.name} was started`, [job])
}

/**
 * In the order of acquisition: all compete for the first one, so two claimants never hold one each.
 */
function inAcquireOrder({ write, backup }: NonNullable<Observed['leases']>): ObservedLease[] {
  return [backup, write]
}

/** The first blocker; undefined if the Job may be created. */
export function firstBlocker(observed: Observed, settings: CrossNamespace): Blocker | undefined {
  const { restore, backup, cluster, secrets } = observed
  const source = restoreSource(restore, backup)
  const from = restore.metadata.namespace
  return selectBlocker([
    copyBlocker(restore),
    backupBlocker(observed),
    clusterBlocker(restoreTarget(restore), cluster, { from, settings }),
    endpointBlocker('spec.source.s3.endpoint', restore.spec.source?.s3.endpoint),
    source && bucketBlocker(source, bucketNamespace(restore), secrets.bucket),
    cluster && apiKeyBlocker(cluster, secrets.engine),
  ])
}

/** A failed backup never becomes complete; an unfinished one may. */
function backupBlocker({ restore, backup }: Observed): Blocker | undefined {
  const ref = restoreBackupRef(restore)
  if (ref === undefined) return undefined
  const label = `backup ${ref.namespace}/${ref.name}`
  if (backup === undefined) return { reason: 'BackupNotFound', message: `${label} not found` }
  if (backup.metadata.deletionTimestamp !== undefined) {
    return { reason: 'BackupNotFound', message: `${label} is being deleted` }
  }
  const accessBlocker = backupAccessBlocker(backup, restore.metadata.namespace)
  if (accessBlocker !== undefined) return accessBlocker
  const { phase = 'Pending' } = backup.status ?? {}
  if (phase === 'Completed') return undefined
  const message = `backup is ${phase}, not Completed: ${ref.namespace}/${ref.name}`
  return {
    reason: 'BackupNotCompleted',
    message,
    ...(phase === 'Failed' && { terminal: true as const }),
  }
}
