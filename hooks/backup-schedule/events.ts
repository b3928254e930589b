/** Events about a VecBackupSchedule: backups made or dropped, and what hinders it, once. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import { conditionOf, timestamp, type Finding } from '../conditions.ts'
import { eventOn, warning } from '../events.ts'
import type { Dropped } from '../protocol.ts'
import { backupName } from './children.ts'
import type { Decision } from './decision.ts'
import { largeHistory } from './history.ts'
import type { Observed } from './observed.ts'
import { heldFinding } from './status.ts'

/** So many names stand in one Event; the rest is counted. */
const NAMED = 5

export function eventsOf(
  observed: Observed,
  { create, drop, ready, held }: Decision,
  now: Date,
): KubernetesEvent[] {
  const { schedule } = observed
  const normal = (reason: string, transition: string, message: string) =>
    eventOn(schedule, { type: 'Normal', reason, message, transition }, now)
  const dropped = groups(drop).map(({ names, reason }) =>
    normal('BackupDropped', names.join(), `${gone(names)}: ${reason}`),
  )
  const name = create && backupName(schedule.metadata.name, create)
  const made =
    create === undefined || name === undefined
      ? []
      : [normal('BackupCreated', name, `backup ${name} is made for the slot ${timestamp(create)}`)]
  return [
    ...dropped,
    ...made,
    ...hindrance(schedule, ready, now),
    ...newly(schedule, [...heldFinding(held), ...largeHistory(observed)], now),
  ]
}

/** A rule that becomes stricter drops many at once: that is one Event, and no flood of them. */
function groups(drop: Dropped[]): { names: string[]; reason: string }[] {
  const byReason = Map.groupBy(drop, ({ reason }) => reason)
  return [...byReason].map(([reason, items]) => ({
    names: items.map(({ name }) => name).toSorted(),
    reason,
  }))
}

function gone(names: string[]): string {
  if (names.length === 1) return `backup ${names.join()} is deleted`
  const rest = names.length - NAMED
  const named = names.slice(0, NAMED).join(', ')
  return `${names.length} backups are deleted, ${named}${rest > 0 ? ` and ${rest} more` : ''}`
}

/** What was not said before. */
function newly(schedule: VecBackupSchedule, findings: Finding[], now: Date): KubernetesEvent[] {
  return findings
    .filter(({ type, message }) => conditionOf(schedule, type)?.message !== message)
    .map((finding) => warning(schedule, finding, now))
}

/** Only what came to say something new: a tick a minute would repeat it for ever. */
function hindrance(
  schedule: VecBackupSchedule,
  { status, reason, message }: Decision['ready'],
  now: Date,
): KubernetesEvent[] {
  const before = conditionOf(schedule, 'Ready')
  const isUsual = reason === 'Scheduled' || reason === 'Suspended'
  if (isUsual || (before?.reason === reason && before.message === message)) return []
  const type = status === 'True' && reason !== 'SlotMissed' ? 'Normal' : 'Warning'
  const transition = `${schedule.metadata.generation}/${shortHash(message)}`
  return [eventOn(schedule, { type, reason, message, transition }, now)]
}
