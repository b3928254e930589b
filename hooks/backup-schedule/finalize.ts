/**
 * Deletion of a VecBackupSchedule: its backups are deleted with it, by the garbage collector. Whether their
 * objects stay in the bucket is written on each of them, so deletion waits for that (hazard H2). Nothing
 * is created meanwhile.
 */
import { SOON_SECONDS } from '../../crds/limits.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { conditionsOf } from '../conditions.ts'
import type { Context, Desired, HookRequest } from '../protocol.ts'
import { keptBackup, missingPolicy } from './children.ts'
import { childrenOf, type Reach } from './observe.ts'

export interface End {
  schedule: VecBackupSchedule
  children: VecBackup[]
  /** Our backups as they are now: the cache may not show the newest one, or its annotation. */
  live: VecBackup[]
}

export async function observeEnd(
  request: HookRequest<VecBackupSchedule>,
  { ports, marks }: Reach,
): Promise<End> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  marks.delete(uid)
  const live = await ports.backupsOf({ namespace, name, uid })
  return { schedule, children: childrenOf(request), live }
}

export function finalize(
  { schedule, children, live }: End,
  { now }: Context,
): Desired<BackupScheduleStatus> {
  const kept = children.map((backup) => keptBackup(schedule, backup))
  const [bare] = live.flatMap((backup) => {
    const missing = missingPolicy(schedule, backup)
    return missing === undefined ? [] : [{ name: backup.metadata.name, missing }]
  })
  if (bare === undefined) return { status: schedule.status ?? {}, children: kept, finalized: true }
  const message = `waits until backup ${bare.name} carries ${bare.missing}, or is gone`
  const ready = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const
  return {
    status: { ...schedule.status, conditions: conditionsOf(schedule, [ready], now) },
    children: kept,
    resyncAfterSeconds: SOON_SECONDS,
  }
}
