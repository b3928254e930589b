/** What a VecCluster should have: which Job, and when (specification: states and transitions). */
import { Rejected } from '../../crds/errors.ts'
import type { AnyObject, Job } from '../../crds/kubernetes.ts'
import {
  FIRST_READINESS_CHECK_SECONDS,
  READINESS_CHECK_SECONDS,
  REFUSAL_SECONDS,
  RETRY_SECONDS,
  SOON_SECONDS,
} from '../../crds/limits.ts'
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import type { Holder } from '../../crds/rules/holder.ts'
import { conditionOf, secondsSince } from '../conditions.ts'
import { outlived } from '../history.ts'
import { isUnfinished, newestOf, nextRun, runOf, staying } from '../job.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { called, claim, givenBack, holderOf, type Claim, type LeaseWrite } from '../lease.ts'
import { areObserved, isHelmBinding } from '../rights.ts'
import { hasReported, silenceOf, whyStuck } from '../transfer.ts'
import { clusterRights, upgradeJob } from './children.ts'
import { eventsOf } from './events.ts'
import { failureOf, formerFailure } from './failure.ts'
import { obstacleOf } from './obstacles.ts'
import type { Observed } from './observed.ts'
import { wantedRun } from './plan.ts'
import type { Wanted } from './observed.ts'
import { slotSeconds, slotsMessage } from './slots.ts'
import { secretProblem, usedSecrets } from './secrets.ts'
import { clusterStatus, isJustApplied, type Shortfall } from './status.ts'

/** A decision: what goes on the wire, and the Leases to write besides it. */
export interface Decision extends Desired<ClusterStatus> {
  leases?: LeaseWrite[]
}

export function sync(observed: Observed, context: Context): Decision {
  const { jobs, due } = observed

  // What changed since this Job started is not this Job's business.
  const running = jobs.find(isUnfinished)
  if (running !== undefined) return whileRunning(observed, running, context)

  const failure = failureOf(observed, context)
  // A Job that ended and has not told how: its last report may still be on its way.
  if (failure === 'unknown') return answer(observed, context, { again: SOON_SECONDS })
  if (due === undefined) return settled(observed, context)

  const obstacle = obstacleOf(observed.cluster, observed.statefulSet)
  if (obstacle !== undefined) {
    return withoutLease(observed, blocked(observed, context, 'SpecRefused', obstacle))
  }
  const problem = secretProblem(usedSecrets(observed.cluster.spec), observed.secrets)
  if (problem !== undefined) {
    return withoutLease(observed, blocked(observed, context, 'SecretNotUsable', problem))
  }

  // The same plan is tried again after a pause; another plan, at once.
  if (failure?.plan === due.hash) {
    const pause = failure.refused ? REFUSAL_SECONDS : RETRY_SECONDS
    const left = pause - secondsSince(failure.at, context.now)
    if (left > 0) {
      const again = failure.refused ? READINESS_CHECK_SECONDS : left
      return answer(observed, context, { shortfall: failure, again: Math.max(again, 1) })
    }
  }
  return start(observed, context, due, failure)
}

/** Creates the next Job once its rights are there, there is a slot for it, and it holds the Lease. */
function start(
  observed: Observed,
  context: Context,
  wanted: Wanted,
  failure: Shortfall | undefined,
): Decision {
  const { cluster, liveJobs = [], unfinishedHelmJobs = 0, progress } = observed
  const rights = clusterRights(cluster)
  const waiting = (reason: string, message: string, more: Child[] = []) =>
    answer(observed, context, {
      shortfall: failure ?? formerFailure(cluster) ?? { reason, message },
      again: SOON_SECONDS,
      more,
    })

  const justMade = liveJobs.find(isUnfinished)
  if (justMade !== undefined) return waiting('HelmRunning', underWay(runOf(justMade)))
  if (!areObserved(rights, observed.children)) {
    // A Job must not start before it may report.
    return waiting('HelmStarting', 'the rights of the helm Job are being made', rights)
  }
  if (unfinishedHelmJobs >= context.settings.maxHelmJobs) {
    return withoutLease(observed, {
      ...waiting('WaitingForTurn', slotsMessage(context.settings)),
      resyncAfterSeconds: slotSeconds(cluster),
    })
  }
  const run = nextRun([...observed.jobs, ...liveJobs], progress?.run)
  const claimed = claimOf(observed, run, context)
  if (claimed.state === 'waiting') {
    const shortfall = { reason: 'WaitingForTurn', message: `waits for ${called(claimed.holder)}` }
    return {
      ...answer(observed, context, { shortfall, again: RETRY_SECONDS }),
      leases: claimed.writes,
    }
  }
  if (claimed.state === 'taking') {
    const taking = waiting('HelmStarting', 'the Lease of the cluster is being taken')
    return { ...taking, leases: claimed.writes }
  }
  try {
    const plan = { ...wanted, run }
    const job = upgradeJob(cluster, plan, rights, context.settings)
    return waiting('HelmRunning', underWay(run), [job])
  } catch (error) {
    if (error instanceof Rejected) return blocked(observed, context, 'SpecRefused', error.message)
    throw error
  }
}

/**
 * A helm run rolls pods: under a backup it would record copies that are not whole, and under a restore a
 * larger factor would make the engine repair halfway. There is nothing to protect before the first install.
 */
