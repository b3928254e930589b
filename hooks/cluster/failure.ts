/** How the last helm run failed, from its report or from the end of its Job. */
import type { Progress } from '../../crds/command.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { endOf, type Job } from '../../crds/kubernetes.ts'
import { END_REPORT_SECONDS } from '../../crds/limits.ts'
import { conditionOf, secondsSince } from '../conditions.ts'
import { newestOf, planOf, runOf } from '../job.ts'
import type { Context } from '../protocol.ts'
import type { Observed } from './observed.ts'
import type { Shortfall } from './status.ts'

export interface Failure extends Shortfall {
  /** Hash of the plan that failed. */
  plan: string | undefined
  /** When. */
  at: string
  /** The Job refused the plan; it is not a matter of trying again. */
  refused: boolean
}

/** The reasons of the condition Applied that only mean "under way". */
const UNDER_WAY = new Set(['HelmRunning', 'HelmStarting', 'WaitingForTurn'])

/** How the last run failed; `unknown` while its report may still come; undefined when it did not. */
export function failureOf(
  { jobs, progress }: Observed,
  { now }: Context,
): Failure | 'unknown' | undefined {
  const newest = newestOf(jobs)
  const end = newest && endOf(newest)
  if (newest === undefined || end === undefined || tells(progress, newest)) {
    return reported(progress)
  }
  const at = end.lastTransitionTime ?? ''
  if (secondsSince(at, now) < END_REPORT_SECONDS) return 'unknown'
  const crashes = newest.status?.failed ?? 1
  return {
    reason: 'JobCrashed',
    message: `Job crashed ${crashes} times`,
    plan: planOf(newest),
    at,
    refused: false,
  }
}

function reported(progress: Progress | undefined): Failure | undefined {
  if (progress?.state !== 'Failed' && progress?.state !== 'Refused') return undefined
  return {
    reason: progress.reason ?? 'HelmFailed',
    message: progress.message ?? 'the helm run failed',
    plan: progress.plan,
    at: progress.at,
    refused: progress.state === 'Refused',
  }
}

/** The report is about the end of this Job, or of a later one that is gone. */
export function tells(progress: Progress | undefined, job: Job): boolean {
  if (progress === undefined) return false
  if (progress.job === job.metadata.uid) return progress.state !== 'Started'
  return progress.run > runOf(job)
}

/** What stood in the way of this generation before: shown until a run has succeeded. */
export function formerFailure(cluster: VecCluster): Shortfall | undefined {
  const before = conditionOf(cluster, 'Applied')
  if (before?.status !== 'False' || UNDER_WAY.has(before.reason)) return undefined
  if (before.observedGeneration !== cluster.metadata.generation) return undefined
  return { reason: before.reason, message: before.message }
}

/** Whether a reason tells of something a person should look at. */
export function isTrouble(reason: string): boolean {
  return !UNDER_WAY.has(reason)
}
