/**
 * How large the shards of a collection may be: the engine streams them without a length, and an upload must
 * choose the size of its parts before the first byte. Telemetry of all collections is one answer, so it is
 * asked once for many of them.
 */
import { EngineError } from '../../../crds/errors.ts'
import { shardBytes, type ShardBytes } from '../../clients/engine-sizes.ts'
import { engineOn, ordinals, type Work } from '../work.ts'

/** Collections grow meanwhile; uploads leave room for that. */
const KEPT_MS = 600_000

export class ShardSizes {
  #nodes: ShardBytes[] = []
  #askedAt: number | undefined
  /** Shards that turned out larger than their parts could hold, by collection. */
  readonly #larger = new Map<string, Set<number>>()

  /** Estimated bytes of a shard; undefined where no node tells them, or where they were wrong. */
  async of(collection: string, shardId: number, work: Work): Promise<number | undefined> {
    if (this.#larger.get(collection)?.has(shardId) === true) return undefined
    await this.#ask(work)
    const told = this.#nodes.flatMap((node) => node.get(collection)?.get(shardId) ?? [])
    return told.length === 0 ? undefined : Math.max(...told)
  }

  /** Its next upload takes the largest parts that there is memory for. */
  wasLarger(collection: string, shardId: number): void {
    const known = this.#larger.get(collection) ?? new Set()
    this.#larger.set(collection, known.add(shardId))
  }

  async #ask(work: Work): Promise<void> {
    const { time, log, signal } = work.tools
    const now = time.now().getTime()
    if (this.#askedAt !== undefined && now - this.#askedAt < KEPT_MS) return
    const nodes: ShardBytes[] = []
    for (const ordinal of ordinals(work)) {
      try {
        nodes.push(await shardBytes(engineOn(work, ordinal), signal))
      } catch (error) {
        signal.throwIfAborted()
        // Another node has a copy, or the shard is uploaded as one of unknown size.
        if (!(error instanceof EngineError)) throw error
        log.info({ node: ordinal, reason: error.message }, 'no telemetry: sizes of shards unknown')
      }
    }
    this.#nodes = nodes
    this.#askedAt = now
  }
}
