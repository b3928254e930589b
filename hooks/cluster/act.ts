/** Makes the calls a decision about a VecCluster asks for. */
import type { Desired } from '../protocol.ts'
import type { ClusterPorts } from './ports.ts'

export async function act({ events = [], stop = [] }: Desired<unknown>, ports: ClusterPorts) {
  for (const job of stop) await ports.deleteJob(job)
  for (const event of events) await ports.writeEvent(event)
}
