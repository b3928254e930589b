/** Makes the calls a decision about a VecBackup asks for. */
import type { BackupStatus } from '../../crds/backup.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { writeLeases, type LeaseWrite } from '../lease.ts'
import type { Desired } from '../protocol.ts'
import type { BackupPorts, ObjectIdentity, ObjectName } from './ports.ts'

/** A decision: what goes on the wire, and what is to be written besides it. */
export interface Decision extends Desired<BackupStatus> {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: (ObjectName & { ownerUid: string })[]
  /** The resource has expired: it is to delete itself. */
  expire?: ObjectIdentity
  warnings?: string[]
}

/** What must be done stands before what only tells of it. */
export async function act(
  decision: Decision,
  backup: ObjectName,
  ports: BackupPorts,
): Promise<void> {
  const { stop = [], leases = [], writeCopies = [], deleteCopies = [], expire } = decision
  for (const job of stop) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  for (const copy of writeCopies) await ports.writeCopy(copy)
  for (const copy of deleteCopies) await ports.deleteCopy(copy)
  if (expire !== undefined) await ports.deleteBackup(expire)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  for (const warning of decision.warnings ?? []) ports.warn(backup, warning)
}