function claimOf(observed: Observed, run: number, { now }: Context): Claim {
  const { cluster, leases } = observed
  if (leases === undefined || isFirstInstall(observed)) return { state: 'held' }
  return claim([leases.backup], asHolder(cluster), { cluster, now, run, free: [leases.write] })
}

function isFirstInstall({ cluster, statefulSet, progress }: Observed): boolean {
  return (
    statefulSet === undefined &&
    progress?.applied === undefined &&
    cluster.status?.helmRelease === undefined
  )
}

export function asHolder({ metadata: { namespace, name, uid } }: VecCluster): Holder {
  return { kind: 'VecCluster', namespace, name, uid }
}

/** Who starts no Job now holds nobody up. */
function withoutLease({ cluster, leases }: Observed, desired: Desired<ClusterStatus>): Decision {
  const writes = leases === undefined ? [] : givenBack([leases.backup], asHolder(cluster))
  return writes.length === 0 ? desired : { ...desired, leases: writes }
}

/** It appeared after its hold was over, and another holder may be at work. */
function missedTurn(observed: Observed, { now }: Context): boolean {
  const { cluster, leases } = observed
  if (leases === undefined || isFirstInstall(observed)) return false
  return [leases.write, leases.backup].some((lease) => {
    const holder = holderOf(lease, now)
    return holder !== undefined && holder.uid !== cluster.metadata.uid
  })
}

function whileRunning(observed: Observed, job: Job, context: Context): Decision {
  const { cluster, progress } = observed
  const { namespace = '', name, uid = '' } = job.metadata
  const reported = hasReported(observed, job)
  const stuck = reported
    ? undefined
    : whyStuck(
        job,
        {
          wanted: wantedRun(observed, context.settings).hash,
          missedTurn: missedTurn(observed, context),
        },
        context,
      )
  if (stuck !== undefined) {
    const message = `Job ${name} ${stuck}: it is made again`
    return {
      ...answer(observed, context, {
        shortfall: { reason: 'JobNotStarted', message },
        again: SOON_SECONDS,
      }),
      stop: [{ namespace, name, uid }],
    }
  }
  const running = { reason: 'HelmRunning', message: underWay(runOf(job)) }
  return answer(observed, context, {
    shortfall: silenceOf(job, progress, context) ?? formerFailure(cluster) ?? running,
    again: reported ? READINESS_CHECK_SECONDS : FIRST_READINESS_CHECK_SECONDS,
  })
}

/** The same words from its start to its end, whoever saw it first: so it is one Event. */
function underWay(run: number): string {
  return `helm run ${run} is under way`
}

function blocked(
  observed: Observed,
  context: Context,
  reason: string,
  message: string,
): Desired<ClusterStatus> {
  return answer(observed, context, { shortfall: { reason, message }, again: RETRY_SECONDS })
}

function settled(observed: Observed, context: Context): Desired<ClusterStatus> {
  const again = isJustApplied(observed) ? FIRST_READINESS_CHECK_SECONDS : READINESS_CHECK_SECONDS
  // Until a status says so, a Job that the cache does not show yet may still need its rights.
  const isApplied = conditionOf(observed.cluster, 'Applied')?.status === 'True'
  return answer(observed, context, {
    again: Math.min(again, observed.consensusAgainAfterSeconds ?? again),
    ...(isApplied && { idle: idleRights(observed) }),
  })
}

/** The binding to the rights of helm, and all that an earlier release made: its rules were part of the name. */
function idleRights({ cluster, children }: Observed): AnyObject[] {
  const current = new Set(
    clusterRights(cluster).map(({ kind, metadata }) => `${kind}/${metadata.name}`),
  )
  return children.filter(
    (child) =>
      isHelmBinding(child) ||
      (child.kind !== 'Job' && !current.has(`${child.kind}/${child.metadata.name}`)),
  )
}

interface Answer {
  shortfall?: Shortfall
  again: number
  /** Children besides those that were observed. */
  more?: Child[]
  /** Rights that only a helm run needs: whoever may create pods in the namespace could use them. */
  idle?: AnyObject[]
}

/** Every observed child stays, but the Jobs whose time is over and the rights that are idle. */
function answer(
  observed: Observed,
  context: Context,
  { shortfall, again, more = [], idle = [] }: Answer,
): Desired<ClusterStatus> {
  const { cluster, jobs, children } = observed
  const newest = newestOf(jobs)
  const shown = cluster.status?.appliedRun ?? 0
  // What the status does not show yet, the Job is the only witness of.
  const isRecorded = (job: Job) => job !== newest || runOf(job) <= shown
  const reason = 'no helm run is due'
  const dropped = [
    ...outlived(jobs, isRecorded, context),
    ...idle.map(({ kind, metadata: { name } }) => ({ kind, name, reason })),
  ]
  const status = clusterStatus(observed, shortfall, context)
  return {
    status,
    children: staying(children, { more, dropped }),
    ...(dropped.length > 0 && { dropped }),
    resyncAfterSeconds: again,
    events: eventsOf(cluster, status, context.now),
    ...(observed.consensusFailure !== undefined && { failure: observed.consensusFailure }),
  }
}
