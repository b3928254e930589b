/** Makes the calls a decision about a VecCluster asks for. */
import { writeLeases, type LeaseWrite } from '../lease.ts'
import type { Desired } from '../protocol.ts'
import type { ClusterPorts } from './ports.ts'

/** In this order: a Job that is to go goes before another holder may begin. */
export async function act(
  { events = [], stop = [], leases = [] }: Desired<unknown> & { leases?: LeaseWrite[] },
  ports: ClusterPorts,
): Promise<void> {
  for (const job of stop) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  for (const event of events) await ports.writeEvent(event)
}
