/**
 * Deletion of a VecBackupSchedule: the garbage collector deletes its backups too. Each backup must carry the
 * policy that decides whether its objects remain in the bucket, so deletion waits until all of them do.
 * No backups are created during deletion, and a restore drill is ended first.
 */
import { REQUEUE_SOON_SECONDS } from '../../crds/contract/limits.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { BackupScheduleStatus, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { setConditions } from '../conditions.ts'
import type { Child, Context, Desired, HookRequest } from '../protocol.ts'
import { desiredBackup, missingPolicy } from './backups.ts'
import { withoutDrill } from './drill-objects.ts'
import { childrenOf, drillChildrenOf, type Dependencies } from './observe.ts'

export interface Deletion {
  schedule: VecBackupSchedule
  children: VecBackup[]
  /** The owned backups, read live: the cache may not contain the newest backup or its annotation. */
  live: VecBackup[]
  /** VecCluster and VecRestore of a restore drill. */
  drill?: AnyObject[]
}

export async function observeDeletion(
  request: HookRequest<VecBackupSchedule>,
  { ports, lastSlots, requested }: Dependencies,
): Promise<Deletion> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  lastSlots.delete(uid)
  requested.delete(uid)
  const live = await ports.backupsOf({ namespace, name, uid })
  return { schedule, children: childrenOf(request), live, drill: drillChildrenOf(request) }
}

export function finalize(
  { schedule, children, live, drill = [] }: Deletion,
  { now }: Context,
): Desired<BackupScheduleStatus> {
  const backups = children.map((backup) => desiredBackup(schedule, backup))
  if (drill.length > 0) {
    const { metadata } = drill[0] ?? schedule
    const message = `waiting until the objects of restore drill ${metadata.name} are deleted`
    // Also with --cascade=orphan, which would leave both.
    const { children: left, pruned } = withoutDrill(drill, 'the schedule is being deleted')
    return { ...waiting(schedule, [...backups, ...left], message, now), pruned }
  }
  const [unannotated] = live.flatMap((backup) => {
    const missing = missingPolicy(schedule, backup)
    return missing === undefined ? [] : [{ name: backup.metadata.name, missing }]
  })
  if (unannotated === undefined)
    return { status: schedule.status ?? {}, children: backups, finalized: true }
  const message = `waiting until backup ${unannotated.name} has ${unannotated.missing} or is deleted`
  return waiting(schedule, backups, message, now)
}

function waiting(
  schedule: VecBackupSchedule,
  children: Child[],
  message: string,
  now: Date,
): Desired<BackupScheduleStatus> {
  const ready = { type: 'Ready', status: 'False', reason: 'Deleting', message } as const
  return {
    status: { ...schedule.status, conditions: setConditions(schedule, [ready], now) },
    children,
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
  }
}
