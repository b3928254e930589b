/** The VecBackups of a schedule: their names, their desired state and the deletion policy they carry. */
import { VecBackup, type BackupSpec } from '../../crds/backup.ts'
import { scheduledBackupSpec, type VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/contract/names.ts'
import { timestamp } from '../conditions.ts'
import { childKind } from '../answer-validation.ts'
import type { Child } from '../protocol.ts'

export const BACKUP_CHILD_KIND = childKind(API_VERSION, VecBackup.kind)

/** `<schedule>-<YYYYmmdd-HHMMSS>`: the names of a schedule's backups sort by slot. */
export function backupName(schedule: string, slot: Date): string {
  const digits = timestamp(slot).replaceAll(/[-:Z]/g, '')
  return `${schedule}-${digits.replace('T', '-')}`
}

const SLOT_DIGITS = /(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/

/** The slot of a backup; undefined if the name was not generated from a slot. */
export function slotOf(schedule: string, { metadata: { name } }: VecBackup): Date | undefined {
  const slot = new Date(name.slice(schedule.length + 1).replace(SLOT_DIGITS, '-$1-$2T$3:$4:$5Z'))
  const isInstant = !Number.isNaN(slot.getTime())
  return isInstant && backupName(schedule, slot) === name ? slot : undefined
}

export function newBackup(schedule: VecBackupSchedule, slot: Date): Child {
  return backupChild(
    schedule,
    backupName(schedule.metadata.name, slot),
    scheduledBackupSpec(schedule),
  )
}

/**
 * The desired state of an existing backup, rebuilt from its own, immutable spec: an observed object must not
 * be returned under InPlace, because its status would enter the last-applied annotation with each write. The
 * deletionPolicy is that of the schedule. If the schedule has none, a value that a user set on the backup is
 * kept, because Metacontroller does not change fields that it never applied.
 */
export function desiredBackup(schedule: VecBackupSchedule, backup: VecBackup): Child {
  const { deletionPolicy: _, ...content } = backup.spec
  const { deletionPolicy } = schedule.spec
  const spec = { ...content, ...(deletionPolicy !== undefined && { deletionPolicy }) }
  return backupChild(schedule, backup.metadata.name, spec)
}

/** A backup that is deleted next, with the reason: its hook must not mistake this for a user's deletion. */
export function prunedBackup(
  schedule: VecBackupSchedule,
  backup: VecBackup,
  reason: string,
): Child {
  const unchanged = desiredBackup(schedule, backup)
  const annotations = { ...unchanged.metadata.annotations, [ANNOTATIONS.pruned]: reason }
  return { ...unchanged, metadata: { ...unchanged.metadata, annotations } }
}

/** Whether deleting this backup now would retain its objects although retention must delete them. */
export function needsPrunedAnnotation(
  schedule: VecBackupSchedule,
  { metadata, spec }: VecBackup,
): boolean {
  const isRetained = [spec.deletionPolicy, schedule.spec.deletionPolicy].includes('Retain')
  return isRetained && metadata.annotations?.[ANNOTATIONS.pruned] === undefined
}

/**
 * The part of the schedule's policy that is missing on this backup: the name of the annotation or field. A
 * backup that is being deleted gets only a policy that retains: it reads from the schedule itself whether
 * its objects are retained (hooks/backup/deletion-policy.ts), so the schedule must exist until it is gone.
 */
export function missingPolicy(
  schedule: VecBackupSchedule,
  { metadata, spec }: VecBackup,
): string | undefined {
  const isDeleting = metadata.deletionTimestamp !== undefined
  const retain = retainAnnotation(schedule)
  const isAnnotated = retain === metadata.annotations?.[ANNOTATIONS.retainObjects]
  if (retain !== undefined && !isAnnotated && (retain === 'true' || !isDeleting)) {
    return ANNOTATIONS.retainObjects
  }
  const { deletionPolicy } = schedule.spec
  const isSame = deletionPolicy === spec.deletionPolicy
  if (deletionPolicy !== undefined && !isSame && (deletionPolicy === 'Retain' || !isDeleting)) {
    return `spec.deletionPolicy ${deletionPolicy}`
  }
  return undefined
}

function backupChild(schedule: VecBackupSchedule, name: string, spec: BackupSpec): Child {
  const retain = retainAnnotation(schedule)
  return {
    apiVersion: API_VERSION,
    kind: VecBackup.kind,
    metadata: {
      name,
      labels: { [LABELS.schedule]: schedule.metadata.name },
      // Set at creation, because nothing can add it once the schedule is deleted.
      ...(retain !== undefined && { annotations: { [ANNOTATIONS.retainObjects]: retain } }),
    },
    spec,
  }
}

function retainAnnotation({ metadata }: VecBackupSchedule): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.retainObjects]
}
