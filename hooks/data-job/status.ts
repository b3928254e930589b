/**
 * What the statuses of a VecBackup, a VecRestore and a VecMigration share (specification: states and
 * transitions).
 */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { Condition } from '../../crds/schema.ts'
import { getCondition, timestamp, type ConditionUpdate } from '../conditions.ts'
import { normalEvent, warningEvent, type ConditionReason, type InvolvedObject } from '../events.ts'
import type { Outcome } from './outcome.ts'

/** A status shows no more of an error than this; the log of the Job has it all. */
const MAX_ERROR = 4096
/** In percent: all is done only once that was said. */
const MAX_UNFINISHED_PERCENTAGE = 99

/** Why it has not ended yet, or how it has. */
export interface CompleteReason {
  reason: string
  message: string
}

/** Condition Complete of what has not ended. */
export function unfinishedCondition(conditionReason: CompleteReason): ConditionUpdate {
  return { type: 'Complete', status: 'False', ...conditionReason }
}

/** Condition Complete of what has. */
export function finishedCondition(
  { phase, message }: Outcome,
  reason: CompleteReason,
): ConditionUpdate {
  const status = phase === 'Completed' ? 'True' : 'False'
  return { type: 'Complete', status, ...reason, message: message ?? reason.message }
}

/** When it ended, and why it failed. */
export function completionFields({ at, error }: Outcome): {
  completionTime: string
  error?: string
} {
  return {
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }
}

/** How many collections the lists of a report left out, by state: zeros are left out themselves. */
export function unlistedFields(unlisted: Record<'completed' | 'failed' | 'pending', number>): {
  unlistedCollections?: Partial<typeof unlisted>
} {
  const counts = Object.entries(unlisted).filter(([, count]) => count > 0)
  return counts.length === 0 ? {} : { unlistedCollections: Object.fromEntries(counts) }
}

/** When the first attempt started: a later one goes on with its work. */
export function formatStartTime(startedAt: string | undefined): string | undefined {
  return startedAt === undefined ? undefined : timestamp(new Date(startedAt))
}

/** How much of something is done, in percent, while it has not ended. */
export function unfinishedPercentage(done: number, total: number): number {
  return total === 0 ? 0 : Math.min(MAX_UNFINISHED_PERCENTAGE, Math.floor((100 * done) / total))
}

interface EventInputs {
  resource: InvolvedObject & Parameters<typeof getCondition>[0]
  /** As it is now. */
  status: { conditions?: Condition[]; error?: string }
  now: Date
}

interface EventTexts {
  /** Only where this is the turn that shows it at work for the first time. */
  started: ConditionReason | false
  /** Its end, and what is said of it besides the message of its condition. */
  completed: { reason: string; suffix: string }
  /** Reason of the other end. */
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
    case completed.reason:
      return [
        ...events,
        normalEvent(resource, { reason, message: message + completed.suffix }, now),
      ]
    default:
      return events
  }
}
