/** What one hook call shows of a resource that people would want to see in a graph. Pure. */
import type { AccessKeyStatus } from '../crds/access-key.ts'
import type { VecBackup } from '../crds/backup.ts'
import { VecBackupSchedule } from '../crds/backup-schedule.ts'
import { VecAccessKey } from '../crds/access-key.ts'
import { Rejected } from '../crds/errors.ts'
import type { Condition } from '../crds/schema.ts'
import { BACKUP_CHILD_KIND } from '../hooks/backup-schedule/children.ts'
import { slotsOf } from '../hooks/backup-schedule/slots.ts'
import type { HookRequest, HookAnswer } from '../hooks/protocol.ts'
import type { AnyParent } from '../hooks/room.ts'

/** Times are in milliseconds since 1970. */
export interface Sighting {
  kind: string
  namespace: string
  name: string
  phase: string
  /** Since when, and why, it is not Ready, waits for its start, or has Failed. */
  trouble?: { since: number; reason: string }
  /** Its conditions that mean danger, by type and reason. */
  dangers?: Danger[]
  /** VecBackupSchedule. */
  schedule?: ScheduleSighting
  /** VecAccessKey: when its token is to be renewed. */
  renewAt?: number
}

/** Both are words of our own, never of a user. */
export interface Danger {
  type: string
  reason: string
}

export interface ScheduleSighting {
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
const NO_PHASE = 'Unknown'

export function sightingOf(
  { parent, children }: HookRequest<AnyParent>,
  answer: HookAnswer,
  now: Date,
): Sighting {
  const { kind, metadata } = parent
  const { namespace, name } = metadata
  const status = answer.status as Status
  const trouble = troubleOf(parent, status)
  const dangers = dangersOf(status)
  const renewAt = kind === VecAccessKey.kind ? renewalOf(answer.status) : undefined
  return {
    ...{ kind, namespace, name, phase: status.phase ?? NO_PHASE },
    ...(trouble !== undefined && { trouble }),
    ...(dangers.length > 0 && { dangers }),
    ...(renewAt !== undefined && { renewAt }),
    ...(kind === VecBackupSchedule.kind && {
      schedule: scheduleOf(parent as unknown as VecBackupSchedule, children, now),
    }),
  }
}

/** The conditions whose False is a danger, whoever reads them. */
const MUST_HOLD = new Set(['Consensus', 'Replicated', 'HistoryBounded'])

function dangersOf({ conditions = [] }: Status): Danger[] {
  return conditions
    .filter(
      ({ type, status, reason }) =>
        (MUST_HOLD.has(type) && status === 'False') ||
        (type === 'Stalled' && status === 'True') ||
        (type === 'Reconciling' && reason === 'JobSilent'),
    )
    .map(({ type, reason }) => ({ type, reason }))
}

function troubleOf(parent: AnyParent, status: Status): Sighting['trouble'] {
  const created = Date.parse(parent.metadata.creationTimestamp)
  const found = status.conditions?.find(({ type }) => type === 'Ready' || type === 'Complete')
  const since = found === undefined ? created : Date.parse(found.lastTransitionTime)
  const reason = found?.reason ?? NO_PHASE
  if (found?.type !== 'Complete') return found?.status === 'True' ? undefined : { since, reason }
  // Its condition is False from the start: what is new is the end.
  if (status.phase === 'Failed')
    return { since: Date.parse(status.completionTime ?? '') || since, reason }
  return status.phase === 'Pending' ? { since: created, reason } : undefined
}

function renewalOf(status: object): number | undefined {
  const { renewAt } = status as AccessKeyStatus
  return renewAt === undefined ? undefined : Date.parse(renewAt)
}

function scheduleOf(
  { metadata, spec }: VecBackupSchedule,
  children: HookRequest<unknown>['children'],
  now: Date,
): ScheduleSighting {
  const backups = Object.values(children[BACKUP_CHILD_KIND] ?? {}) as unknown as VecBackup[]
  const ends = backups
    .filter(({ status }) => status?.phase === 'Completed')
    .map(({ status }) => Date.parse(status?.completionTime ?? ''))
  const intervalMs = spec.suspend ? undefined : intervalOf(spec.schedule, now)
  return {
    createdAt: Date.parse(metadata.creationTimestamp),
    ...(ends.length > 0 && { completedAt: Math.max(...ends) }),
    ...(intervalMs !== undefined && { intervalMs }),
  }
}

function intervalOf(schedule: string, now: Date): number | undefined {
  try {
    const slots = slotsOf(schedule)
    return slots.firstAfter(now).getTime() - slots.latestUntil(now).getTime()
  } catch (error) {
    // An expression that is none has no slots; the resource's condition says so.
    if (error instanceof Rejected) return undefined
    throw error
  }
}
