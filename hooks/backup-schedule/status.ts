/** The status of a VecBackupSchedule and its Events. */
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { RECENT_BACKUPS } from '../../crds/contract/limits.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { formatNames } from '../../crds/units.ts'
import { getCondition, setConditions, timestamp, type ConditionUpdate } from '../conditions.ts'
import { hibernationBlocker } from '../cross-namespace.ts'
import { newEvent } from '../events.ts'
import type { PrunedChild } from '../protocol.ts'
import { backupName, largeHistoryFindings } from './backups.ts'
import type { DrillDecision } from './drill-result.ts'
import {
  lastCopiesAndNeededMessage,
  lastCopiesMessage,
  neededMessage,
  type RetainedBeyondPolicy,
} from './retention.ts'
import { existingBackups, isActive, type Decision, type Observed } from './tick.ts'

/** Maximum length of a condition message. */
const MAX_MESSAGE = 1024
interface StatusDecision {
  ready: ConditionUpdate
  nextSlot?: Date
  retained?: RetainedBeyondPolicy
  drill?: Pick<DrillDecision, 'status' | 'condition'>
}

export function scheduleStatus(
  observed: Observed,
  { ready, nextSlot, retained, drill }: StatusDecision,
  now: Date,
): BackupScheduleStatus {
  const { schedule, lastSlot } = observed
  // Use the cache like every other sync: live reads would make the status alternate between two states.
  const backups = existingBackups(observed, observed.children)
  const active = backups.find(isActive)
  const next = isPaused(observed) ? undefined : nextSlot
  const findings = [
    ready,
    ...retentionFindings(schedule, retained),
    ...largeHistoryFindings(observed),
    ...(drill?.condition === undefined ? [] : [drill.condition]),
  ].map(withShortMessage)
  return {
    phase: schedule.spec.suspend ? 'Suspended' : 'Active',
    // Derived from created backups, never from the clock, so it does not change while none are created.
    ...(lastSlot !== undefined && { lastScheduleTime: timestamp(lastSlot) }),
    ...lastBackupFields(backups.find((backup) => !isActive(backup))),
    ...(next !== undefined && { nextBackupTime: timestamp(next) }),
    ...(active !== undefined && { activeBackup: active.metadata.name }),
    recentBackups: backups.slice(0, RECENT_BACKUPS).map(recentBackup),
    ...drill?.status,
    conditions: setConditions(schedule, findings, now),
  }
}

/** No slot gets a backup, whatever Ready says about the one before a hibernation. */
function isPaused({ schedule, cluster }: Observed): boolean {
  return (
    schedule.spec.suspend || (cluster !== undefined && hibernationBlocker(cluster) !== undefined)
  )
}

function withShortMessage(finding: ConditionUpdate): ConditionUpdate {
  return { ...finding, message: finding.message.slice(0, MAX_MESSAGE) }
}

/** Present only while retention keeps backups that no rule selects. It stays as it is while that is not known. */
export function retentionFindings(
  schedule: VecBackupSchedule,
  retained?: RetainedBeyondPolicy,
): ConditionUpdate[] {
  const type = 'RetentionApplied'
  if (retained === undefined) {
    const unchanged = getCondition(schedule, type)
    return unchanged === undefined ? [] : [unchanged]
  }
  const { lastCopies, needed } = retained
  if (lastCopies.length > 0) {
    const message =
      needed.length > 0 ? lastCopiesAndNeededMessage(retained) : lastCopiesMessage(lastCopies)
    return [{ type, status: 'False', reason: 'LastCopyKept', message }]
  }
  if (needed.length === 0) return []
  return [{ type, status: 'False', reason: 'NeededByRestore', message: neededMessage(needed) }]
}

function lastBackupFields(backup: VecBackup | undefined): BackupScheduleStatus {
  if (backup?.status === undefined) return {}
  const { phase, completionTime } = backup.status
  return {
    lastBackupName: backup.metadata.name,
    ...(completionTime !== undefined && { lastBackupTime: completionTime }),
    ...(phase !== undefined && { lastBackupStatus: phase }),
  }
}

function recentBackup({ metadata, status }: VecBackup) {
  const { phase = 'Pending', completionTime, totalSize } = status ?? {}
  return {
    name: metadata.name,
    creationTime: metadata.creationTimestamp,
    ...(completionTime !== undefined && { completionTime }),
    status: phase,
    ...(totalSize !== undefined && { size: totalSize }),
  }
}

/** Number of names in one Event; the rest is only counted. */
const MAX_NAMES = 5

export function eventsOf(
  observed: Observed,
  { create, isBeforeHibernation = false, prune, ready, retained }: Decision,
  now: Date,
): KubernetesEvent[] {
  const { schedule } = observed
  const normal = (reason: string, transition: string, message: string) =>
    newEvent(schedule, { type: 'Normal', reason, message, transition }, now)
  const pruned = groupByReason(prune).map(({ names, reason }) =>
    normal('BackupDropped', names.join(), `${deletedMessage(names)}: ${reason}`),
  )
  const name = create && backupName(schedule.metadata.name, create)
  const created =
    create === undefined || name === undefined
      ? []
      : [
          normal(
            'BackupCreated',
            name,
            isBeforeHibernation
              ? `backup ${name} is created before cluster ${schedule.spec.clusterRef.name} hibernates`
              : `backup ${name} is created for the slot ${timestamp(create)}`,
          ),
        ]
  return [
    ...pruned,
    ...created,
    ...readyEvents(schedule, ready, now),
    ...changeEvents(
      schedule,
      [...retentionFindings(schedule, retained), ...largeHistoryFindings(observed)],
      now,
    ),
  ]
}

/** A stricter rule may delete many backups at once: they share one Event. */
function groupByReason(pruned: PrunedChild[]): { names: string[]; reason: string }[] {
  const byReason = Map.groupBy(pruned, ({ reason }) => reason)
  return [...byReason].map(([reason, items]) => ({
    names: items.map(({ name }) => name).toSorted(),
    reason,
  }))
}

function deletedMessage(names: string[]): string {
  if (names.length === 1) return `backup ${names.join()} is deleted`
  return `${names.length} backups are deleted, ${formatNames(names, MAX_NAMES)}`
}

/** Events of findings whose message has changed. */
function changeEvents(
  schedule: VecBackupSchedule,
  findings: ConditionUpdate[],
  now: Date,
): KubernetesEvent[] {
  return findings
    .map(withShortMessage)
    .filter(({ type, message }) => getCondition(schedule, type)?.message !== message)
    .map(({ reason, message }) => {
      const type = reason === 'NeededByRestore' ? 'Normal' : 'Warning'
      return newEvent(schedule, { type, reason, message, transition: shortHash(message) }, now)
    })
}

/** Only if the condition has changed: otherwise every tick, once a minute, would repeat the Event. */
function readyEvents(
  schedule: VecBackupSchedule,
  { status, reason, message }: Decision['ready'],
  now: Date,
): KubernetesEvent[] {
  const previous = getCondition(schedule, 'Ready')
  const isExpected = ['Scheduled', 'Suspended', 'ClusterHibernated'].includes(reason)
  if (isExpected || (previous?.reason === reason && previous.message === message)) return []
  const type = status === 'True' && reason !== 'SlotMissed' ? 'Normal' : 'Warning'
  const transition = `${schedule.metadata.generation}/${shortHash(message)}`
  return [newEvent(schedule, { type, reason, message, transition }, now)]
}
