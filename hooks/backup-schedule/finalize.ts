/**
 * The end of a VecBackupSchedule: its backups go with it, as its own. Whether their objects stay in
 * the bucket stands on each of them, so that is waited for (hazard H2). Nothing is made on the way.
 */
import { SOON_SECONDS } from '../../crds/limits.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import { conditionsOf } from '../conditions.ts'
import type { Context, Desired, HookRequest } from '../protocol.ts'
import { isRetainedAs, keptBackup } from './children.ts'
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
  // What somebody deletes already is not ours to change any more.
  const bare = live.find(
    (backup) => backup.metadata.deletionTimestamp === undefined && !isRetainedAs(schedule, backup),
  )
  if (bare === undefined) return { status: schedule.status ?? {}, children: kept, finalized: true }
  const message = `waits until backup ${bare.metadata.name} carries ${ANNOTATIONS.retainObjects}`
  const ready = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const
  return {
    status: { ...schedule.status, conditions: conditionsOf(schedule, [ready], now) },
    children: kept,
    resyncAfterSeconds: SOON_SECONDS,
  }
}
