/**
 * Deletion of a VecBackupSchedule: the garbage collector deletes its backups too. Each backup must carry the
 * policy that decides whether its objects remain in the bucket, so deletion waits until all of them do.
 * No backups are created during deletion.
 */
import { REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { setConditions } from '../conditions.ts'
import type { Context, Desired, HookRequest } from '../protocol.ts'
import { desiredBackup, missingPolicy } from './backups.ts'
import { childrenOf, type Dependencies } from './observe.ts'

export interface Deletion {
  schedule: VecBackupSchedule
  children: VecBackup[]
  /** The owned backups, read live: the cache may not contain the newest backup or its annotation. */
  live: VecBackup[]
}

export async function observeDeletion(
  request: HookRequest<VecBackupSchedule>,
  { ports, lastSlots }: Dependencies,
): Promise<Deletion> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  lastSlots.delete(uid)
  const live = await ports.backupsOf({ namespace, name, uid })
  return { schedule, children: childrenOf(request), live }
}

export function finalize(
  { schedule, children, live }: Deletion,
  { now }: Context,
): Desired<BackupScheduleStatus> {
  const unchanged = children.map((backup) => desiredBackup(schedule, backup))
  const [unannotated] = live.flatMap((backup) => {
    const missing = missingPolicy(schedule, backup)
    return missing === undefined ? [] : [{ name: backup.metadata.name, missing }]
  })
  if (unannotated === undefined)
    return { status: schedule.status ?? {}, children: unchanged, finalized: true }
  const message = `waiting until backup ${unannotated.name} has ${unannotated.missing} or is deleted`
  const ready = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const
  return {
    status: { ...schedule.status, conditions: setConditions(schedule, [ready], now) },
    children: unchanged,
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
  }
}
