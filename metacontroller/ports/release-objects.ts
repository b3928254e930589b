/** Which objects of the Helm release of a VecCluster exist. */
import { AnyObject } from '../../crds/kubernetes.ts'
import type { ClusterPorts, ReleaseObject } from '../../hooks/cluster/ports.ts'
import {
  configMaps,
  podDisruptionBudgets,
  secrets,
  serviceAccounts,
  services,
  type ApiResourceFn,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { hasStatus } from './common.ts'
import { ttlCache } from './ttl-cache.ts'

const RESOURCES: Record<ReleaseObject['kind'], ApiResourceFn> = {
  Service: services,
  ConfigMap: configMaps,
  ServiceAccount: serviceAccounts,
  Secret: secrets,
  PodDisruptionBudget: podDisruptionBudgets,
}

/** Each sync of each cluster asks for up to six objects. */
const TTL_SECONDS = 60

export function missingObjectsPort(
  kubernetes: Kubernetes,
  now: () => Date,
): ClusterPorts['missingObjects'] {
  // Only that an object exists stays in memory, and what is missing is never cached.
  const exists = ttlCache(
    (kind: string, namespace: string, name: string) =>
      objectExists(kubernetes, { kind: kind as ReleaseObject['kind'], name }, namespace),
    TTL_SECONDS,
    now,
  )
  return async (namespace, objects) => {
    const found = await Promise.all(objects.map(({ kind, name }) => exists(kind, namespace, name)))
    return objects.filter((_, index) => found[index] === undefined)
  }
}

async function objectExists(
  kubernetes: Kubernetes,
  { kind, name }: ReleaseObject,
  namespace: string,
): Promise<true | undefined> {
  try {
    const found = await kubernetes.get(RESOURCES[kind](namespace), name, AnyObject)
    return found === undefined ? undefined : true
  } catch (error) {
    // An installation with a former ClusterRole: nothing is known, and clusters must still be reconciled.
    if (hasStatus(error, 403)) return true
    throw error
  }
}
