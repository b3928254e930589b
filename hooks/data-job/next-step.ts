/**
 * The next step of an unfinished VecBackup, VecRestore or VecMigration: the outcome of its Job, the
 * Job that it has, what blocks a Job, or the creation of one. Each runs one Job at a time, which is
 * recreated while it has not reported.
 */
import {
  JOB_CACHE_TIMEOUT_SECONDS,
  READINESS_CHECK_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
} from '../../crds/contract/limits.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { Progress } from '../../crds/contract/job.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { secondsSince } from '../conditions.ts'
import {
  creationMessage,
  mayReport,
  notCreatedReason,
  hasReported,
  restartReason,
  silenceReason,
  notStartedReason,
  suspendedReason,
} from '../job-watch.ts'
import { isUnfinished, isSigned, jobsToDelete, missingObjects } from '../request.ts'
import { formatHolderName, type LeaseWrite } from '../lease.ts'
import type { Claim } from '../lease-claim.ts'
import type { Child, Context } from '../protocol.ts'
import type { Unfinished } from './decision.ts'
import { type ObservedDataJob, outcomeOf, type Outcome } from './observe.ts'
import { isMissingPermission, type Blocker } from './preconditions.ts'
import { secretCopiesToWrite, secretCopyRefs, type CopySource } from './secret-copies.ts'

export type Step = Finished | Running | Blocked | Ready

/** The outcome is known, from a report or from the Job; or no Job can ever fulfill the request. */
export interface Finished {
  is: 'finished'
  outcome: Outcome
}

/** A Job exists, or has ended and its report may still arrive. */
export interface Running {
  is: 'running'
  answer: Unfinished
}

/** A user or another resource must act before a Job is created. */
export interface Blocked {
  is: 'blocked'
  answer: Unfinished
}

/** No precondition blocks a Job; a Lease or a helm Job may. */
export interface Ready {
  is: 'ready'
}

/** The Job of a resource, as its kind knows it. */
export interface JobFacts {
  /** The blocker to report (selectBlocker); undefined if no precondition blocks a Job. */
  blocker: Blocker | undefined
  /** Reason of the condition while its Job is starting. */
  starting: Pick<ConditionReason, 'reason'>
  /** Its status shows that a Job has reported. */
  hasStarted: boolean
  /** Hash of the current plan, if one can be computed. */
  desiredHash: string | undefined
  /** One of its Leases that were read does not name it. */
  lostLease: boolean
  /** Credentials of which its Jobs may have copies. */
  copiedCredentials: readonly string[]
  /** Sources of these copies: only those that this namespace is allowed to use. */
  copySources: readonly CopySource[]
  /** RBAC objects of its Job; empty if they are unknown by now. */
  rbac: readonly Child[]
  /** Releases the Leases that it holds: a resource without a Job must not block others. */
  leaseReleases: LeaseWrite[]
}

export function nextStep(observed: ObservedDataJob, facts: JobFacts, context: Context): Step {
  const outcome = outcomeOf(observed, context)
  // A finished Job without a reported outcome: its last report may still be in transit.
  if (outcome === 'unknown') return running({ resyncAfterSeconds: REQUEUE_SOON_SECONDS })
  if (outcome !== undefined) return { is: 'finished', outcome }

  const { blocker } = facts
  const revocation = blocker !== undefined && isMissingPermission(blocker) ? blocker : undefined
  const job = observed.jobs.find(isUnfinished)
  if (job !== undefined) {
    // A running Job is not affected by what changed after it started, except by its permission.
    return running(
      revocation !== undefined
        ? accessRevoked(job, revocation, facts)
        : watchJob(job, observed, facts, context),
    )
  }
  // Metacontroller's cache does not have the Job yet, or no longer. Its Leases must not be released.
  const { liveJobs = [] } = observed
  const runningJob = liveJobs.find(isUnfinished)
  if (runningJob !== undefined && revocation !== undefined) {
    return running(accessRevoked(runningJob, revocation, facts))
  }
  const [hiddenJob] = liveJobs
  if (hiddenJob !== undefined) return running(watchHiddenJob(hiddenJob, facts, context))

  if (blocker === undefined) return { is: 'ready' }
  if (blocker.terminal === true) return rejected(blocker, context)
  return { is: 'blocked', answer: waiting(blocker, facts.leaseReleases) }
}

/** A step towards its Job is taken: the next sync observes it. */
export function starting(
  facts: Pick<JobFacts, 'starting'>,
  message: string,
  created: Child[] = [],
): Unfinished {
  return {
    conditionReason: { ...facts.starting, message },
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    created,
  }
}

/** The Job is created; the next sync observes it, unless the API server refuses it. */
export function creating(
  facts: Pick<JobFacts, 'starting'>,
  owner: Parameters<typeof notCreatedReason>[0],
  job: Child,
): Unfinished {
  const problem = notCreatedReason(owner, 'Complete', job)
  const answer = starting(facts, creationMessage(job), [job])
  return problem === undefined ? answer : { ...answer, conditionReason: problem }
}

