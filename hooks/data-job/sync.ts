/**
 * Sync of an unfinished VecBackup, VecRestore or VecMigration: the state of its Job, what blocks
 * one, and the steps that start it. Also the decisions that the kinds return, while the work is in
 * progress and on the sync that records the outcome.
 */
import {
  EXPIRY_CHECK_SECONDS,
  JOB_CACHE_TIMEOUT_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { Job, KubernetesEvent } from '../../crds/kubernetes.ts'
import { secondsSince } from '../conditions.ts'
import { isSigned } from '../job-signature.ts'
import { childrenAfter, jobsToDelete, unchanged } from '../job.ts'
import { formatHolderName, type Claim, type LeaseWrite } from '../lease.ts'
import type { Child, Context, Settings } from '../protocol.ts'
import type { DataJobDecision } from './apply.ts'
import { activeJob, hasReported, restartReason, silenceReason, watchJob } from './job-watch.ts'
import type { ObservedDataJob } from './observe.ts'
import { outcomeOf, type Outcome } from './outcome.ts'
import type { Blocker } from './preconditions.ts'
import { secretCopiesToWrite, secretCopyRefs, type CopySource } from './secret-copies.ts'
import type { CompleteReason } from './status.ts'

export interface DataJobKind<Observed, Status> extends StatusBuilder<Observed, Status> {
  /** The first blocker; undefined if a Job may be created. */
  firstBlocker(observed: Observed, settings: Settings): Blocker | undefined
  /** Sources of the credential copies: only those that this namespace is allowed to use. */
  copySources(observed: Observed, settings: Settings): CopySource[]
  /** Hash of the current plan, if one can be computed. */
  desiredPlanHash(observed: Observed): string | undefined
  /** Whether its status shows that a Job has reported. */
  hasStarted(observed: Observed): boolean
  /** Whether one of its Leases that were read has another holder by now. */
  lostLease(observed: Observed): boolean
  /** Called when nothing blocks it: each step is observed before the next. */
  start(syncContext: SyncContext<Observed, Status>): DataJobDecision<Status>
}

export function syncDataJob<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status> & { kind: DataJobKind<Observed, Status> },
): DataJobDecision<Status> {
  const { kind, observed, context } = syncContext
  const outcome = outcomeOf(observed, context)
  // A finished Job without a reported outcome: its last report may still be in transit.
  if (outcome === 'unknown')
    return inProgress(syncContext, { resyncAfterSeconds: REQUEUE_SOON_SECONDS })
  if (outcome !== undefined) return finished(syncContext, outcome)

  // A running Job is not affected by what changed after it started.
  const running = activeJob(observed)
  if (running !== undefined) return withRunningJob(syncContext, running)

  // Metacontroller's cache does not have the Job yet. Its Leases must not be released.
  const [hiddenJob] = observed.liveJobs ?? []
  if (hiddenJob !== undefined) return withHiddenJob(syncContext, hiddenJob)
  const blocker = kind.firstBlocker(observed, context.settings)
  if (blocker?.terminal === true) return rejected(syncContext, blocker)
  if (blocker !== undefined) return blocked(syncContext, blocker)
  return kind.start(syncContext)
}

/** A Job that Metacontroller has not sent for a long time has lost the label that selects it. */
function withHiddenJob<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  { metadata: { namespace = '', name, creationTimestamp = '', labels } }: Job,
): DataJobDecision<Status> {
  if (!(secondsSince(creationTimestamp, syncContext.context.now) >= JOB_CACHE_TIMEOUT_SECONDS)) {
    return requeueSoon(syncContext, 'the Job was just made')
  }
  const uid = labels?.[LABELS.parent] ?? ''
  const message = `Metacontroller does not show Job ${name}: it lost its label controller-uid. Set it again (kubectl label job ${name} -n ${namespace} controller-uid=${uid}), or delete the Job`
  return inProgress(syncContext, {
    conditionReason: startingReason(syncContext, message),
    resyncAfterSeconds: RETRY_SECONDS,
  })
}

function withRunningJob<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status> & { kind: DataJobKind<Observed, Status> },
  job: Job,
): DataJobDecision<Status> {
  const { kind, observed, context } = syncContext
  const { settings } = context
  const blocker = kind.firstBlocker(observed, settings)
  if (blocker?.reason === 'RefNotPermitted') return accessRevoked(syncContext, job, blocker)
  const { sideEffects, ...update } = watchJob(
    job,
    {
      // If a user removed its report, it writes another one within a minute.
      isReporting:
        hasReported(observed, job) ||
        (observed.progress === undefined && kind.hasStarted(observed)),
      silence: silenceReason(job, observed.progress, context),
      writeCopies: isSigned(job, settings.jobKeys)
        ? secretCopiesToWrite(
            kind.copySources(observed, settings),
            observed.secretCopies ?? {},
            job,
          )
        : [],
      stuckReason: () => {
        const desiredHash = kind.desiredPlanHash(observed)
        return restartReason(job, { desiredHash, lostLease: kind.lostLease(observed) }, context)
      },
    },
    (message) => startingReason(syncContext, message),
  )
  return { ...inProgress(syncContext, update), ...sideEffects }
}

