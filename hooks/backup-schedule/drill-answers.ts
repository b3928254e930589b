/** The parts of an answer about restore drills: the condition RestoreTested, and Events. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { AnyObject, KubernetesEvent } from '../../crds/kubernetes.ts'
import { getCondition, type ConditionUpdate } from '../conditions.ts'
import { newEvent, warningEvent } from '../events.ts'
import type { Child, PrunedChild } from '../protocol.ts'
import type { DrillStatus, Facts } from './drill-facts.ts'
import type { DrillIdentity } from './drill-objects.ts'
import { passedMessage, type LastDrill } from './drill-result.ts'

const TYPE = 'RestoreTested'

export interface DrillDecision {
  children: Child[]
  pruned: PrunedChild[]
  status: DrillStatus
  condition?: ConditionUpdate
  events: KubernetesEvent[]
  resyncAfterSeconds?: number
}

export function idle(facts: Facts): DrillDecision {
  const { schedule, others, status } = facts
  const { lastDrill } = status
  const condition =
    schedule.spec.drill === undefined
      ? undefined
      : (resultCondition(lastDrill) ?? unknown('DrillPending', 'no restore drill has ended yet'))
  return {
    children: others,
    pruned: [],
    status: lastDrill === undefined ? {} : { lastDrill },
    ...(condition && { condition }),
    events: [],
  }
}

/** The condition keeps the last result: a wait is no reason to forget a failure. */
export function waiting(facts: Facts, message: string): DrillDecision {
  const result = resultCondition(facts.status.lastDrill)
  const condition =
    result === undefined
      ? unknown('DrillPending', message)
      : { ...result, message: `${result.message}; ${message}` }
  return { ...idle(facts), condition }
}

export function refused(facts: Facts, reason: string, message: string): DrillDecision {
  const { schedule, now } = facts
  const condition: ConditionUpdate = { type: TYPE, status: 'False', reason, message }
  const isNew = getCondition(schedule, TYPE)?.message !== message
  return {
    ...idle(facts),
    condition,
    events: isNew ? [warningEvent(schedule, condition, now)] : [],
  }
}

export function nameConflict(facts: Facts, { kind, metadata }: AnyObject): DrillDecision {
  const message = `${kind} ${metadata.name} already exists and does not belong to this schedule`
  return refused(facts, 'DrillNameConflict', message)
}

export function resultCondition(result: LastDrill): ConditionUpdate
export function resultCondition(result: LastDrill | undefined): ConditionUpdate | undefined
export function resultCondition(result: LastDrill | undefined): ConditionUpdate | undefined {
  if (result === undefined) return undefined
  const { backupName, error = 'unknown' } = result
  if (result.result === 'Passed') {
    return { type: TYPE, status: 'True', reason: 'DrillPassed', message: passedMessage(result) }
  }
  const message = `the restore drill of backup ${backupName} failed: ${error}`
  return { type: TYPE, status: 'False', reason: 'DrillFailed', message }
}

export function unknown(reason: string, message: string): ConditionUpdate {
  return { type: TYPE, status: 'Unknown', reason, message }
}

/** Once for each slot. */
export function event(
  schedule: VecBackupSchedule,
  { slot }: DrillIdentity,
  now: Date,
  { reason, message }: { reason: string; message: string },
): KubernetesEvent {
  const type = reason === 'DrillFailed' ? 'Warning' : 'Normal'
  return newEvent(schedule, { type, reason, message, transition: slot }, now)
}
