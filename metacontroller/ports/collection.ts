/**
 * Implements the ports of VecCollection with the real clients. All collections share one list of
 * claims on collection names. Tracks the writes in progress, which a restore waits for.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { VecCollection } from '../../crds/collection.ts'
import { ObjectMeta } from '../../crds/schema.ts'
import {
  isOfCluster,
  toClaim,
  type Claim,
  type ClaimList,
} from '../../crds/collection-ownership.ts'
import type { CollectionEngine, CollectionPorts } from '../../hooks/collection/ports.ts'
import { currentHolder } from '../../hooks/lease.ts'
import { lenientFields, lenientSchema } from '../../hooks/protocol.ts'
import { isNamespaceWatched } from '../../hooks/cross-namespace.ts'
import { EngineCollections } from '../../jobs/clients/engine/collections.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { delay, type Timers } from '../runtime.ts'
import { inNamespaces, clusters, collections } from '../../jobs/clients/kubernetes/api-resources.ts'
import { commonPorts, leasePorts, LenientCluster, listReadable } from './common.ts'
import { readPodVersions } from './nodes.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'

export interface CollectionDependencies extends EngineDependencies {
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  /** Keys that sign the Jobs of this installation (hooks/request.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  timers: Timers
  inFlightWrites: InFlightWrites
}

const CLAIMS_TTL_MS = 5_000
/**
 * Only the fields that decide ownership: a collection that an older CRD admitted still owns its name. Without its
 * claim, the next one to claim the name would change its collection, and would delete it with itself.
 * Compiled because a list may contain thousands of collections and is read repeatedly.
 */
const isClaim = TypeCompiler.Compile(
  Type.Object({
    metadata: lenientSchema(ObjectMeta),
    spec: lenientFields(VecCollection.spec, ['clusterRef', 'collectionName', 'aliases']),
    status: Type.Optional(Type.Object({ health: Type.Optional(Type.String()) })),
  }),
)

export function collectionPorts(dependencies: CollectionDependencies): CollectionPorts {
  const { kubernetes, namespaces, now, timers, inFlightWrites } = dependencies
  const claimCache = new ClaimListCache(() => listClaims(kubernetes, namespaces), now)
  return {
    engine: (connection) =>
      trackWrites(
        new EngineCollections(engineClient(dependencies, connection)),
        connection,
        inFlightWrites,
      ),
    collectionsOf: async (cluster, requester) => {
      const { claims, unreadable } = await claimCache.including(requester)
      return { claims: claims.filter((claim) => isOfCluster(claim, cluster)), unreadable }
    },
    cluster: ({ namespace, name }) => kubernetes.get(clusters(namespace), name, LenientCluster),
    // Count the write as in progress from the check of the Lease on: a restore may take the Lease
    // before the result of the check arrives.
    writeHolder: (cluster, isAllowed) =>
      inFlightWrites.track(cluster, 'a write that is about to be made', () => {
        const isWatched = (watched: string) => isNamespaceWatched({ namespaces }, watched)
        const rules = { isAllowed, isWatched, jobKeys: dependencies.jobKeys(), now: now() }
        return currentHolder(cluster, 'write', leasePorts(kubernetes), rules)
      }),
    podVersions: (cluster) => readPodVersions(kubernetes, cluster),
    writeEvent: commonPorts(dependencies).writeEvent,
    now,
    wait: (milliseconds, signal) => delay(timers, milliseconds, signal),
  }
}

/** Skips a collection that names no cluster: it claims nothing, and must not block all others. */
async function listClaims(kubernetes: Kubernetes, namespaces: string[]): Promise<ClaimList> {
  const { found: claims, unreadable } = await listReadable(
    inNamespaces(collections, namespaces),
    (resource) => kubernetes.collect(resource, {}, readClaim),
  )
  return { claims, unreadable }
}

/** Undefined if the VecCollection names no cluster. */
export function readClaim(object: unknown): Claim | undefined {
  return isClaim.Check(object) ? toClaim(object as Claim) : undefined
}

