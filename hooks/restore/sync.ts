/** The desired state of a VecRestore: its Job, what blocks it, and when it starts. */
import { LEASE_RECHECK_SECONDS } from '../../crds/contract/limits.ts'
import type { LeaseHolder } from '../../crds/kubernetes.ts'
import {
  bucketField,
  bucketNamespace,
  restoreBackupRef,
  restoreSource,
  restoreTarget,
  type RestoreStatus,
  type VecRestore,
} from '../../crds/restore.ts'
import { backupAccessBlocker, type CrossNamespace } from '../cross-namespace.ts'
import {
  afterFinished,
  whenFinished,
  whileUnfinished,
  type DataJobDecision,
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
import { isHolder, secondsSinceAcquired, type ObservedLease } from '../lease.ts'
import { claim, leaseReleases } from '../lease-claim.ts'
import { jobNameField, allObserved } from '../request.ts'
import type { Context } from '../protocol.ts'
import { desiredPlan, restoreJob, restoreRbac } from './job.ts'
import { copiedCredentials, copySources, type Observed } from './observe.ts'
import { activeStatus, finishedStatus, restoreEvents } from './status.ts'

export type Decision = DataJobDecision<RestoreStatus>

export function sync(observed: Observed, context: Context): Decision {
  const { restore } = observed
  // A finished restore outlives its cluster. Its Job is retained for its log and never recreated.
  if (isFinished(restore)) {
    const retained = afterFinished(observed, 'the restore has ended', context)
    const { jobName: _, ...status } = restore.status ?? {}
    return { status: { ...status, ...jobNameField(observed) }, ...retained }
  }
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

export function leaseHolder({ metadata: { namespace, name, uid } }: VecRestore): LeaseHolder {
  return { kind: 'VecRestore', namespace, name, uid }
}

function jobFacts(observed: Observed, { settings }: Context): JobFacts {
  const { restore, cluster, backup, leases } = observed
  const source = restoreSource(restore, backup)
  const holder = leaseHolder(restore)
  const ownLeases = leases === undefined ? [] : inAcquireOrder(leases)
  return {
    blocker: firstBlocker(observed, settings),
    starting: { reason: 'RestoreStarting' },
    hasStarted: restore.status?.startTime !== undefined,
    desiredHash: cluster && desiredPlan(restore, cluster, observed)?.hash,
    lostLease: !ownLeases.every(({ lease }) => isHolder(lease, holder)),
    copiedCredentials: copiedCredentials(observed),
    copySources: copySources(observed, settings),
    // They depend on the ServiceAccount that the backup names.
    rbac: source === undefined ? [] : restoreRbac(restore, source.serviceAccountName),
    leaseReleases: leaseReleases(ownLeases, holder),
  }
}

/** The first blocker; undefined if the Job may be created. */
export function firstBlocker(observed: Observed, settings: CrossNamespace): Blocker | undefined {
  const { restore, backup, cluster, secrets, account } = observed
  const source = restoreSource(restore, backup)
  const from = restore.metadata.namespace
  const access = { secret: secrets.bucket, account, ca: secrets.bucketCa }
  const foreignAccount = foreignAccountBlocker(observed)
  return selectBlocker([
    copyBlocker(restore),
    backupBlocker(observed),
    clusterBlocker(restoreTarget(restore), cluster, { from, settings }),
    // Its Job checks each node that a single shard is for.
    restore.spec.shards === undefined ? mixedVersionsBlocker(cluster) : undefined,
    endpointBlocker('spec.source.s3.endpoint', restore.spec.source?.s3.endpoint),
    // What was read is the account of that name in the namespace of the restore.
    foreignAccount ??
      (source && bucketBlocker(bucketField(restore), source, bucketNamespace(restore), access)),
    cluster && apiKeyBlocker(cluster, secrets.engine),
  ])
}

/** A pod cannot run under the ServiceAccount of another namespace. */
function foreignAccountBlocker({ restore, backup }: Observed): Blocker | undefined {
  const ref = restoreBackupRef(restore)
  const name = backup?.spec.storage.s3.serviceAccountName
  const { namespace } = restore.metadata
  if (ref === undefined || name === undefined || ref.namespace === namespace) return undefined
  return {
    reason: 'ServiceAccountOfOtherNamespace',
    message: `backup ${ref.namespace}/${ref.name} uses the ServiceAccount ${name} of its namespace, which a Job in namespace ${namespace} cannot use: name the bucket in spec.source.s3 of a new VecRestore, with a ServiceAccount or a Secret of namespace ${namespace}`,
    terminal: true,
    showMessage: true,
  }
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

/** RBAC first, then the Leases, then the Job. Each step is observed before the next. */
function start(observed: Observed, facts: JobFacts, { now, settings }: Context): Unfinished {
  const { restore, cluster, leases, conflictingWork = [], progress } = observed
  const desired = cluster && desiredPlan(restore, cluster, observed)
  const rbac = restoreRbac(restore, desired?.source.serviceAccountName)
  const isRead = cluster !== undefined && leases !== undefined && desired !== undefined
  // A Job must not start before it has permission to report.
  if (!isRead || !allObserved(rbac, observed.children)) {
    return starting(facts, 'creating ServiceAccount, Role and RoleBinding for the Job', rbac)
  }
  const [other] = conflictingWork
  if (other !== undefined) return busyWith(other, facts.leaseReleases)
  const claimResult = claim(inAcquireOrder(leases), leaseHolder(restore), { cluster, now })
  if (claimResult.state === 'waiting') return queuedBehind(claimResult)
  if (claimResult.state === 'taking') {
    const { writes } = claimResult
    return { ...starting(facts, 'acquiring the Leases of the cluster'), leases: writes }
  }
  // Work that checked the Leases just before they were acquired is visible by then.
  const remainingSeconds = LEASE_RECHECK_SECONDS - secondsSinceAcquired(inAcquireOrder(leases), now)
  if (remainingSeconds > 0) {
    const message =
      'the Leases of the cluster are acquired; checking once more for other work on it'
    return { ...starting(facts, message), resyncAfterSeconds: Math.ceil(remainingSeconds) }
  }
  const plan = { ...desired, run: runNumberAfter(progress) }
  const job = restoreJob(observed, cluster, plan, settings)
  const started = creating(facts, restore, job)
  return { ...started, leases: claimResult.writes }
}

function unfinished(observed: Observed, answer: Unfinished, context: Context): Decision {
  const status = {
    ...activeStatus(observed, answer.conditionReason, context),
    ...jobNameField(observed),
  }
  const events = restoreEvents(observed, status, context.now)
  return { status, events, ...whileUnfinished(observed, answer) }
}

function finished(
  observed: Observed,
  outcome: Outcome,
  facts: JobFacts,
  context: Context,
): Decision {
  const status = { ...finishedStatus(observed, outcome), ...jobNameField(observed) }
  const events = restoreEvents(observed, status, context.now)
  return { status, events, ...whenFinished(observed, facts) }
}

/**
 * In the order of acquisition: all compete for the first one, so two claimants never hold one each.
 */
function inAcquireOrder({ write, backup }: NonNullable<Observed['leases']>): ObservedLease[] {
  return [backup, write]
}
