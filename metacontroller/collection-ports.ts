/** What the VecCollection room reads and writes, by the real clients; one list of claims for all. */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { VecCollection } from '../crds/collection.ts'
import { claimOf, clusterOf, type Claim } from '../hooks/collection/claims.ts'
import type { CollectionPorts } from '../hooks/collection/ports.ts'
import { holderNow } from '../hooks/lease.ts'
import { EngineCollections } from '../jobs/clients/engine-collections.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { AdmittedCluster, commonPorts } from './common-ports.ts'
import { engineOn, type EngineTools } from './engines.ts'
import { leasePorts } from './leases.ts'
import { clusters, collections, served } from './places.ts'
import { waited, type Timers } from './timers.ts'
import { watched, type WritesUnderWay } from './writes-under-way.ts'

export interface CollectionTools extends EngineTools {
  /** Those the service may read; empty means all. */
  namespaces: string[]
  /** Keys that sign our Jobs (hooks/signature.ts). */
  jobKeys: () => readonly string[]
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
    cluster: ({ namespace, name }) => kubernetes.get(clusters(namespace), name, AdmittedCluster),
    // From the question on: its answer may be older than a Lease that is taken meanwhile.
    writeHolder: (cluster, isAllowed) =>
      writes.during(cluster, 'a write that is about to be made', () => {
        const rules = { isAllowed, jobKeys: tools.jobKeys(), now: now() }
        return holderNow(cluster, 'write', leasePorts(kubernetes), rules)
      }),
    writeEvent: commonPorts(tools).writeEvent,
    now,
    wait: (milliseconds, signal) => waited(timers, milliseconds, signal),
  }
}

/** One that an older CRD let in and ours cannot read must not stand in the way of all others. */
async function collectionsIn(kubernetes: Kubernetes, namespaces: string[]): Promise<Claim[]> {
  const lists = served(collections, namespaces).map((place) =>
    kubernetes.collect(place, {}, (object: unknown) =>
      isCollection.Check(object) ? claimOf(object) : undefined,
    ),
  )
  return (await Promise.all(lists)).flat()
}

/** One list for all who ask within some seconds, unless it is older than who asks. */
class Claims {
  readonly #load: () => Promise<Claim[]>
  readonly #now: () => Date
  #list: { at: number; isRead: boolean; items: Promise<Claim[]> } | undefined

  constructor(load: () => Promise<Claim[]>, now: () => Date) {
    this.#load = load
    this.#now = now
  }

  /**
   * Two that are made within seconds of each other may want the same name: the list that shows the
   * later one shows the earlier one too.
   */
  async seenBy({ metadata: { uid, generation } }: VecCollection): Promise<Claim[]> {
    const known = this.#list
    const isOld = known?.isRead === true && this.#now().getTime() - known.at >= CLAIMS_MS
    // One that is being read is waited for, however long that takes: two at once would be twice the memory.
    if (known === undefined || isOld) return this.#read()
    const items = await known.items
    const own = items.find(({ metadata }) => metadata.uid === uid)
    if (own !== undefined && own.metadata.generation >= generation) return items
    // Another one may have read it anew meanwhile.
    return this.#list === known || this.#list === undefined ? this.#read() : this.#list.items
  }

  #read(): Promise<Claim[]> {
    const list = { at: this.#now().getTime(), isRead: false, items: this.#load() }
    this.#list = list
    list.items.then(
      () => (list.isRead = true),
      () => {
        if (this.#list === list) this.#list = undefined
      },
    )
    return list.items
  }
}
