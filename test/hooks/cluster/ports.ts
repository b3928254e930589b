/** Ports of the VecCluster hooks over plain data, and a record of what was written through them. */
import type { ConfigMap, KubernetesEvent } from '../../../crds/kubernetes.ts'
import type { ClusterPorts } from '../../../hooks/cluster/ports.ts'
import { placedShards } from './shards.ts'

export interface RecordedWrites {
  events: KubernetesEvent[]
  deleted: string[]
  leases: string[]
  configMaps: ConfigMap[]
  validKeys: (readonly string[])[]
}

/** Ports that find nothing, unless a test says otherwise. */
export function fakePorts(overrides: Partial<ClusterPorts> = {}): {
  ports: ClusterPorts
  writes: RecordedWrites
} {
  const writes: RecordedWrites = {
    ...{ events: [], deleted: [], leases: [], configMaps: [] },
    validKeys: [],
  }
  const ports: ClusterPorts = {
    secret: async () => undefined,
    liveSecret: overrides.secret ?? (async () => undefined),
    nodeKeys: async () => [],
    tokensSignedWith: async () => [],
    keepKeys: async (_, fingerprints) => void writes.validKeys.push(fingerprints),
    jobsOf: async () => [],
    holderState: async () => 'unfinished',
    lease: async () => undefined,
    writeLease: async ({ metadata }) => writes.leases.push(`take ${metadata.name}`) > 0,
    deleteLease: async ({ metadata }) => writes.leases.push(`drop ${metadata.name}`) > 0,
    configMap: async () => undefined,
    writeConfigMap: async (configMap) => writes.configMaps.push(configMap) > 0,
    unfinishedHelmJobs: async () => 0,
    cluster: async () => undefined,
    statefulSet: async () => undefined,
    missingObjects: async () => [],
    schedule: async () => undefined,
    backup: async () => undefined,
    pods: async () => [],
    isNamespaceTerminating: async () => false,
    consensus: async () => [{ ordinal: 0, state: 'working' }],
    shards: async (query) => placedShards(query),
    retainedVolumes: async () => [],
    conflictingWork: async () => [],
    deleteJob: async ({ name }) => void writes.deleted.push(name),
    writeEvent: async (event) => void writes.events.push(event),
    ...overrides,
  }
  return { ports, writes }
}
