/** Ports of the VecCluster room over plain data, and a record of what was written through them. */
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import type { ClusterPorts } from '../../../hooks/cluster/ports.ts'

export interface Written {
  events: KubernetesEvent[]
  deleted: string[]
  leases: string[]
}

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<ClusterPorts> = {}): {
  ports: ClusterPorts
  written: Written
} {
  const written: Written = { events: [], deleted: [], leases: [] }
  const ports: ClusterPorts = {
    secret: async () => undefined,
    jobsOf: async () => [],
    lease: async () => undefined,
    takeLease: async ({ metadata }) => written.leases.push(`take ${metadata.name}`) > 0,
    dropLease: async ({ metadata }) => written.leases.push(`drop ${metadata.name}`) > 0,
    unfinishedHelmJobs: async () => 0,
    cluster: async () => undefined,
    statefulSet: async () => undefined,
    pods: async () => [],
    namespaceEnds: async () => false,
    consensus: async () => [{ ordinal: 0, state: 'working' }],
    deleteJob: async ({ name }) => void written.deleted.push(name),
    writeEvent: async (event) => void written.events.push(event),
    ...answers,
  }
  return { ports, written }
}
