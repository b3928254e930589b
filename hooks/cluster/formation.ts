/**
 * The record that a cluster was formed: a ConfigMap that node 0 reads before it starts
 * (bootstrap-guard.ts). It is a fact that was observed once, not a guess from a timeout.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import {
  API_VERSION,
  FORMATION_NODES_KEY,
  formationConfigMapName,
  LABELS,
  MANAGED_BY,
} from '../../crds/contract/names.ts'
import type { ConfigMap } from '../../crds/kubernetes.ts'
import { getCondition } from '../conditions.ts'
import { isConsensusWorking } from './consensus.ts'
import type { FormationPorts, Observed } from './observed.ts'

/**
 * The number of nodes to record: that of the cluster once every pod is a member of one consensus, else
 * the recorded one. A single node has nothing to join, so it is recorded only if it once had others.
 */
export function formedNodes(observed: Observed, isRolledOut: boolean): number | undefined {
  const { cluster, statefulSet } = observed
  const recorded = cluster.status?.formedNodes
  const nodes = statefulSet?.spec.replicas ?? 1
  if (!cluster.spec.cluster.enabled || !isRolledOut) return recorded
  if (!isConsensusWorking(observed, nodes)) return recorded
  return nodes > 1 || recorded !== undefined ? nodes : undefined
}

/**
 * The record to store: when the number changes, and whenever consensus starts to work, because a user may
 * have deleted the ConfigMap to found the cluster again.
 */
export function formationRecord(
  cluster: VecCluster,
  { formedNodes: nodes, conditions = [] }: ClusterStatus,
): ConfigMap | undefined {
  if (nodes === undefined) return undefined
  const isWorking = conditions.some(({ type, status }) => type === 'Consensus' && status === 'True')
  const wasWorking = getCondition(cluster, 'Consensus')?.status === 'True'
  const isRecorded = nodes === cluster.status?.formedNodes && (wasWorking || !isWorking)
  if (isRecorded) return undefined
  const { namespace, name, uid } = cluster.metadata
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace,
      name: formationConfigMapName(name),
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    data: { [FORMATION_NODES_KEY]: String(nodes) },
  }
}

/**
 * Stores the record. Only the data that the record names change in a ConfigMap that exists. Throws if
 * another writer was faster: the hook fails, and its retry reads the ConfigMap again.
 */
export async function writeFormation(record: ConfigMap, ports: FormationPorts): Promise<void> {
  const { namespace = '', name } = record.metadata
  const live = await ports.configMap(namespace, name)
  const data = { ...live?.data, ...record.data }
  const { resourceVersion } = live?.metadata ?? {}
  const metadata = {
    ...record.metadata,
    ...(resourceVersion !== undefined && { resourceVersion }),
  }
  const isStored =
    isDeepStrictEqual(live?.data, data) &&
    isDeepStrictEqual(live?.metadata.ownerReferences, metadata.ownerReferences)
  if (isStored || (await ports.writeConfigMap({ ...record, metadata, data }))) return
  throw new KubernetesError(`ConfigMap ${namespace}/${name} has changed since it was read`, {
    status: 409,
  })
}
