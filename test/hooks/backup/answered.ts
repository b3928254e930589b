/** Answers of the VecBackup room to whole requests. */
import { VecBackup, type BackupStatus } from '../../../crds/backup.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { backupRights } from '../../../hooks/backup/children.ts'
import { backupRoom } from '../../../hooks/backup/index.ts'
import type { BackupPorts } from '../../../hooks/backup/ports.ts'
import { guardOf } from '../../../hooks/guard.ts'
import type { Desired, HookRequest } from '../../../hooks/protocol.ts'
import { context } from '../../builders.ts'
import { backup, report } from './objects.ts'
import { portsOf } from './ports.ts'

export const rights = backupRights(backup())

export type Asked = HookRequest<VecBackup>

/** Every answer passes the guard. */
export async function answered(
  hook: 'sync' | 'finalize',
  asked: Asked,
  answers: Partial<BackupPorts> = {},
  at = context,
) {
  const { ports, written } = portsOf(answers)
  const room = backupRoom(ports)
  const desired = (await room[hook]?.(asked, at)) as Desired<BackupStatus>
  guardOf(room)(asked, desired, hook)
  return { desired, written }
}

export function withReport(
  parts: Parameters<typeof report>[0],
  more: Parameters<typeof backup>[0] = {},
) {
  const annotations = { ...more.annotations, [ANNOTATIONS.progress]: JSON.stringify(report(parts)) }
  return backup({ ...more, annotations })
}
