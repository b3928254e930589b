/** Makes the calls a decision about a backup, restore or migration asks for. */
import type { KubernetesEvent, Secret } from '../crds/kubernetes.ts'
import type { CopyIdentity, CopyPorts } from './copies.ts'
import { writeLeases, type LeasePorts, type LeaseWrite } from './lease.ts'
import type { Desired } from './protocol.ts'

/** What is to be written besides the answer on the wire. */
export interface Writes {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: CopyIdentity[]
}

/** A decision: what goes on the wire, and what is to be written besides it. */
export type Decided<Status> = Desired<Status> & Writes

export interface WritePorts extends LeasePorts, CopyPorts {
  /** Deletes a Job with foreground propagation; one that is gone is fine. */
  deleteJob(job: NonNullable<Desired<unknown>['stop']>[number]): Promise<void>
}

/** Carries a decision out and then writes its Events: what must be done stands before what only tells of it. */
export async function act<Status>(
  decision: Decided<Status>,
  ports: WritePorts & { writeEvent(event: KubernetesEvent): Promise<void> },
): Promise<Decided<Status>> {
  await carryOut(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
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
