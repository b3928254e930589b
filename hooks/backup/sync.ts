/** The desired state of a VecBackup: its Job, what blocks it, and when it starts. */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { EXPIRY_CHECK_SECONDS, REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { LeaseHolder } from '../../crds/kubernetes.ts'
import { secondsSince } from '../conditions.ts'
import type { CrossNamespace } from '../cross-namespace.ts'
import { applySideEffects, type SideEffects } from '../data-job/apply.ts'
import { cleanUpFinished, runNumberAfter } from '../data-job/job-watch.ts'
import { isFinished } from '../data-job/outcome.ts'
import {
  apiKeyBlocker,
  bucketBlocker,
  clusterBlocker,
  endpointBlocker,
  selectBlocker,
  type Blocker,
} from '../data-job/preconditions.ts'
import {
  blockedBy,
  queuedBehind,
  requeueSoon,
  syncDataJob,
  type DataJobKind,
  type SyncContext,
} from '../data-job/sync.ts'
import { warningEvent } from '../events.ts'
import { claim, isHolder, leaseReleases } from '../lease.ts'
import type { Context, Desired } from '../protocol.ts'
import { allObserved } from '../rbac.ts'
import { isExpired } from './deletion-policy.ts'
import { backupJob, backupRbac, desiredPlan } from './job.ts'
import {
  copiedCredentials,
  copySources,
  type BackupPorts,
  type ObjectIdentity,
  type Observed,
} from './observe.ts'
import {
  activeStatus,
  backupEvents,
  compactReport,
  compactStatus,
  expiredStatus,
  finalStatus,
  finishedStatus,
} from './status.ts'

export function sync(observed: Observed, context: Context): Decision {
  // A finished backup outlives its cluster. Its Job is retained for its log and never recreated.
  if (isFinished(observed.backup)) return afterFinish(observed, context)
  return syncDataJob({ kind: BACKUP, observed, context })
}

export function leaseHolder({ metadata: { namespace, name, uid } }: VecBackup): LeaseHolder {
  return { kind: 'VecBackup', namespace, name, uid }
}

const BACKUP: DataJobKind<Observed, BackupStatus> = {
  ...{ activeStatus, finishedStatus, firstBlocker, copySources, start },
  startingReason: { reason: 'BackupStarting' },
  eventsOf: ({ backup }, status, now) => backupEvents(backup, status, now),
  copiedCredentials: ({ backup }) => copiedCredentials(backup),
  leaseReleases: ({ backup, leases }) =>
    leases === undefined ? [] : leaseReleases([leases.backup], leaseHolder(backup)),
  desiredPlanHash: ({ backup, cluster, statefulSet }) =>
    cluster && desiredPlan(backup, cluster, statefulSet).hash,
  hasStarted: ({ backup }) => backup.status?.startTime !== undefined,
  lostLease: ({ backup, leases }) =>
    leases !== undefined && !isHolder(leases.backup.lease, leaseHolder(backup)),
}

/**
 * Nothing blocks it: RBAC first, then the Lease, then the Job. Each step is observed before the
 * next.
 */
function start(syncContext: SyncContext<Observed, BackupStatus>): Decision {
  const { observed, context } = syncContext
  const { backup, cluster, leases, progress, helmJobs = [] } = observed
  const rbac = backupRbac(backup)
  // A Job must not start before it has permission to report.
  if (cluster === undefined || leases === undefined || !allObserved(rbac, observed.children)) {
    return requeueSoon(syncContext, 'the rights of the Job are being made', rbac)
  }
  const claimContext = { cluster, now: context.now, free: [leases.write] }
  const claimResult = claim([leases.backup], leaseHolder(backup), claimContext)
  if (claimResult.state === 'waiting') return queuedBehind(syncContext, claimResult)
  if (claimResult.state === 'taking') {
    const decision = requeueSoon(syncContext, 'the Lease of the cluster is being taken')
    return { ...decision, leases: claimResult.writes }
  }
  // A helm Job of an earlier release, or of the first install, holds no Lease.
  const [helmJob] = helmJobs
  if (helmJob !== undefined) return blockedBy(syncContext, helmJob)
  const plan = {
    ...desiredPlan(backup, cluster, observed.statefulSet),
    run: runNumberAfter(progress),
  }
  const job = backupJob(observed, cluster, plan, context.settings)
  return requeueSoon(syncContext, `Job ${job.metadata.name} was started`, [job])
}

const CLOCK_AHEAD = {
  reason: 'ClockAhead',
  message:
    'spec.retentionDays have passed by the clock of the operator, but not by that of the API server: nothing is deleted; set the clock of the node that the operator runs on',
}

/** Its status has the outcome: what remains is the Job history and the expiry. */
function afterFinish(observed: Observed, context: Context): Decision {
  const { backup } = observed
  const { expiresAt } = backup.status ?? {}
  const report = compactReport(observed.progress)
  const remaining = {
    ...cleanUpFinished(observed, 'the backup has ended', context),
    ...(report !== undefined && { report }),
  }
  const status = compactStatus(backup, finalStatus(backup), context.now)
  if (expiresAt === undefined) return { status, ...remaining }
  if (secondsSince(expiresAt, context.now) < 0) {
    return { status, ...remaining, resyncAfterSeconds: EXPIRY_CHECK_SECONDS }
  }
  const { apiTime = context.now } = observed
  if (secondsSince(expiresAt, apiTime) < 0) {
    const events = [warningEvent(backup, CLOCK_AHEAD, context.now)]
    return { status, ...remaining, events, resyncAfterSeconds: EXPIRY_CHECK_SECONDS }
  }
  // Deletion must distinguish this from a user's deletion, so the condition is recorded before the
  // backup deletes itself.
  if (!isExpired(backup)) {
    return {
      status: expiredStatus(backup, context),
      ...remaining,
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    }
  }
  const { namespace, name, uid } = backup.metadata
  return {
    status,
    ...remaining,
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    expire: { namespace, name, uid },
  }
}

/** A decision: the answer and its side effects. */
export interface Decision extends Desired<BackupStatus>, SideEffects {
  /** The resource has expired and is to be deleted. */
  expire?: ObjectIdentity
  /** Replaces the report on the resource. */
  report?: Progress
  warnings?: string[]
}

/** Applies a decision: required writes come before those that only report them. */
export async function applyDecision(
  decision: Decision,
  backup: ObjectIdentity,
  ports: BackupPorts,
): Promise<void> {
  await applySideEffects(decision, ports)
  if (decision.report !== undefined) await ports.replaceReport(backup, decision.report)
  if (decision.expire !== undefined) await ports.deleteBackup(decision.expire)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  for (const warning of decision.warnings ?? []) ports.warn(backup, warning)
}

/** The first blocker; undefined if the Job may be created. */
export function firstBlocker(
  { backup, cluster, secrets }: Observed,
  settings: CrossNamespace,
): Blocker | undefined {
  const { namespace: from } = backup.metadata
  const { name, namespace = from } = backup.spec.clusterRef
  return selectBlocker([
    clusterBlocker({ namespace, name }, cluster, { from, settings }),
    endpointBlocker('spec.storage.s3.endpoint', backup.spec.storage.s3.endpoint),
    bucketBlocker(backup.spec.storage.s3, from, secrets.bucket),
    cluster && apiKeyBlocker(cluster, secrets.engine),
  ])
}
