/**
 * Whether the work of a backup, restore or migration has ended, and how: from its status, from its
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
  /** When. */
  at: string
  /** Why it failed. */
  error?: string
  /** For its condition, where that is not how much of the work was done. */
  message?: string
}

interface OutcomeInputs {
  jobs: Job[]
  progress?: Progress
}

/** The status says how it ended: then nothing is computed any more. */
export function isFinished({ status }: { status?: { phase?: string } }): boolean {
  return status?.phase === 'Completed' || status?.phase === 'Failed'
}

/** How it ended; `unknown` while its report may still come; undefined when it has not. */
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

function reportedError({ backup, restore, migration, message, run }: Progress): string {
  return (backup ?? restore ?? migration)?.error ?? message ?? `run ${run} failed`
}
