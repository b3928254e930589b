/** What the VecCollection room reads and writes, by the real clients; one list of claims for all. */
import { Value } from '@sinclair/typebox/value'
import { VecCluster } from '../crds/cluster.ts'
import { VecCollection } from '../crds/collection.ts'
import { AnyObject } from '../crds/kubernetes.ts'
import { API_VERSION } from '../crds/names.ts'
import { clusterOf } from '../hooks/collection/claims.ts'
import type { CollectionPorts } from '../hooks/collection/ports.ts'
import { holderNow } from '../hooks/lease.ts'
import { EngineCollections } from '../jobs/clients/engine-collections.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { engineOn, type EngineTools } from './engines.ts'
import { leasePorts } from './leases.ts'
import { remember } from './remember.ts'
import type { Timers } from './start-mark.ts'

export interface CollectionTools extends EngineTools {
  writeEvent: CollectionPorts['writeEvent']
  /** Those the service may read; empty means all. */
  namespaces: string[]
  now: () => Date
  timers: Timers
}

const CLAIMS_SECONDS = 5

export function collectionPorts(tools: CollectionTools): CollectionPorts {
  const { kubernetes, namespaces, now, timers } = tools
  const claims = remember(() => collectionsIn(kubernetes, namespaces), CLAIMS_SECONDS, now)
  return {
    engine: (connection) => new EngineCollections(engineOn(tools, connection)),
    collectionsOf: async ({ namespace, name }) =>
      ((await claims()) ?? []).filter((collection) => {
        const cluster = clusterOf(collection)
        return cluster.namespace === namespace && cluster.name === name
      }),
    cluster: ({ namespace, name }) =>
      kubernetes.get(resources(VecCluster.plural, namespace), name, VecCluster.schema),
    writeHolder: (cluster) => holderNow(cluster, 'write', leasePorts(kubernetes), now()),
    writeEvent: tools.writeEvent,
    now,
    wait: (milliseconds, signal) => waited(timers, milliseconds, signal),
  }
}

/** One that an older CRD let in and ours cannot read must not stand in the way of all others. */
async function collectionsIn(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<VecCollection[]> {
  const places = namespaces.length === 0 ? [undefined] : namespaces
  const lists = places.map((namespace) =>
    kubernetes.list(resources(VecCollection.plural, namespace), AnyObject),
  )
  const all: unknown[] = (await Promise.all(lists)).flat()
  return all.filter((object) => Value.Check(VecCollection.schema, object))
}

function waited(timers: Timers, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      cancel()
      reject(new Error('the wait was ended'))
    }
    const cancel = timers.setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, milliseconds)
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
}

function resources(plural: string, namespace: string | undefined) {
  return { apiVersion: API_VERSION, plural, ...(namespace !== undefined && { namespace }) }
}
