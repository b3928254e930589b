/**
 * What becomes of the objects of a VecBackup that is being deleted. Deleted by retention or by retentionDays
 * they go; deleted by a user, by a garbage collector or with its namespace, spec.deletionPolicy decides. The
 * annotation retain-objects keeps them in any case.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { getCondition } from '../conditions.ts'

/** What a live VecBackupSchedule says of its backups: they may not carry it yet. */
export interface SchedulePolicy {
  uid: string
  annotations?: Record<string, string>
  deletionPolicy?: string
}

export type DeletionAction =
  | 'delete'
  /** As the user asked for. */
  | 'retain'
  /** Nobody asked for it: the namespace is deleted, and deletionPolicy is not set. */
  | 'retain in a deleted namespace'

export function deletionActionFor(
  backup: VecBackup,
  {
    schedule,
    isNamespaceTerminating,
  }: { schedule?: SchedulePolicy | undefined; isNamespaceTerminating: boolean },
): DeletionAction {
  const annotations = [backup.metadata.annotations, schedule?.annotations]
  if (annotations.some((values) => values?.[ANNOTATIONS.retainObjects] === 'true')) return 'retain'
  if (isPruned(backup) || isExpired(backup)) return 'delete'
  const policies = [backup.spec.deletionPolicy, schedule?.deletionPolicy]
  if (policies.includes('Retain')) return 'retain'
  if (isNamespaceTerminating && !policies.includes('Delete')) return 'retain in a deleted namespace'
  return 'delete'
}

/** The schedule that made it; undefined for a backup by hand. */
export function scheduleOf({ metadata }: VecBackup): { name: string; uid: string } | undefined {
  const { ownerReferences = [] } = metadata
  return ownerReferences.find(
    ({ controller, kind }) => controller === true && kind === 'VecBackupSchedule',
  )
}

/** Condition of a backup that retentionDays deletes: a user who deletes it does not set it. */
export const EXPIRED = 'Expired'

export function isExpired(backup: VecBackup): boolean {
  return getCondition(backup, EXPIRED)?.status === 'True'
}

/** Its schedule wrote so before it deleted it. */
function isPruned({ metadata }: VecBackup): boolean {
  return metadata.annotations?.[ANNOTATIONS.pruned] !== undefined
}
