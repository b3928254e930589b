/**
 * The VecBackups of a schedule: their names, their desired state, the deletion policy that they carry, and
 * whether their history has become too large for a request.
 */
import { VecBackup, type BackupSpec } from '../../crds/backup.ts'
import { scheduledBackupSpec, type VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { LARGE_HISTORY_BYTES, MAX_HISTORY_BYTES } from '../../crds/contract/limits.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/contract/names.ts'
import { timestamp, type ConditionUpdate } from '../conditions.ts'
import { childKind } from '../answer-validation.ts'
import { retains } from '../backup/deletion-policy.ts'
import type { Child } from '../protocol.ts'

export const BACKUP_CHILD_KIND = childKind(API_VERSION, VecBackup.kind)

/** `<schedule>-<YYYYmmdd-HHMMSS>`: the names of a schedule's backups sort by slot. */
export function backupName(schedule: string, slot: Date): string {
  const digits = timestamp(slot).replaceAll(/[-:Z]/g, '')
  return `${schedule}-${digits.replace('T', '-')}`
}

const SLOT_DIGITS = /^-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)$/

/** The slot of a backup; undefined if the name was not generated from a slot. */
export function slotOf(schedule: string, { metadata: { name } }: VecBackup): Date | undefined {
  if (!name.startsWith(schedule)) return undefined
  const digits = SLOT_DIGITS.exec(name.slice(schedule.length))?.slice(1).map(Number)
  if (digits === undefined) return undefined
  // Dates are neither parsed nor formatted: a request has thousands of backups.
  const [year = NaN, month = NaN, day, hour, minute, second] = digits
  const slot = new Date(Date.UTC(year, month - 1, day, hour, minute, second))
  const found = [slot.getUTCFullYear(), slot.getUTCMonth() + 1, slot.getUTCDate()]
  found.push(slot.getUTCHours(), slot.getUTCMinutes(), slot.getUTCSeconds())
  // A day that its month does not have is another instant.
  return found.every((part, at) => part === digits[at]) ? slot : undefined
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
  if (retain !== undefined && !isAnnotated && (retains(retain) || !isDeleting)) {
    return ANNOTATIONS.retainObjects
  }
  const { deletionPolicy } = schedule.spec
  const isSame = deletionPolicy === spec.deletionPolicy
  if (deletionPolicy !== undefined && !isSame && (deletionPolicy === 'Retain' || !isDeleting)) {
    return `spec.deletionPolicy ${deletionPolicy}`
  }
  return undefined
}

const MIB = 1024 * 1024
const HISTORY_FIX = 'set spec.retentionPolicy, or delete backups that are not needed'

/** Size of the hook request that contains the backups. */
interface History {
  bytes?: number
}

/** Why no more backups are created. If the request became too large to accept, pruning would stop as well. */
export function historyLimitFinding({ bytes = 0 }: History): ConditionUpdate | undefined {
  if (bytes <= MAX_HISTORY_BYTES) return undefined
  const message = `no backup is created: the backups of this schedule take more than ${MAX_HISTORY_BYTES / MIB} MiB of a request to the operator; ${HISTORY_FIX}`
  return { type: 'Ready', status: 'False', reason: 'HistoryTooLarge', message }
}

/** An early warning, long before that limit. */
export function largeHistoryFindings({ bytes = 0 }: History): ConditionUpdate[] {
  if (bytes <= LARGE_HISTORY_BYTES) return []
  const message = `the backups of this schedule take more than ${LARGE_HISTORY_BYTES / MIB} MiB of a request to the operator: above ${MAX_HISTORY_BYTES / MIB} MiB no more are created; ${HISTORY_FIX}`
  return [{ type: 'HistoryBounded', status: 'False', reason: 'HistoryLarge', message }]
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
