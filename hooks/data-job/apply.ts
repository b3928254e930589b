/** Makes the calls a decision about a backup, restore or migration asks for. */
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { SecretCopyIdentity, SecretCopyPorts } from './secret-copies.ts'
import { writeLeases, type LeasePorts, type LeaseWrite } from '../lease.ts'
import type { Desired } from '../protocol.ts'

/** What is to be written besides the answer on the wire. */
export interface SideEffects {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: SecretCopyIdentity[]
}

/** A decision: what goes on the wire, and what is to be written besides it. */
export type DataJobDecision<Status> = Desired<Status> & SideEffects

export interface SideEffectPorts extends LeasePorts, SecretCopyPorts {
  /** Deletes a Job with foreground propagation; one that is gone is fine. */
  deleteJob(job: NonNullable<Desired<unknown>['deleteJobs']>[number]): Promise<void>
}

/** Carries a decision out and then writes its Events: what must be done stands before what only tells of it. */
export async function applyDecision<Status>(
  decision: DataJobDecision<Status>,
  ports: SideEffectPorts & { writeEvent(event: KubernetesEvent): Promise<void> },
): Promise<DataJobDecision<Status>> {
  await applySideEffects(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
}

/** In this order: a Job that is to go goes before the next may come. */
export async function applySideEffects(
  decision: SideEffects & Pick<Desired<unknown>, 'deleteJobs'>,
  ports: SideEffectPorts,
): Promise<void> {
  const { deleteJobs: stop = [], leases = [], writeCopies = [], deleteCopies = [] } = decision
  for (const job of stop) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  for (const copy of writeCopies) await ports.writeSecretCopy(copy)
  for (const copy of deleteCopies) await ports.deleteSecretCopy(copy)
}
