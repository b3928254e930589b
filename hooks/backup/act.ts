/** Makes the calls a decision about a VecBackup asks for. */
import type { BackupStatus } from '../../crds/backup.ts'
import type { Progress } from '../../crds/command.ts'
import { carryOut, type Writes } from '../carry-out.ts'
import type { Desired } from '../protocol.ts'
import type { BackupPorts, ObjectIdentity } from './ports.ts'

/** A decision: what goes on the wire, and what is to be written besides it. */
export interface Decision extends Desired<BackupStatus>, Writes {
  /** The resource has expired: it is to delete itself. */
  expire?: ObjectIdentity
  /** Takes the place of the report on the resource. */
  report?: Progress
  warnings?: string[]
}

/** What must be done stands before what only tells of it. */
export async function act(
  decision: Decision,
  backup: ObjectIdentity,
  ports: BackupPorts,
): Promise<void> {
  await carryOut(decision, ports)
  if (decision.report !== undefined) await ports.replaceReport(backup, decision.report)
  if (decision.expire !== undefined) await ports.deleteBackup(decision.expire)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  for (const warning of decision.warnings ?? []) ports.warn(backup, warning)
}
