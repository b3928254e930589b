/** Events about a VecBackupSchedule: each backup made or dropped, and what hinders it, once. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import { conditionOf, timestamp } from '../conditions.ts'
import { eventOn } from '../events.ts'
import { backupName } from './children.ts'
import type { Decision } from './decision.ts'

export function eventsOf(
  schedule: VecBackupSchedule,
  { create, drop, ready }: Decision,
  now: Date,
): KubernetesEvent[] {
  const normal = (reason: string, name: string, message: string) =>
    eventOn(schedule, { type: 'Normal', reason, message, transition: name }, now)
  const dropped = drop.map(({ name, reason }) =>
    normal('BackupDropped', name, `backup ${name} is deleted: ${reason}`),
  )
  const name = create && backupName(schedule.metadata.name, create)
  const made =
    create === undefined || name === undefined
      ? []
      : [normal('BackupCreated', name, `backup ${name} is made for the slot ${timestamp(create)}`)]
  return [...dropped, ...made, ...hindrance(schedule, ready, now)]
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
