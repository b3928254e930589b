/** Reads what a decision about a VecBackupSchedule may know, and remembers which slots were done. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { objectsOf } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { BACKUP_CHILD_KIND, backupName, slotOf } from './children.ts'
import { decide } from './decision.ts'
import type { BackupSchedulePorts } from './ports.ts'
import type { Observed, Live } from './observed.ts'

export interface Reach {
  ports: BackupSchedulePorts
  /** By uid, the latest slot that had its backup: a status that could not be written forgets it. */
  marks: Map<string, Date | undefined>
}

export async function observe(
  request: HookRequest<VecBackupSchedule>,
  { ports, marks }: Reach,
  { now }: Context,
): Promise<Observed> {
  const schedule = request.parent
  const { namespace, name, uid } = schedule.metadata
  // A status written from one that is shown late would go back for good.
  if (!marks.has(uid)) marks.set(uid, lastSlot(schedule, await ports.schedule(namespace, name)))
  const { bytes } = request
  const shown = { schedule, children: childrenOf(request), ...(bytes !== undefined && { bytes }) }
  const cached = withMark(shown, marks)
  const { create, drop, mark } = decide(cached, now)
  if (create === undefined && drop.length + mark.length === 0) return cached

  const [current, backups] = await Promise.all([
    ports.schedule(namespace, name),
    ports.backupsOf({ namespace, name, uid }),
  ])
  const live: Live = { backups, ...(current !== undefined && { schedule: current }) }
  const observed = withMark({ ...cached, live }, marks)
  const due = decide(observed, now).create
  const wanted = due && (await ports.backup(namespace, backupName(name, due)))
  return wanted === undefined ? observed : { ...observed, live: { ...live, namesake: wanted } }
}

export function childrenOf({ children }: HookRequest<VecBackupSchedule>): VecBackup[] {
  return objectsOf<VecBackup>(children, BACKUP_CHILD_KIND)
}

/**
 * A slot was done if the status says so, as shown or as read live, or if its backup is there, be it
 * on its way out. The backup may be gone and the status may go back one step: so it is remembered.
 */
function withMark(observed: Observed, marks: Map<string, Date | undefined>): Observed {
  const { schedule, children, live } = observed
  const { name, uid } = schedule.metadata
  const doneUntil = latest([
    marks.get(uid),
    lastSlot(schedule, schedule),
    lastSlot(schedule, live?.schedule),
    ...[...children, ...(live?.backups ?? [])].map((backup) => slotOf(name, backup)),
  ])
  marks.set(uid, doneUntil)
  return doneUntil === undefined ? observed : { ...observed, doneUntil }
}

/** What the status of this very schedule says. */
function lastSlot({ metadata }: VecBackupSchedule, seen?: VecBackupSchedule): Date | undefined {
  const time = seen?.metadata.uid === metadata.uid ? seen.status?.lastScheduleTime : undefined
  return time === undefined ? undefined : new Date(time)
}

function latest(times: (Date | undefined)[]): Date | undefined {
  // Those that are undefined come last in any order.
  return times.toSorted((one, other) => Number(other) - Number(one))[0]
}
