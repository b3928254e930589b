/** Extracts from one hook call what the metrics report about a resource. Pure. */
import { VecAccessKey, type AccessKeyStatus } from '../../crds/access-key.ts'
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { VecCluster, type ClusterStatus } from '../../crds/cluster.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import { criticalConditions, type CriticalCondition } from '../../crds/critical-conditions.ts'
import type { Condition } from '../../crds/schema.ts'
import { BACKUP_CHILD_KIND } from '../../hooks/backup-schedule/backups.ts'
import { parseCron } from '../../hooks/backup-schedule/slots.ts'
import { FAR_AHEAD_MS } from '../../hooks/backup-schedule/tick.ts'
import { isFromTheFuture } from '../../hooks/conditions.ts'
import type { HookAnswer, HookRequest, AnyParent } from '../../hooks/protocol.ts'

/** Times are in milliseconds since 1970. */
export interface ResourceSample {
  kind: string
  namespace: string
  name: string
  phase: string
  /** Since when and why the resource is not Ready, is waiting to start, or has Failed. */
  unhealthy?: { since: number; reason: string }
  /** Critical conditions, by type and reason. */
  dangers?: CriticalCondition[]
  /** Only for VecBackupSchedule. */
  schedule?: ScheduleSample
  /** Only for VecCluster: its replicas, and the work on its shards. */
  shards?: NonNullable<ClusterStatus['shards']>
  /** Only for VecAccessKey: when its token is due for renewal. */
  renewAt?: number
}

export interface ScheduleSample {
  createdAt: number
  /** When the newest Completed backup ended. */
  completedAt?: number
  /** From the latest slot to the next one; absent if the schedule is suspended or invalid, or its cluster hibernated. */
  intervalMs?: number
}

interface Status {
  phase?: string
  completionTime?: string
  conditions?: Condition[]
}

/** A resource without a phase has not been reconciled yet. */
const UNKNOWN_PHASE = 'Unknown'

export function sampleOf(
  { parent, children }: HookRequest<AnyParent>,
  answer: HookAnswer,
  now: Date,
): ResourceSample {
  const { kind, metadata } = parent
  const { namespace, name } = metadata
  const status = answer.status as Status
  const unhealthy = unhealthyState(parent, status)
  const dangers = criticalConditions(status.conditions ?? []).map(({ type, reason }) => ({
    type,
    reason,
  }))
  const renewAt = kind === VecAccessKey.kind ? renewalTime(answer.status) : undefined
  const { shards } = kind === VecCluster.kind ? (answer.status as ClusterStatus) : {}
  return {
    ...{ kind, namespace, name, phase: status.phase ?? UNKNOWN_PHASE },
    ...(unhealthy !== undefined && { unhealthy }),
    ...(dangers.length > 0 && { dangers }),
    ...(renewAt !== undefined && { renewAt }),
    ...(shards !== undefined && { shards }),
    ...(kind === VecBackupSchedule.kind && {
      schedule: scheduleSample(
        { ...(parent as unknown as VecBackupSchedule), status },
        children,
        now,
      ),
    }),
  }
}

function unhealthyState(parent: AnyParent, status: Status): ResourceSample['unhealthy'] {
  const created = Date.parse(parent.metadata.creationTimestamp)
  const condition = status.conditions?.find(({ type }) => type === 'Ready' || type === 'Complete')
  const since = condition === undefined ? created : Date.parse(condition.lastTransitionTime)
  const reason = condition?.reason ?? UNKNOWN_PHASE
  if (condition?.type !== 'Complete')
    return condition?.status === 'True' ? undefined : { since, reason }
  // Complete is False from the start; count from the completion time instead.
  if (status.phase === 'Failed')
    return { since: Date.parse(status.completionTime ?? '') || since, reason }
  return status.phase === 'Pending' ? { since: created, reason } : undefined
}

function renewalTime(status: object): number | undefined {
  const { renewAt } = status as AccessKeyStatus
  return renewAt === undefined ? undefined : Date.parse(renewAt)
}

function scheduleSample(
  { metadata, spec, status }: Pick<VecBackupSchedule, 'metadata' | 'spec'> & { status: Status },
  children: HookRequest<unknown>['children'],
  now: Date,
): ScheduleSample {
  const backups = Object.values(children[BACKUP_CHILD_KIND] ?? {}) as unknown as VecBackup[]
  const completionTimes = backups
    .filter(({ status }) => status?.phase === 'Completed')
    .map(({ status }) => Date.parse(status?.completionTime ?? ''))
    // A clock that was far ahead recorded it: the alert on old backups would be silent until then.
    .filter((time) => !isFromTheFuture(time, now.getTime(), FAR_AHEAD_MS))
  const isPaused =
    spec.suspend || status.conditions?.some(({ reason }) => reason === 'ClusterHibernated')
  const intervalMs = isPaused === true ? undefined : slotInterval(spec.schedule, now)
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
    // An invalid expression has no slots; a condition of the resource reports it.
    if (error instanceof Rejected) return undefined
    throw error
  }
}