/** Another resource works on the same cluster. */
export function busyWith(other: string, leases: LeaseWrite[]): Unfinished {
  return waiting({ reason: 'ClusterBusy', message: `waiting for ${other}` }, leases)
}

/**
 * Another resource holds the Lease or is ahead in the queue; this one enters the queue if possible.
 */
export function queuedBehind({ holder, writes }: Extract<Claim, { state: 'waiting' }>): Unfinished {
  return busyWith(formatHolderName(holder), writes)
}

/** Number of the next Job, which is created only if there is none. */
export function runNumberAfter(progress: Progress | undefined): number {
  return 1 + (progress?.run ?? 0)
}

function running(answer: Unfinished): Running {
  return { is: 'running', answer }
}

function waiting(conditionReason: ConditionReason, leases: LeaseWrite[]): Unfinished {
  return {
    conditionReason,
    resyncAfterSeconds: RETRY_SECONDS,
    ...(leases.length > 0 && { leases }),
  }
}

/**
 * A Job that has reported continues, unless it is suspended and silent. One that has not is deleted once it is stuck: the
 * next sync that finds no Job creates another.
 */
function watchJob(
  job: Job,
  observed: ObservedDataJob,
  facts: JobFacts,
  context: Context,
): Unfinished {
  const { progress, secretCopies = {} } = observed
  const copies = isSigned(job, context.settings.jobKeys)
    ? secretCopiesToWrite(facts.copySources, secretCopies, job)
    : []
  const writeCopies = copies.length > 0 ? { writeCopies: copies } : {}
  const missingRbac = missingObjects(facts.rbac, observed.children)
  const created = missingRbac.length > 0 ? { created: missingRbac } : {}
  const silence = silenceReason(job, progress, context)
  const isReporting = hasReported(observed, job) || mayReport(observed, job, facts)
  // It would hold its Lease forever.
  const suspended = suspendedReason(job, progress, context)
  if (isReporting && suspended === undefined) {
    return {
      ...(silence !== undefined && { conditionReason: silence }),
      resyncAfterSeconds: READINESS_CHECK_SECONDS,
      ...writeCopies,
      ...created,
    }
  }
  const stuckReason = suspended ?? restartReason(job, facts, context)
  if (stuckReason !== undefined) return recreateJob(job, stuckReason)
  const { name, deletionTimestamp } = job.metadata
  const problem = notStartedReason(job, context)
  const message =
    deletionTimestamp === undefined ? `Job ${name} is starting` : `waiting for Job ${name} to stop`
  return {
    ...starting(facts, message, missingRbac),
    ...(problem !== undefined && { conditionReason: problem }),
    resyncAfterSeconds: copies.length > 0 ? REQUEUE_SOON_SECONDS : RETRY_SECONDS,
    ...writeCopies,
  }
}

function recreateJob({ metadata }: Job, stuckReason: string): Unfinished {
  const { namespace = '', name, uid = '' } = metadata
  return {
    conditionReason: {
      reason: 'JobNotStarted',
      message: `Job ${name} ${stuckReason}; recreating it`,
    },
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    deleteJobs: [{ namespace, name, uid }],
  }
}

/**
 * The permission was revoked while the Job runs: the Job is stopped and loses its credentials. The resource has this
 * blocker as its reason, and another Job starts once the permission is restored.
 */
function accessRevoked(job: Job, blocker: Blocker, { copiedCredentials }: JobFacts): Unfinished {
  return {
    conditionReason: blocker,
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    deleteJobs: jobsToDelete([job]),
    deleteCopies: secretCopyRefs(copiedCredentials, job),
  }
}

/** A Job that Metacontroller has not sent for a long time has lost the label that selects it. */
function watchHiddenJob({ metadata }: Job, facts: JobFacts, { now }: Context): Unfinished {
  const { namespace = '', name, creationTimestamp = '', labels } = metadata
  if (!(secondsSince(creationTimestamp, now) >= JOB_CACHE_TIMEOUT_SECONDS)) {
    return starting(facts, 'the Job was just created')
  }
  const uid = labels?.[LABELS.parent] ?? ''
  const message = `Metacontroller does not list Job ${name} because it lost its label controller-uid; set the label (kubectl label job ${name} -n ${namespace} controller-uid=${uid}) or delete the Job`
  return { ...starting(facts, message), resyncAfterSeconds: RETRY_SECONDS }
}

/** A terminal blocker: the request can never be fulfilled. */
function rejected({ message, showMessage }: Blocker, { now }: Context): Finished {
  return {
    is: 'finished',
    outcome: {
      phase: 'Failed',
      at: now.toISOString(),
      error: message,
      ...(showMessage === true && { message }),
    },
  }
}
