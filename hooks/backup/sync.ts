/** The desired state of a VecBackup: its Job, what blocks it, and when it starts. */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { EXPIRY_CHECK_SECONDS, REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { LeaseHolder } from '../../crds/kubernetes.ts'
import { secondsSince } from '../conditions.ts'
import type { CrossNamespace } from '../cross-namespace.ts'
import {
  afterFinished,
  applySideEffects,
  whenFinished,
  whileUnfinished,
  type SideEffects,
  type Unfinished,
} from '../data-job/decision.ts'
import { isFinished, type Outcome } from '../data-job/observe.ts'
import {
  busyWith,
  creating,
  nextStep,
  queuedBehind,
  runNumberAfter,
  starting,
  type JobFacts,
} from '../data-job/next-step.ts'
import {
  apiKeyBlocker,
  bucketBlocker,
  clusterBlocker,
  mixedVersionsBlocker,
  copyBlocker,
  endpointBlocker,
  selectBlocker,
  type Blocker,
} from '../data-job/preconditions.ts'
import { warningEvent } from '../events.ts'
import { isHolder } from '../lease.ts'
import { claim, leaseReleases } from '../lease-claim.ts'
import { jobNameField, allObserved } from '../request.ts'
import type { Context, Desired } from '../protocol.ts'
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
  neededByRestoreEvents,
  neededByRestoreStatus,
  unexpiredStatus,
} from './status.ts'

export function sync(observed: Observed, context: Context): Decision {
  // A finished backup outlives its cluster. Its Job is retained for its log and never recreated.
  if (isFinished(observed.backup)) return afterEnd(observed, context)
  const facts = jobFacts(observed, context)
  const step = nextStep(observed, facts, context)
  switch (step.is) {
    case 'finished':
      return finished(observed, step.outcome, facts, context)
    case 'running':
    case 'blocked':
      return unfinished(observed, step.answer, context)
    case 'ready':
      return unfinished(observed, start(observed, facts, context), context)
  }
}

export function leaseHolder({ metadata: { namespace, name, uid } }: VecBackup): LeaseHolder {
  return { kind: 'VecBackup', namespace, name, uid }
}

function jobFacts(observed: Observed, { settings }: Context): JobFacts {
  const { backup, cluster, statefulSet, leases } = observed
  const holder = leaseHolder(backup)
  return {
    blocker: firstBlocker(observed, settings),
    starting: { reason: 'BackupStarting' },
    hasStarted: backup.status?.startTime !== undefined,
    desiredHash: cluster && desiredPlan(backup, cluster, statefulSet).hash,
    lostLease: leases !== undefined && !isHolder(leases.backup.lease, holder),
    copiedCredentials: copiedCredentials(backup),
    copySources: copySources(observed, settings),
    rbac: backupRbac(backup),
    leaseReleases: leases === undefined ? [] : leaseReleases([leases.backup], holder),
  }
}

/** The blocker to report (selectBlocker); undefined if no precondition blocks the Job. */
export function firstBlocker(
  { backup, cluster, secrets, account }: Observed,
  settings: CrossNamespace,
): Blocker | undefined {
  const { namespace: from } = backup.metadata
  const { name, namespace = from } = backup.spec.clusterRef
  const access = { secret: secrets.bucket, account, ca: secrets.bucketCa }
  return selectBlocker([
    copyBlocker(backup),
    clusterBlocker({ namespace, name }, cluster, { from, settings }),
    mixedVersionsBlocker(cluster),
    endpointBlocker('spec.storage.s3.endpoint', backup.spec.storage.s3.endpoint),
    bucketBlocker('spec.storage.s3', backup.spec.storage.s3, from, access),
    cluster && apiKeyBlocker(cluster, secrets.engine),
  ])
}

/** RBAC first, then the Lease, then the Job. Each step is observed before the next. */
function start(observed: Observed, facts: JobFacts, { now, settings }: Context): Unfinished {
  const { backup, cluster, statefulSet, leases, progress, helmJobs = [] } = observed
  const rbac = backupRbac(backup)
  // A Job must not start before it has permission to report.
  if (cluster === undefined || leases === undefined || !allObserved(rbac, observed.children)) {
    return starting(facts, 'creating ServiceAccount, Role and RoleBinding for the Job', rbac)
  }
  const claimResult = claim([leases.backup], leaseHolder(backup), {
    cluster,
    now,
    // Of a restore or of work on shards: it must be free, and is not taken.
    free: [leases.write],
  })
  if (claimResult.state === 'waiting') return queuedBehind(claimResult)
  if (claimResult.state === 'taking') {
    const { writes } = claimResult
    return { ...starting(facts, 'acquiring the Lease of the cluster'), leases: writes }
  }
  // A helm Job of an earlier release, or of the first install, holds no Lease.
  const [helmJob] = helmJobs
  if (helmJob !== undefined) return busyWith(helmJob, facts.leaseReleases)
  const plan = { ...desiredPlan(backup, cluster, statefulSet), run: runNumberAfter(progress) }
  const job = backupJob(observed, cluster, plan, settings)
  const started = creating(facts, backup, job)
  return { ...started, leases: claimResult.writes }
}

function unfinished(observed: Observed, answer: Unfinished, context: Context): Decision {
  const status = {
    ...activeStatus(observed, answer.conditionReason, context),
    ...jobNameField(observed),
  }
  const events = backupEvents(observed.backup, status, context.now)
  return { status, events, ...whileUnfinished(observed, answer) }
}

function finished(
  observed: Observed,
  outcome: Outcome,
  facts: JobFacts,
  context: Context,
): Decision {
  const status = { ...finishedStatus(observed, outcome), ...jobNameField(observed) }
  const events = backupEvents(observed.backup, status, context.now)
  return { status, events, ...whenFinished(observed, facts) }
}

const CLOCK_AHEAD = {
  reason: 'ClockAhead',
  message:
    'spec.retentionDays have passed by the clock of the operator, but not by that of the API server; nothing is deleted: correct the clock of the node that the operator runs on',
}

/** Its status has the outcome: what remains is the Job history and the expiry. */
function afterEnd(observed: Observed, context: Context): Decision {
  const { backup } = observed
  const { expiresAt } = backup.status ?? {}
  const report = compactReport(observed.progress)
  const remaining = {
    ...afterFinished(observed, 'the backup has ended', context),
    ...(report !== undefined && { report }),
  }
  const status = {
    ...compactStatus(backup, finalStatus(backup), context.now),
    ...jobNameField(observed),
  }
  if (expiresAt === undefined) return { status, ...remaining }
  const unexpired = {
    status: unexpiredStatus(status),
    ...remaining,
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
  }
  if (secondsSince(expiresAt, context.now) < 0) return unexpired
  const { apiTime = context.now } = observed
  if (secondsSince(expiresAt, apiTime) < 0) {
    return { ...unexpired, events: [warningEvent(backup, CLOCK_AHEAD, context.now)] }
  }
  if (observed.restores !== undefined) {
    const needed = { restores: observed.restores, now: context.now }
    return {
      status: neededByRestoreStatus(backup, status, needed),
      ...remaining,
      events: neededByRestoreEvents(backup, needed),
      resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    }
  }
  // Deletion must distinguish this from a user's deletion, so the condition is recorded before the
  // backup deletes itself.
  if (!isExpired(backup)) {
    return {
      status: { ...expiredStatus(backup, context.now), ...jobNameField(observed) },
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
  /** A purge Job starts, which needs no Lease: it must not block other work on the cluster. */
  startsPurge?: true
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
