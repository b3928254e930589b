/** The hooks of VecBackupSchedule: observe, decide, write Events. */
import { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { room, type Room } from '../room.ts'
import { BACKUP_CHILD_KIND } from './children.ts'
import { customize } from './customize.ts'
import { finalize, observeEnd } from './finalize.ts'
import { observe } from './observe.ts'
import type { BackupSchedulePorts } from './ports.ts'
import { sync } from './sync.ts'

export function backupScheduleRoom(ports: BackupSchedulePorts): Room {
  const reach = { ports, marks: new Map<string, Date | undefined>() }
  return room({
    resource: VecBackupSchedule,
    childKinds: [BACKUP_CHILD_KIND],
    customize,
    finalizeReads: ['schedule', 'suspend', 'deletionPolicy'],
    async sync(request, context) {
      const desired = sync(await observe(request, reach, context), context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      return desired
    },
    async finalize(request, context) {
      return finalize(await observeEnd(request, reach), context)
    },
  })
}
