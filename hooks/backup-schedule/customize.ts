/** A VecBackupSchedule needs to be shown nothing: what it decides on are its own backups. */
import type { RelatedRule } from '../protocol.ts'

export function customize(): RelatedRule[] {
  return []
}
