/**
 * Whether a VecBackup, VecRestore or VecMigration has finished, with which outcome (from its status,
 * its report or the end of its Job), and the status fields and Events that follow: one Event when
 * the work starts, one when it ends, and one for each warning in between.
 */
import { type KubernetesEvent, finishedCondition, type Job } from '../../crds/kubernetes.ts'
import type { Condition, ConditionReason } from '../../crds/schema.ts'
import { getCondition, timestamp, type ConditionUpdate, secondsSince } from '../conditions.ts'
import { normalEvent, warningEvent, type InvolvedObject } from '../events.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { latestJob } from '../request.ts'
import type { Context } from '../protocol.ts'

/** Maximum length of an error in a status; the Job's log has the full text. */
const MAX_ERROR = 4096
/** In percent: 100 only once the report says that everything is done. */
const MAX_UNFINISHED_PERCENTAGE = 99

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

/** Condition Complete of an unfinished resource. */
export function unfinishedCondition(conditionReason: ConditionReason): ConditionUpdate {
  return { type: 'Complete', status: 'False', ...conditionReason }
}

/** Condition Complete of a finished resource. */
export function outcomeCondition(
  { phase, message }: Outcome,
  reason: ConditionReason,
): ConditionUpdate {
  const status = phase === 'Completed' ? 'True' : 'False'
  return { type: 'Complete', status, ...reason, message: message ?? reason.message }
}

/**
 * The time of the conditions of a finished resource. Not that of the sync: the cached resource may
 * be older than the last answer, and the outcome is then recorded again.
 */
export function outcomeTime({ at }: Outcome): Date {
  return new Date(at)
}

/** When it finished, and why it failed. */
export function completionFields({ at, error }: Outcome): {
  completionTime: string
  error?: string
} {
  return {
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }
}

/** Number of collections that the lists of a report omit, by state; zeros are omitted. */
export function unlistedFields(unlisted: Record<'completed' | 'failed' | 'pending', number>): {
  unlistedCollections?: Partial<typeof unlisted>
} {
  const counts = Object.entries(unlisted).filter(([, count]) => count > 0)
  return counts.length === 0 ? {} : { unlistedCollections: Object.fromEntries(counts) }
}

/** When the first attempt started: later attempts continue its work. */
export function formatStartTime(startedAt: string | undefined): string | undefined {
  return startedAt === undefined ? undefined : timestamp(new Date(startedAt))
}

/** Progress in percent while it is unfinished. */
export function unfinishedPercentage(done: number, total: number): number {
  return total === 0 ? 0 : Math.min(MAX_UNFINISHED_PERCENTAGE, Math.floor((100 * done) / total))
}

interface EventInputs {
  resource: InvolvedObject & Parameters<typeof getCondition>[0]
  /** The new status. */
  status: { conditions?: Condition[]; error?: string }
  now: Date
}

interface EventTexts {
  /** Set only on the sync that first reports it as running. */
  started: ConditionReason | false
  /** The successful outcome, and what its Event adds to the summary in the message of its condition. */
  completed: { reason: string; suffix: string }
  /** Reason of the failed outcome. */
  failed: string
}

export function dataJobEvents(
  { resource, status, now }: EventInputs,
  { started, completed, failed }: EventTexts,
): KubernetesEvent[] {
  const completeCondition = status.conditions?.find(({ type }) => type === 'Complete')
  const events = started === false ? [] : [normalEvent(resource, started, now)]
  if (
    completeCondition === undefined ||
    completeCondition.reason === getCondition(resource, 'Complete')?.reason
  ) {
    return events
  }
  const { reason, message } = completeCondition
  switch (reason) {
    case failed:
    case 'JobSilent':
    case 'JobNotStarted': {
      const { error } = status
      const text = error === undefined || error === message ? message : `${message}: ${error}`
      return [...events, warningEvent(resource, { reason, message: text }, now)]
    }
    case completed.reason: {
      // Notes follow the summary.
      const [summary = ''] = message.split(/[:;] /, 1)
      const text = summary + completed.suffix + message.slice(summary.length)
      return [...events, normalEvent(resource, { reason, message: text }, now)]
    }
    default:
      return events
  }
}