/**
 * Shares one list among callers for a few seconds, unless it does not contain the calling
 * collection.
 */
class ClaimListCache {
  readonly #load: () => Promise<ClaimList>
  readonly #now: () => Date
  #list: { at: number; isLoaded: boolean; items: Promise<ClaimList> } | undefined

  constructor(load: () => Promise<ClaimList>, now: () => Date) {
    this.#load = load
    this.#now = now
  }

  /**
   * Two collections created within seconds may claim the same name. The list must contain the
   * requester in its current generation: a list with the later one also contains the earlier one.
   */
  async including({ metadata: { uid, generation } }: VecCollection): Promise<ClaimList> {
    const cached = this.#list
    const ageMs = cached === undefined ? 0 : this.#now().getTime() - cached.at
    const isExpired = cached?.isLoaded === true && (ageMs < 0 || ageMs >= CLAIMS_TTL_MS)
    // Wait for a list that is still loading, however long it takes: two at once would need twice
    // the memory.
    if (cached === undefined || isExpired) return this.#reload()
    const items = await cached.items
    const requested = items.claims.find(({ metadata }) => metadata.uid === uid)
    if (requested !== undefined && requested.metadata.generation >= generation) return items
    // Another caller may have reloaded the list in the meantime.
    return this.#list === cached || this.#list === undefined ? this.#reload() : this.#list.items
  }

  #reload(): Promise<ClaimList> {
    const list = { at: this.#now().getTime(), isLoaded: false, items: this.#load() }
    this.#list = list
    list.items.then(
      () => (list.isLoaded = true),
      () => {
        if (this.#list === list) this.#list = undefined
      },
    )
    return list.items
  }
}

interface NamespacedName {
  namespace: string
  name: string
}

export class InFlightWrites {
  readonly #byCluster = new Map<string, Set<{ what: string }>>()

  /** Descriptions of the writes in progress on a cluster, as a waiting restore reports them. */
  list({ namespace, name }: NamespacedName): string[] {
    return [...(this.#byCluster.get(`${namespace}/${name}`) ?? [])].map(({ what }) => what)
  }

  async track<T>(
    { namespace, name }: NamespacedName,
    what: string,
    call: () => Promise<T>,
  ): Promise<T> {
    const key = `${namespace}/${name}`
    const entries = this.#byCluster.get(key) ?? new Set()
    const entry = { what }
    this.#byCluster.set(key, entries.add(entry))
    try {
      return await call()
    } finally {
      entries.delete(entry)
      if (entries.size === 0) this.#byCluster.delete(key)
    }
  }
}

/** Returns the same engine client; each of its writes is tracked while it is in progress. */
export function trackWrites(
  engine: CollectionEngine,
  cluster: NamespacedName,
  inFlightWrites: InFlightWrites,
): CollectionEngine {
  const write = (collection: string, call: () => Promise<void>) =>
    inFlightWrites.track(cluster, `a write to collection ${collection}`, call)
  return {
    notReadyReason: (signal) => engine.notReadyReason(signal),
    version: (signal) => engine.version(signal),
    aliases: (signal) => engine.aliases(signal),
    collectionInfo: (name, signal) => engine.collectionInfo(name, signal),
    collectionCluster: (name, signal) => engine.collectionCluster(name, signal),
    createCollection: (name, body, signal) =>
      write(name, () => engine.createCollection(name, body, signal)),
    patchCollection: (name, body, signal) =>
      write(name, () => engine.patchCollection(name, body, signal)),
    deleteCollection: (name, signal) => write(name, () => engine.deleteCollection(name, signal)),
    putIndex: (name, index, signal) => write(name, () => engine.putIndex(name, index, signal)),
    deleteIndex: (name, field, signal) =>
      write(name, () => engine.deleteIndex(name, field, signal)),
    updateAliases: (actions, signal) =>
      inFlightWrites.track(cluster, 'a change of aliases', () =>
        engine.updateAliases(actions, signal),
      ),
  }
}
