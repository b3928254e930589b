/**
 * Decides which shard is streamed next and from which pod: the least busy one with an Active
 * replica, and never two shards from one pod at once. Which node holds which shard is as seen by the
 * nodes that answer, at least half of all: an unavailable node does not stop the others.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { LocalShard } from '../../../crds/contract/manifest.ts'
import type { BackupClusterInfo } from '../../clients/engine/responses.ts'
import { isTransient, retryTransient } from '../../retry.ts'
import { rejectIfDeleted } from '../source-cluster.ts'
import { ordinals, snapshotsForPod, type RunContext } from '../context.ts'

/** What each node reports of the shards of a collection, by its ordinal. */
export type NodeReports = ReadonlyMap<number, BackupClusterInfo>

/**
 * Waits, within bounds, until half of the nodes answer. What a majority has agreed on is known to one of them: a node
 * that was just restarted still calls a replica Active that the others have called Dead.
 */
export function readNodeReports(collection: string, context: RunContext): Promise<NodeReports> {
  return retryTransient(context, () => readNodeReportsOnce(collection, context))
}

async function readNodeReportsOnce(collection: string, context: RunContext): Promise<NodeReports> {
  const view = new Map<number, BackupClusterInfo>()
  const nodes = ordinals(context)
  let lastError = new EngineError('there is no node')
  for (const ordinal of nodes) {
    try {
      const { signal } = context.tools
      view.set(
        ordinal,
        await snapshotsForPod(context, ordinal).collectionCluster(collection, signal),
      )
    } catch (error) {
      if (error instanceof EngineError && error.status === 404)
        await rejectIfDeleted(collection, context)
      if (!isTransient(error)) throw error
      lastError = error
    }
  }
  if (view.size === 0 || view.size < nodes.length / 2) throw lastError
  return view
}

/**
 * A replica can be streamed only if its node reports it as Active and no node reports another
 * state.
 */
export function activeReplicas(view: NodeReports): ActiveReplicas {
  const replicas = new Map<number, number[]>()
  for (const [ordinal, { peer_id, local_shards }] of view) {
    for (const { shard_id, state } of local_shards) {
      if (state !== 'Active' || isReportedInactive(view, shard_id, peer_id)) continue
      replicas.set(shard_id, [...(replicas.get(shard_id) ?? []), ordinal])
    }
  }
  return replicas
}

/** Whether any node says that the number of shards is being changed. */
export function isResharding(view: NodeReports): boolean {
  return [...view.values()].some(
    ({ resharding_operations: operations = [] }) => operations.length > 0,
  )
}

/** Points of a replica, as counted by its node. */
export function pointCount(view: NodeReports, node: number, shardId: number): number | undefined {
  const shards = view.get(node)?.local_shards ?? []
  return shards.find(({ shard_id }) => shard_id === shardId)?.points_count
}

/** Whether any node lists the shard at all. */
export function shardExists(view: NodeReports, shardId: number): boolean {
  return listShards(view).some((shard) => shard.shardId === shardId)
}

/** Every shard that at least one node lists. */
export function listShards(view: NodeReports): LocalShard[] {
  const shards = new Map<number, LocalShard>()
  for (const { local_shards, remote_shards } of view.values()) {
    for (const { shard_id: shardId, shard_key: shardKey } of [...local_shards, ...remote_shards]) {
      shards.set(shardId, { shardId, ...(shardKey != null && { shardKey }) })
    }
  }
  return [...shards.values()]
}

function isReportedInactive(view: NodeReports, shardId: number, peer: number): boolean {
  return [...view.values()].some(({ remote_shards }) =>
    remote_shards.some(
      ({ shard_id, peer_id, state }) =>
        shard_id === shardId && peer_id === peer && state !== 'Active',
    ),
  )
}

/** Ordinals of the pods that hold an Active replica, by shard. */
export type ActiveReplicas = ReadonlyMap<number, readonly number[]>

export interface Assignment {
  shardId: number
  node: number
}

export class ShardScheduler {
  /** Shards that wait for a pod. */
  readonly #pending: Set<number>
  readonly #busy = new Set<number>()
  /** Streams that each pod has completed or is running. */
  readonly #streamsByNode = new Map<number, number>()
  #released = Promise.withResolvers<undefined>()

  constructor(shards: Iterable<number>) {
    this.#pending = new Set(shards)
  }

  /** Shards that are not assigned yet. */
  pending(): number[] {
    return [...this.#pending]
  }

  /** Assigns a shard that has an idle holder; the one with the fewest holders first. */
  next(replicas: ActiveReplicas): Assignment | undefined {
    const candidates = this.pending().flatMap((shardId) => {
      const nodes = replicas.get(shardId) ?? []
      const idle = nodes.filter((node) => !this.#busy.has(node))
      return idle.map((node) => ({ shardId, node, replicas: nodes.length }))
    })
    const [assignment] = candidates.sort(
      (a, b) =>
        this.#streamsOf(a.node) - this.#streamsOf(b.node) ||
        a.replicas - b.replicas ||
        a.shardId - b.shardId ||
        a.node - b.node,
    )
    if (assignment === undefined) return undefined
    const { shardId, node } = assignment
    this.#pending.delete(shardId)
    this.#busy.add(node)
    this.#streamsByNode.set(node, this.#streamsOf(node) + 1)
    return { shardId, node }
  }

  /** The pod is idle again. */
  release({ node }: Assignment): void {
    this.#busy.delete(node)
    this.#released.resolve(undefined)
    this.#released = Promise.withResolvers<undefined>()
  }

  /** Queues the shard to be streamed again. */
  requeue({ shardId }: Assignment): void {
    this.#pending.add(shardId)
  }

  /** Drops a shard that no longer exists. */
  remove(shardId: number): void {
    this.#pending.delete(shardId)
  }

  isIdle(): boolean {
    return this.#busy.size === 0
  }

  /** Resolves when a pod becomes idle. */
  waitForRelease(): Promise<undefined> {
    return this.#released.promise
  }

  #streamsOf(node: number): number {
    return this.#streamsByNode.get(node) ?? 0
  }
}
