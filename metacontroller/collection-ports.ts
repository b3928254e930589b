/** What the VecCollection room reads and writes, by the real clients; one list of claims for all. */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { VecCluster } from '../crds/cluster.ts'
import { VecCollection } from '../crds/collection.ts'
import { AnyObject } from '../crds/kubernetes.ts'
import { clusterOf } from '../hooks/collection/claims.ts'
import type { CollectionPorts } from '../hooks/collection/ports.ts'
import { holderNow } from '../hooks/lease.ts'
import { EngineCollections } from '../jobs/clients/engine-collections.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { commonPorts } from './common-ports.ts'
import { engineOn, type EngineTools } from './engines.ts'
import { leasePorts } from './leases.ts'
import { clusters, collections, served } from './places.ts'
import { waited, type Timers } from './timers.ts'
import { watched, type WritesUnderWay } from './writes-under-way.ts'

export interface CollectionTools extends EngineTools {
  /** Those the service may read; empty means all. */
  namespaces: string[]
  now: () => Date
  timers: Timers
  writes: WritesUnderWay
}

const CLAIMS_MS = 5_000
/** A list may hold thousands, and is read again and again. */
const isCollection = TypeCompiler.Compile(VecCollection.schema)

export function collectionPorts(tools: CollectionTools): CollectionPorts {
  const { kubernetes, namespaces, now, timers, writes } = tools
  const claims = new Claims(() => collectionsIn(kubernetes, namespaces), now)
  return {
    engine: (connection) =>
      watched(new EngineCollections(engineOn(tools, connection)), connection, writes),
    collectionsOf: async ({ namespace, name }, asking) =>
      (await claims.seenBy(asking)).filter((collection) => {
        const cluster = clusterOf(collection)
        return cluster.namespace === namespace && cluster.name === name
      }),
    cluster: ({ namespace, name }) => kubernetes.get(clusters(namespace), name, VecCluster.schema),
    // From the question on: its answer may be older than a Lease that is taken meanwhile.
    writeHolder: (cluster) =>
      writes.during(cluster, 'a write that is about to be made', () =>
        holderNow(cluster, 'write', leasePorts(kubernetes), now()),
      ),
    writeEvent: commonPorts(tools).writeEvent,
    now,
    wait: (milliseconds, signal) => waited(timers, milliseconds, signal),
  }
}

/** One that an older CRD let in and ours cannot read must not stand in the way of all others. */
async function collectionsIn(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<VecCollection[]> {
  const lists = served(collections, namespaces).map((place) => kubernetes.list(place, AnyObject))
  const all: unknown[] = (await Promise.all(lists)).flat()
  return all.filter((object) => isCollection.Check(object))
}

/** One list for all who ask within some seconds, unless it is older than who asks. */
class Claims {
  readonly #load: () => Promise<VecCollection[]>
  readonly #now: () => Date
  #list: { at: number; items: Promise<VecCollection[]> } | undefined

  constructor(load: () => Promise<VecCollection[]>, now: () => Date) {
    this.#load = load
    this.#now = now
  }

  /**
   * Two that are made within seconds of each other may want the same name: the list that shows the
   * later one shows the earlier one too.
   */
  async seenBy({ metadata: { uid, generation } }: VecCollection): Promise<VecCollection[]> {
    const known = this.#list
    if (known === undefined || this.#now().getTime() - known.at >= CLAIMS_MS) return this.#read()
    const items = await known.items
    const own = items.find(({ metadata }) => metadata.uid === uid)
    if (own !== undefined && own.metadata.generation >= generation) return items
    // Another one may have read it anew meanwhile.
    return this.#list === known || this.#list === undefined ? this.#read() : this.#list.items
  }

  #read(): Promise<VecCollection[]> {
    const list = { at: this.#now().getTime(), items: this.#load() }
    this.#list = list
    list.items.catch(() => {
      if (this.#list === list) this.#list = undefined
    })
    return list.items
  }
}
