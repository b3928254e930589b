/** The backups of a schedule: how one is named after its slot, made, and kept. */
import { VecBackup, type BackupSpec } from '../../crds/backup.ts'
import { backupSpecOf, type VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/names.ts'
import { timestamp } from '../conditions.ts'
import { childKind } from '../guard.ts'
import type { Child } from '../protocol.ts'

export const BACKUP_CHILD_KIND = childKind(API_VERSION, VecBackup.kind)

/** `<schedule>-<YYYYmmdd-HHMMSS>`: names of one schedule sort as their slots do. */
export function backupName(schedule: string, slot: Date): string {
  const digits = timestamp(slot).replaceAll(/[-:Z]/g, '')
  return `${schedule}-${digits.replace('T', '-')}`
}

const SLOT = /(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/

/** The slot a backup was made for; undefined for a name that no schedule gives. */
export function slotOf(schedule: string, { metadata: { name } }: VecBackup): Date | undefined {
  const slot = new Date(name.slice(schedule.length + 1).replace(SLOT, '-$1-$2T$3:$4:$5Z'))
  const isInstant = !Number.isNaN(slot.getTime())
  return isInstant && backupName(schedule, slot) === name ? slot : undefined
}

export function newBackup(schedule: VecBackupSchedule, slot: Date): Child {
  return child(schedule, backupName(schedule.metadata.name, slot), backupSpecOf(schedule))
}

/**
 * A backup that stays. It is built anew from its own, immutable spec: an observed object must not be
 * echoed under InPlace, for its status would enter the last-applied annotation at each write.
 */
export function keptBackup(schedule: VecBackupSchedule, backup: VecBackup): Child {
  return child(schedule, backup.metadata.name, backup.spec)
}

/** Whether deleting the schedule leaves the objects of this backup as the schedule wants it. */
export function isRetainedAs(schedule: VecBackupSchedule, { metadata }: VecBackup): boolean {
  const wanted = retainOf(schedule)
  return wanted === undefined || metadata.annotations?.[ANNOTATIONS.retainObjects] === wanted
}

function child(schedule: VecBackupSchedule, name: string, spec: BackupSpec): Child {
  const retain = retainOf(schedule)
  return {
    apiVersion: API_VERSION,
    kind: VecBackup.kind,
    metadata: {
      name,
      labels: { [LABELS.schedule]: schedule.metadata.name },
      // From its creation on: once the schedule is gone nobody would write it any more.
      ...(retain !== undefined && { annotations: { [ANNOTATIONS.retainObjects]: retain } }),
    },
    spec,
  }
}

function retainOf({ metadata }: VecBackupSchedule): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.retainObjects]
}
