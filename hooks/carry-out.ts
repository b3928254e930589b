/** Makes the calls a decision about a backup, restore or migration asks for. */
import type { Secret } from '../crds/kubernetes.ts'
import type { CopyIdentity, CopyPorts } from './copies.ts'
import { writeLeases, type LeasePorts, type LeaseWrite } from './lease.ts'
import type { Desired } from './protocol.ts'

/** What is to be written besides the answer on the wire. */
export interface Writes {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: CopyIdentity[]
}

export interface WritePorts extends LeasePorts, CopyPorts {
  /** Deletes a Job with foreground propagation; one that is gone is fine. */
  deleteJob(job: NonNullable<Desired<unknown>['stop']>[number]): Promise<void>
}

/** In this order: a Job that is to go goes before the next may come. */
export async function carryOut(
  decision: Writes & Pick<Desired<unknown>, 'stop'>,
  ports: WritePorts,
): Promise<void> {
  const { stop = [], leases = [], writeCopies = [], deleteCopies = [] } = decision
  for (const job of stop) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  for (const copy of writeCopies) await ports.writeCopy(copy)
  for (const copy of deleteCopies) await ports.deleteCopy(copy)
}
