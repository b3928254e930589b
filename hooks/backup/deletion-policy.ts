/**
 * Decides what happens to the objects of a VecBackup under deletion. If retention or retentionDays
 * deleted it, its objects are deleted; if a user, a garbage collector or the deletion of its
 * namespace did, spec.deletionPolicy decides. The annotation retain-objects retains them in any
 * case.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { formatNames } from '../../crds/units.ts'
import { getCondition } from '../conditions.ts'

/** The policy of a live VecBackupSchedule: its backups may not have it yet. */
export interface SchedulePolicy {
  uid: string
  annotations?: Record<string, string>
  deletionPolicy?: string
}

export type DeletionAction =
  | 'delete'
  /** Requested by the user. */
  | 'retain'
  /** Not requested: the namespace is being deleted, and deletionPolicy is not set. */
  | 'retain in a deleted namespace'

export function deletionActionFor(
  backup: VecBackup,
  {
    schedule,
    isNamespaceTerminating,
  }: { schedule?: SchedulePolicy | undefined; isNamespaceTerminating: boolean },
): DeletionAction {
  const annotations = [backup.metadata.annotations, schedule?.annotations]
  if (annotations.some((values) => retains(values?.[ANNOTATIONS.retainObjects]))) return 'retain'
  if (isPruned(backup) || isExpired(backup)) return 'delete'
  const policies = [backup.spec.deletionPolicy, schedule?.deletionPolicy]
  if (policies.includes('Retain')) return 'retain'
  if (isNamespaceTerminating && !policies.includes('Delete')) return 'retain in a deleted namespace'
  return 'delete'
}

/** What the annotation retain-objects says. Any value but `false` retains: a misspelt one must delete nothing. */
export function retains(annotation: string | undefined): boolean {
  return annotation !== undefined && annotation.toLowerCase() !== 'false'
}

/** The schedule that created it; undefined for a manual backup. */
export function scheduleOf({ metadata }: VecBackup): { name: string; uid: string } | undefined {
  const { ownerReferences = [] } = metadata
  return ownerReferences.find(
    ({ controller, kind }) => controller === true && kind === 'VecBackupSchedule',
  )
}

/** The VecRestores that are to restore a backup and have not ended, by the name of the backup. */
export type BackupsToRestore = ReadonlyMap<string, readonly NamespacedName[]>

/** Number of VecRestores that a message names; the rest is only counted. */
const MAX_NAMED = 3

/** The restores that a backup is retained for, as messages name them, in an order that no read changes. */
export function formatRestores(restores: readonly NamespacedName[]): string {
  const names = restores.map(({ namespace, name }) => `VecRestore ${namespace}/${name}`).toSorted()
  return formatNames(names, MAX_NAMED)
}

/** Condition of a backup whose retentionDays have passed; True if they delete it. A user's deletion does not set it. */
export const EXPIRED = 'Expired'

export function isExpired(backup: VecBackup): boolean {
  return getCondition(backup, EXPIRED)?.status === 'True'
}

/** Its schedule recorded this before it deleted the backup. */
function isPruned({ metadata }: VecBackup): boolean {
  return metadata.annotations?.[ANNOTATIONS.pruned] !== undefined
}