/**
 * The permission was revoked while the Job runs: the Job is stopped and loses its credentials. The
 * resource is then Pending until the permission is restored, and another Job continues.
 */
function accessRevoked<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status> & { kind: DataJobKind<Observed, Status> },
  job: Job,
  blocker: Blocker,
): DataJobDecision<Status> {
  return {
    ...inProgress(syncContext, {
      conditionReason: blocker,
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    }),
    deleteJobs: jobsToDelete([job]),
    deleteCopies: secretCopyRefs(syncContext.kind.copiedCredentials(syncContext.observed), job),
  }
}

/** How the decisions of the kinds differ. */
export interface StatusBuilder<Observed, Status> {
  activeStatus(
    observed: Observed,
    conditionReason: CompleteReason | undefined,
    context: Context,
  ): Status
  finishedStatus(observed: Observed, outcome: Outcome, context: Context): Status
  eventsOf(observed: Observed, status: Status, now: Date): KubernetesEvent[]
  /** While its Job is starting. */
  startingReason: Pick<CompleteReason, 'reason'>
  /** Credentials of which its Jobs may have copies. */
  copiedCredentials(observed: Observed): readonly string[]
  /** Releases the Leases that it holds: a resource without a Job must not block others. */
  leaseReleases(observed: Observed): LeaseWrite[]
}

/** Input of one sync of a resource. */
export interface SyncContext<Observed, Status> {
  kind: StatusBuilder<Observed, Status>
  observed: Observed
  context: Context
}

/** What a decision for an unfinished resource adds to its status. */
export interface InProgress {
  conditionReason?: CompleteReason | undefined
  /** Seconds until the next sync. */
  resyncAfterSeconds: number
  /** Children in addition to the observed ones. */
  created?: Child[]
}

/** Unfinished: every observed child stays. */
export function inProgress<Observed extends ObservedDataJob, Status>(
  { kind, observed, context }: SyncContext<Observed, Status>,
  { conditionReason, resyncAfterSeconds, created = [] }: InProgress,
): DataJobDecision<Status> {
  const status = kind.activeStatus(observed, conditionReason, context)
  return {
    status,
    events: kind.eventsOf(observed, status, context.now),
    children: childrenAfter(observed.children, { created }),
    resyncAfterSeconds,
  }
}

/** A step towards its Job was taken: the next sync observes it. */
export function requeueSoon<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  message: string,
  created: Child[] = [],
): DataJobDecision<Status> {
  return inProgress(syncContext, {
    conditionReason: startingReason(syncContext, message),
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    created,
  })
}

export function startingReason(
  { kind }: { kind: Pick<StatusBuilder<never, unknown>, 'startingReason'> },
  message: string,
): CompleteReason {
  return { ...kind.startingReason, message }
}

/** A blocker must be resolved first. */
export function blocked<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  conditionReason?: CompleteReason,
): DataJobDecision<Status> {
  return {
    ...inProgress(syncContext, { conditionReason, resyncAfterSeconds: RETRY_SECONDS }),
    ...releasedLeases(syncContext),
  }
}

/** Another resource is working on the same cluster. */
export function blockedBy<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  other: string,
): DataJobDecision<Status> {
  return blocked(syncContext, { reason: 'ClusterBusy', message: `waits for ${other}` })
}

/**
 * Another resource holds the Lease or is ahead in the queue; this one enters the queue if possible.
 */
export function queuedBehind<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  { holder, writes }: Extract<Claim, { state: 'waiting' }>,
): DataJobDecision<Status> {
  const { leases: _, ...decision } = blockedBy(syncContext, formatHolderName(holder))
  return writes.length > 0 ? { ...decision, leases: writes } : decision
}

/**
 * Finished: every child stays until the outcome is recorded; the Jobs' credentials and the Leases
 * do not.
 */
export function finished<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  outcome: Outcome,
): DataJobDecision<Status> {
  const { kind, observed, context } = syncContext
  const status = kind.finishedStatus(observed, outcome, context)
  const copiedCredentials = kind.copiedCredentials(observed)
  const deleteCopies = observed.jobs.flatMap((job) => secretCopyRefs(copiedCredentials, job))
  return {
    status,
    events: kind.eventsOf(observed, status, context.now),
    children: observed.children.map(unchanged),
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    deleteCopies,
    ...releasedLeases(syncContext),
  }
}

/** A terminal blocker: the request can never be fulfilled. */
export function rejected<Observed extends ObservedDataJob, Status>(
  syncContext: SyncContext<Observed, Status>,
  { message, showMessage }: Blocker,
): DataJobDecision<Status> {
  const at = syncContext.context.now.toISOString()
  return finished(syncContext, {
    phase: 'Failed',
    at,
    error: message,
    ...(showMessage === true && { message }),
  })
}

function releasedLeases<Observed, Status>({ kind, observed }: SyncContext<Observed, Status>) {
  const leases = kind.leaseReleases(observed)
  return leases.length > 0 ? { leases } : {}
}
