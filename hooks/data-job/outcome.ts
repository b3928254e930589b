/**
 * Whether a backup, restore or migration has finished, and its outcome: from its status, from its
 * report, or from the end of its Job.
 */
import type { Progress } from '../../crds/contract/job.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { secondsSince } from '../conditions.ts'
import { latestJob } from '../job.ts'
import type { Context } from '../protocol.ts'

export interface Outcome {
  phase: 'Completed' | 'Failed'
  /** When it finished. */
  at: string
  /** Why it failed. */
  error?: string
  /** For the condition, if it is not the amount of work done. */
  message?: string
}

interface OutcomeInputs {
  jobs: Job[]
  progress?: Progress
}

/** The status has the outcome: nothing is computed after that. */
export function isFinished({ status }: { status?: { phase?: string } }): boolean {
  return status?.phase === 'Completed' || status?.phase === 'Failed'
}

/** The outcome; `unknown` while a report may still arrive; undefined if it has not finished. */
export function outcomeOf(
  { jobs, progress }: OutcomeInputs,
  { now }: Context,
): Outcome | 'unknown' | undefined {
  if (progress?.state === 'Done') return { phase: 'Completed', at: progress.at }
  if (progress !== undefined && progress.state !== 'Started') {
    return { phase: 'Failed', at: progress.at, error: reportedError(progress) }
  }
  const latest = latestJob(jobs)
  const end = latest && finishedCondition(latest)
  if (latest === undefined || end === undefined) return undefined
  const at = end.lastTransitionTime ?? latest.metadata.creationTimestamp ?? now.toISOString()
  if (secondsSince(at, now) < FINAL_REPORT_TIMEOUT_SECONDS) return 'unknown'
  const crashCount = latest.status?.failed ?? 1
  return { phase: 'Failed', at, error: `Job crashed ${crashCount} times` }
}

/**
 * Whether a Job finished a while ago and its last report has no outcome: the cache may lag behind,
 * so only the live resource distinguishes a crash from a late report.
 */
export function needsLiveProgress(observed: OutcomeInputs, context: Context): boolean {
  const outcome = outcomeOf(observed, context)
  const hasFinalReport = observed.progress !== undefined && observed.progress.state !== 'Started'
  return outcome !== undefined && outcome !== 'unknown' && !hasFinalReport
}

function reportedError({ backup, restore, migration, message, run }: Progress): string {
  return (backup ?? restore ?? migration)?.error ?? message ?? `run ${run} failed`
}
