/** The ports of the VecCollection hooks, implemented in metacontroller/ports/cluster.ts. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { VecCollection } from '../../crds/collection.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import type {
  Alias,
  AliasAction,
  CollectionBody,
  CollectionInfo,
  IndexBody,
  ShardReplicas,
} from '../../crds/engine/collections.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import type { ClaimList } from '../../crds/collection-ownership.ts'

/**
 * The engine of one cluster, called through its client Service. An error response, an invalid response and
 * a missing response throw `EngineError`; the signal aborts a call immediately. Names are percent-encoded.
 */
export interface CollectionEngine {
  /** Why `GET /readyz` does not return 200, or gets no answer; undefined if it does. */
  notReadyReason(signal: AbortSignal): Promise<string | undefined>
  /** `GET /`. */
  version(signal: AbortSignal): Promise<string>
  /** `GET /aliases`. */
  aliases(signal: AbortSignal): Promise<Alias[]>
  /** `GET /collections/{c}`; undefined on 404. */
  collectionInfo(collection: string, signal: AbortSignal): Promise<CollectionInfo | undefined>
  /** `GET /collections/{c}/cluster`. */
  collectionCluster(collection: string, signal: AbortSignal): Promise<ShardReplicas>
  /** `PUT /collections/{c}?timeout=60`. */
  createCollection(collection: string, body: CollectionBody, signal: AbortSignal): Promise<void>
  /** `PATCH /collections/{c}?timeout=15`: a short timeout, because writes are lost during a leader change. */
  patchCollection(collection: string, body: CollectionBody, signal: AbortSignal): Promise<void>
  /** `DELETE /collections/{c}?timeout=15`; 404 and `false` are not errors. */
  deleteCollection(collection: string, signal: AbortSignal): Promise<void>
  /** `PUT /collections/{c}/index?wait=false`. */
  putIndex(collection: string, index: IndexBody, signal: AbortSignal): Promise<void>
  /** `DELETE /collections/{c}/index/{field}?wait=false`; a missing index is not an error. */
  deleteIndex(collection: string, field: string, signal: AbortSignal): Promise<void>
  /** `POST /collections/aliases`, all actions in one call. */
  updateAliases(actions: AliasAction[], signal: AbortSignal): Promise<void>
}

/** Whether the cluster allows a namespace. */
export type NamespaceFilter = (namespace: string) => boolean

export interface CollectionPorts {
  /** Creating an engine makes no call. Responses are cached in `EngineCache`, not here. */
  engine(connection: Connection): CollectionEngine
  /**
   * Every VecCollection of a cluster, from all watched namespaces, read before writes. At most 5 s old, and
   * never older than the requester: the list contains everything that existed before it was last changed.
   */
  collectionsOf(cluster: NamespacedName, requester: VecCollection): Promise<ClaimList>
  /** The VecCluster, read live; undefined if it or its CRD does not exist. */
  cluster(cluster: NamespacedName): Promise<VecCluster | undefined>
  /**
   * The holder of the Lease `vec-<name>-write` if it has an unfinished Job, read live before each write. A Job
   * in a namespace that is not allowed counts only if this operator created it.
   */
  writeHolder(cluster: NamespacedName, isAllowed: NamespaceFilter): Promise<string | undefined>
  /** The versions of the engine in the images of the pods, each once, the oldest first; read live. */
  podVersions(cluster: NamespacedName): Promise<string[]>
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
  now(): Date
  /** Resolves after the given number of milliseconds; rejects when the signal aborts. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>
}
