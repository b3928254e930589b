/** What the VecCollection room needs from outside; metacontroller/ports/cluster.ts implements it. */
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
import type { Claim } from './ownership.ts'

/**
 * The engine of one cluster, through its client Service. A refusal, an answer that is none and no
 * answer at all are an `EngineError`; the signal ends a call at once. Names are percent-encoded.
 */
export interface CollectionEngine {
  /** `GET /readyz` answered 200; one that does not answer is not ready. */
  readyz(signal: AbortSignal): Promise<boolean>
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
  /** `PATCH /collections/{c}?timeout=15`: short, for a write is lost while a leader is replaced. */
  patchCollection(collection: string, body: CollectionBody, signal: AbortSignal): Promise<void>
  /** `DELETE /collections/{c}?timeout=15`; 404 and `false` are fine. */
  deleteCollection(collection: string, signal: AbortSignal): Promise<void>
  /** `PUT /collections/{c}/index?wait=false`. */
  putIndex(collection: string, index: IndexBody, signal: AbortSignal): Promise<void>
  /** `DELETE /collections/{c}/index/{field}?wait=false`; one that is gone is fine. */
  deleteIndex(collection: string, field: string, signal: AbortSignal): Promise<void>
  /** `POST /collections/aliases`, all actions in one call. */
  updateAliases(actions: AliasAction[], signal: AbortSignal): Promise<void>
}

export interface NamespacedName {
  namespace: string
  name: string
}

/** Whether the cluster allows a namespace. */
export type NamespaceFilter = (namespace: string) => boolean

export interface CollectionPorts {
  /** Makes no call by itself; answers are shared by the room, not remembered here. */
  engine(connection: Connection): CollectionEngine
  /**
   * Every VecCollection of a cluster, from any namespace served; at most 5 s old, and never older than
   * who asks: what was there before it was made or changed is in the list. Asked before writes.
   */
  collectionsOf(cluster: NamespacedName, requester: VecCollection): Promise<Claim[]>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(cluster: NamespacedName): Promise<VecCluster | undefined>
  /**
   * Who holds the Lease `vec-<name>-write` with an unfinished Job, read live before each write. A Job of a
   * namespace that is not allowed counts only if this operator created it.
   */
  writeHolder(cluster: NamespacedName, isAllowed: NamespaceFilter): Promise<string | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
  now(): Date
  /** Settles after so many milliseconds; rejects when the signal ends it. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>
}
