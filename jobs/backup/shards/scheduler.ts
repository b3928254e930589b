/**
 * Decides which shard is streamed next and from which pod: the least busy one, and never two shards
 * from one pod at once.
 */

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
