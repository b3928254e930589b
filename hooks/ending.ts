/**
 * Whether the work of a backup, restore or migration has ended, and how: from its status, from its
 * report, or from the end of its Job.
 */
import type { Progress } from '../crds/command.ts'
import { endOf, type Job } from '../crds/kubernetes.ts'
import { END_REPORT_SECONDS } from '../crds/limits.ts'
import { secondsSince } from './conditions.ts'
import { newestOf } from './job.ts'
import type { Context } from './protocol.ts'

export interface Ending {
  phase: 'Completed' | 'Failed'
  /** When. */
  at: string
  /** Why it failed. */
  error?: string
  /** For its condition, where that is not how much of the work was done. */
  message?: string
}

interface Witnesses {
  jobs: Job[]
  progress?: Progress
}

/** The status says how it ended: then nothing is computed any more. */
export function isFinal({ status }: { status?: { phase?: string } }): boolean {
  return status?.phase === 'Completed' || status?.phase === 'Failed'
}

/** How it ended; `unknown` while its report may still come; undefined when it has not. */
export function endingOf(
  { jobs, progress }: Witnesses,
  { now }: Context,
): Ending | 'unknown' | undefined {
  if (progress?.state === 'Done') return { phase: 'Completed', at: progress.at }
  if (progress !== undefined && progress.state !== 'Started') {
    return { phase: 'Failed', at: progress.at, error: errorOf(progress) }
  }
  const newest = newestOf(jobs)
  const end = newest && endOf(newest)
  if (newest === undefined || end === undefined) return undefined
  const at = end.lastTransitionTime ?? newest.metadata.creationTimestamp ?? now.toISOString()
  if (secondsSince(at, now) < END_REPORT_SECONDS) return 'unknown'
  const crashes = newest.status?.failed ?? 1
  return { phase: 'Failed', at, error: `Job crashed ${crashes} times` }
}

function errorOf({ backup, restore, migration, message, run }: Progress): string {
  return (backup ?? restore ?? migration)?.error ?? message ?? `run ${run} failed`
}
