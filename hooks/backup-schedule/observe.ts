/** Reads the state a decision about a VecBackupSchedule is based on, and remembers the last slot of each. */
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { clusterAccessBlocker } from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf, relatedClusters } from '../request.ts'
import { BACKUP_CHILD_KIND, backupName, slotOf } from './backups.ts'
import { decide, type LiveState, type Observed } from './tick.ts'

export interface Dependencies {
  ports: BackupSchedulePorts
  /** By uid: the latest slot that had its backup, which a failed status write would lose. */
  lastSlots: Map<string, Date | undefined>
}

export async function observe(
  request: HookRequest<VecBackupSchedule>,
  { ports, lastSlots }: Dependencies,
  { now, settings }: Context,
): Promise<Observed> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  // A status derived from a stale cache would permanently set the last slot back, so read it live once.
  if (!lastSlots.has(uid))
    lastSlots.set(uid, reportedSlot(schedule, await ports.schedule(namespace, name)))
  const { bytes } = request
  const [cluster] = relatedClusters(request.related)
  const isPermitted =
    cluster !== undefined && clusterAccessBlocker(cluster, namespace, settings) === undefined
  const inRequest = {
    schedule,
    children: childrenOf(request),
    ...(isPermitted && { cluster }),
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
 * A slot had its backup if the cached or the live status says so, or if the backup exists, even while it is
 * being deleted. The backup may disappear and the status may be stale, so the last slot is also remembered.
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

/** The last slot in the status, unless the object is a different schedule of the same name. */
function reportedSlot(
  { metadata }: VecBackupSchedule,
  source?: VecBackupSchedule,
): Date | undefined {
  const time = source?.metadata.uid === metadata.uid ? source.status?.lastScheduleTime : undefined
  return time === undefined ? undefined : new Date(time)
}

function latestOf(times: (Date | undefined)[]): Date | undefined {
  // toSorted always moves undefined to the end.
  return times.toSorted((a, b) => Number(b) - Number(a))[0]
}

/** All reads are live: Metacontroller's cache may lag, and decisions to create or delete must not. */
export interface BackupSchedulePorts {
  /** The schedule; undefined if it does not exist. */
  schedule(namespace: string, name: string): Promise<VecBackupSchedule | undefined>
  /** The VecBackups with the schedule's label whose controller has this uid. */
  backupsOf(schedule: { namespace: string; name: string; uid: string }): Promise<VecBackup[]>
  /** A VecBackup of any owner; undefined if it does not exist. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
