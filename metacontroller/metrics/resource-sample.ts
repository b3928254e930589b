/** What one hook call shows of a resource that people would want to see in a graph. Pure. */
import { VecAccessKey, type AccessKeyStatus } from '../../crds/access-key.ts'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import type { Condition } from '../../crds/schema.ts'
import { BACKUP_CHILD_KIND } from '../../hooks/backup-schedule/backups.ts'
import { parseCron } from '../../hooks/backup-schedule/slots.ts'
import type { AnyParent } from '../../hooks/kind-hooks.ts'
import type { HookAnswer, HookRequest } from '../../hooks/protocol.ts'

/** Times are in milliseconds since 1970. */
export interface ResourceSample {
  kind: string
  namespace: string
  name: string
  phase: string
  /** Since when, and why, it is not Ready, waits for its start, or has Failed. */
  trouble?: { since: number; reason: string }
  /** Its conditions that mean danger, by type and reason. */
  dangers?: CriticalCondition[]
  /** VecBackupSchedule. */
  schedule?: ScheduleSample
  /** VecAccessKey: when its token is to be renewed. */
  renewAt?: number
}

/** Both are words of our own, never of a user. */
export interface CriticalCondition {
  type: string
  reason: string
}

export interface ScheduleSample {
  createdAt: number
  /** When its newest Completed backup ended. */
  completedAt?: number
  /** From the latest slot to the next; absent where none is to be made. */
  intervalMs?: number
}

interface Status {
  phase?: string
  completionTime?: string
  conditions?: Condition[]
}

/** A resource that was not decided on for the first time yet has no phase. */
const UNKNOWN_PHASE = 'Unknown'

export function sampleOf(
  { parent, children }: HookRequest<AnyParent>,
  answer: HookAnswer,
  now: Date,
): ResourceSample {
  const { kind, metadata } = parent
  const { namespace, name } = metadata
  const status = answer.status as Status
  const trouble = unhealthyState(parent, status)
  const dangers = criticalConditions(status)
  const renewAt = kind === VecAccessKey.kind ? renewalTime(answer.status) : undefined
  return {
    ...{ kind, namespace, name, phase: status.phase ?? UNKNOWN_PHASE },
    ...(trouble !== undefined && { trouble }),
    ...(dangers.length > 0 && { dangers }),
    ...(renewAt !== undefined && { renewAt }),
    ...(kind === VecBackupSchedule.kind && {
      schedule: scheduleSample(parent as unknown as VecBackupSchedule, children, now),
    }),
  }
}

/** The conditions whose False is a danger, whoever reads them. */
const REQUIRED_CONDITIONS = new Set(['Consensus', 'Replicated', 'HistoryBounded'])

function criticalConditions({ conditions = [] }: Status): CriticalCondition[] {
  return conditions
    .filter(
      ({ type, status, reason }) =>
        (REQUIRED_CONDITIONS.has(type) && status === 'False') ||
        (type === 'Stalled' && status === 'True') ||
        (type === 'Reconciling' && reason === 'JobSilent'),
    )
    .map(({ type, reason }) => ({ type, reason }))
}

function unhealthyState(parent: AnyParent, status: Status): ResourceSample['trouble'] {
  const created = Date.parse(parent.metadata.creationTimestamp)
  const condition = status.conditions?.find(({ type }) => type === 'Ready' || type === 'Complete')
  const since = condition === undefined ? created : Date.parse(condition.lastTransitionTime)
  const reason = condition?.reason ?? UNKNOWN_PHASE
  if (condition?.type !== 'Complete')
    return condition?.status === 'True' ? undefined : { since, reason }
  // Its condition is False from the start: what is new is the end.
  if (status.phase === 'Failed')
    return { since: Date.parse(status.completionTime ?? '') || since, reason }
  return status.phase === 'Pending' ? { since: created, reason } : undefined
}

function renewalTime(status: object): number | undefined {
  const { renewAt } = status as AccessKeyStatus
  return renewAt === undefined ? undefined : Date.parse(renewAt)
}

function scheduleSample(
  { metadata, spec }: VecBackupSchedule,
  children: HookRequest<unknown>['children'],
  now: Date,
): ScheduleSample {
  const backups = Object.values(children[BACKUP_CHILD_KIND] ?? {}) as unknown as VecBackup[]
  const completionTimes = backups
    .filter(({ status }) => status?.phase === 'Completed')
    .map(({ status }) => Date.parse(status?.completionTime ?? ''))
  const intervalMs = spec.suspend ? undefined : slotInterval(spec.schedule, now)
  return {
    createdAt: Date.parse(metadata.creationTimestamp),
    ...(completionTimes.length > 0 && { completedAt: Math.max(...completionTimes) }),
    ...(intervalMs !== undefined && { intervalMs }),
  }
}

function slotInterval(schedule: string, now: Date): number | undefined {
  try {
    const slots = parseCron(schedule)
    return slots.firstAfter(now).getTime() - slots.latestUntil(now).getTime()
  } catch (error) {
    // An expression that is none has no slots; the resource's condition says so.
    if (error instanceof Rejected) return undefined
    throw error
  }
}
