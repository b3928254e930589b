/** Which shard is streamed next, and from which pod: the least busy one, and never two from one at once. */

/** Ordinals of the pods that hold an Active copy, by shard. */
export type Holders = ReadonlyMap<number, readonly number[]>

export interface Turn {
  shardId: number
  node: number
}

export class Turns {
  /** Shards that wait for a pod. */
  readonly #waiting: Set<number>
  readonly #busy = new Set<number>()
  /** Streams that each pod has made, or makes. */
  readonly #streams = new Map<number, number>()
  #released = Promise.withResolvers<undefined>()

  constructor(shards: Iterable<number>) {
    this.#waiting = new Set(shards)
  }

  /** Shards that nobody has taken yet. */
  waiting(): number[] {
    return [...this.#waiting]
  }

  /** Takes a shard that has an idle holder; the one with the fewest holders first. */
  take(holders: Holders): Turn | undefined {
    const possible = this.waiting().flatMap((shardId) => {
      const all = holders.get(shardId) ?? []
      const idle = all.filter((node) => !this.#busy.has(node))
      return idle.map((node) => ({ shardId, node, holders: all.length }))
    })
    const [turn] = possible.sort(
      (one, other) =>
        this.#streamsOf(one.node) - this.#streamsOf(other.node) ||
        one.holders - other.holders ||
        one.shardId - other.shardId ||
        one.node - other.node,
    )
    if (turn === undefined) return undefined
    const { shardId, node } = turn
    this.#waiting.delete(shardId)
    this.#busy.add(node)
    this.#streams.set(node, this.#streamsOf(node) + 1)
    return { shardId, node }
  }

  /** The pod is idle again. */
  release({ node }: Turn): void {
    this.#busy.delete(node)
    this.#released.resolve(undefined)
    this.#released = Promise.withResolvers<undefined>()
  }

  /** The shard must be streamed again. */
  giveBack({ shardId }: Turn): void {
    this.#waiting.add(shardId)
  }

  /** It is not there any more. */
  forget(shardId: number): void {
    this.#waiting.delete(shardId)
  }

  isIdle(): boolean {
    return this.#busy.size === 0
  }

  /** Until a pod becomes idle. */
  released(): Promise<undefined> {
    return this.#released.promise
  }

  #streamsOf(node: number): number {
    return this.#streams.get(node) ?? 0
  }
}
