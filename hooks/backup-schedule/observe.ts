/** Reads what a decision about a VecBackupSchedule may know, and remembers which slots were done. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf } from '../request.ts'
import { BACKUP_CHILD_KIND, backupName, slotOf } from './backups.ts'
import { decide, type LiveState, type Observed } from './tick.ts'

export interface Dependencies {
  ports: BackupSchedulePorts
  /** By uid, the latest slot that had its backup: a status that could not be written forgets it. */
  lastSlots: Map<string, Date | undefined>
}

export async function observe(
  request: HookRequest<VecBackupSchedule>,
  { ports, lastSlots }: Dependencies,
  { now }: Context,
): Promise<Observed> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  // A status written from one that is shown late would go back for good.
  if (!lastSlots.has(uid))
    lastSlots.set(uid, reportedSlot(schedule, await ports.schedule(namespace, name)))
  const { bytes } = request
  const inRequest = {
    schedule,
    children: childrenOf(request),
    ...(bytes !== undefined && { bytes }),
  }
  const cached = withLastSlot(inRequest, lastSlots)
  const { create, prune, annotate } = decide(cached, now)
  if (create === undefined && prune.length + annotate.length === 0) return cached

  const [current, backups] = await Promise.all([
    ports.schedule(namespace, name),
    ports.backupsOf({ namespace, name, uid }),
  ])
  const live: LiveState = { backups, ...(current !== undefined && { schedule: current }) }
  const observed = withLastSlot({ ...cached, live }, lastSlots)
  const dueSlot = decide(observed, now).create
  const conflictingBackup = dueSlot && (await ports.backup(namespace, backupName(name, dueSlot)))
  return conflictingBackup === undefined
    ? observed
    : { ...observed, live: { ...live, conflictingBackup } }
}

export function childrenOf({ children }: HookRequest<VecBackupSchedule>): VecBackup[] {
  return objectsOf<VecBackup>(children, BACKUP_CHILD_KIND)
}

/**
 * A slot was done if the status says so, as shown or as read live, or if its backup is there, be it
 * on its way out. The backup may be gone and the status may go back one step: so it is remembered.
 */
function withLastSlot(observed: Observed, lastSlots: Map<string, Date | undefined>): Observed {
  const { schedule, children, live } = observed
  const { name, uid } = schedule.metadata
  const lastSlot = latestOf([
    lastSlots.get(uid),
    reportedSlot(schedule, schedule),
    reportedSlot(schedule, live?.schedule),
    ...[...children, ...(live?.backups ?? [])].map((backup) => slotOf(name, backup)),
  ])
  lastSlots.set(uid, lastSlot)
  return lastSlot === undefined ? observed : { ...observed, lastSlot }
}

/** What the status of this very schedule says. */
function reportedSlot(
  { metadata }: VecBackupSchedule,
  source?: VecBackupSchedule,
): Date | undefined {
  const time = source?.metadata.uid === metadata.uid ? source.status?.lastScheduleTime : undefined
  return time === undefined ? undefined : new Date(time)
}

function latestOf(times: (Date | undefined)[]): Date | undefined {
  // Those that are undefined come last in any order.
  return times.toSorted((a, b) => Number(b) - Number(a))[0]
}

/** Read live all of them: Metacontroller's cache may lag, and a decision to make or delete must not. */
export interface BackupSchedulePorts {
  /** The resource itself; undefined when it is gone. */
  schedule(namespace: string, name: string): Promise<VecBackupSchedule | undefined>
  /** The VecBackups with the schedule's label whose controller is this very uid. */
  backupsOf(schedule: { namespace: string; name: string; uid: string }): Promise<VecBackup[]>
  /** One VecBackup, whoever made it; undefined when there is none. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
