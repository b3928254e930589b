/** Applies the side effects of a decision about a backup, restore or migration. */
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { SecretCopyIdentity, SecretCopyPorts } from './secret-copies.ts'
import { writeLeases, type LeasePorts, type LeaseWrite } from '../lease.ts'
import type { Desired } from '../protocol.ts'

/** Writes that a decision needs in addition to the answer. */
export interface SideEffects {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: SecretCopyIdentity[]
}

/** A decision: the answer and its side effects. */
export type DataJobDecision<Status> = Desired<Status> & SideEffects

export interface SideEffectPorts extends LeasePorts, SecretCopyPorts {
  /** Deletes a Job with foreground propagation; ignored if it is already gone. */
  deleteJob(job: NonNullable<Desired<unknown>['deleteJobs']>[number]): Promise<void>
}

/**
 * Applies a decision, then writes its Events: required writes come before those that only report
 * them.
 */
export async function applyDecision<Status>(
  decision: DataJobDecision<Status>,
  ports: SideEffectPorts & { writeEvent(event: KubernetesEvent): Promise<void> },
): Promise<DataJobDecision<Status>> {
  await applySideEffects(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
}

/** Applies the writes in this order: a Job is deleted before the next may be created. */
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
