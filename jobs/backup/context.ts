/**
 * What the parts of one run of `backup run` share, including the estimated sizes of shards.
 * Telemetry is cached: one response covers all collections of a node.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { BackupPlan } from '../../crds/contract/job.ts'
import type { Engine } from '../clients/engine/client.ts'
import { EngineSnapshots } from '../clients/engine/snapshots.ts'
import { shardBytes, type ShardBytes } from '../clients/engine/statistics.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { Dependencies } from '../dependencies.ts'
import type { RetryBudget } from '../retry.ts'
import type { BackupProgress } from './progress.ts'

/** How often a collection is started over because shards move or change during the backup. */
export const MAX_ROUNDS = 3

/** A node that is restarted needs about this long to serve again. */
export const RETRY_DELAYS_MS: readonly number[] = [5_000, 20_000, 60_000]

/** How often the progress is reported while a store accepts nothing. */
export const HEARTBEAT_MS = 5_000

export interface RunContext {
  plan: BackupPlan
  tools: Dependencies
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  progress: BackupProgress
  retryBudget: RetryBudget
  /** The expected size of each shard. */
  shardSizes: ShardSizes
  /**
   * Snapshot files that may belong to this backup and remain on nodes; the final status lists them.
   */
  undeletedSnapshots: UndeletedSnapshot[]
}

export interface UndeletedSnapshot {
  collection: string
  ordinal: number
  /** Names the file and its node. */
  description: string
}

/** Also records what an earlier pod recorded; each file is listed once. */
export function recordUndeletedSnapshot(
  { undeletedSnapshots }: Pick<RunContext, 'undeletedSnapshots'>,
  file: UndeletedSnapshot,
): void {
  if (!undeletedSnapshots.some(({ description }) => description === file.description))
    undeletedSnapshots.push(file)
}

export function ordinals({ plan }: Pick<RunContext, 'plan'>): number[] {
  return Array.from({ length: plan.cluster.replicas }, (_, ordinal) => ordinal)
}

export function engineForPod(
  { plan, tools }: Pick<RunContext, 'plan' | 'tools'>,
  ordinal: number,
): Engine {
  return tools.engineForPod(plan.cluster, ordinal)
}

export function snapshotsForPod(context: RunContext, ordinal: number): EngineSnapshots {
  return new EngineSnapshots(engineForPod(context, ordinal))
}

/** Collections grow in the meantime; uploads leave a margin for that. */
const CACHE_TTL_MS = 600_000

export class ShardSizes {
  #bytesByNode: ShardBytes[] = []
  #fetchedAt: number | undefined
  /** Shards that turned out larger than the parts of their upload could hold, by collection. */
  readonly #underestimated = new Map<string, Set<number>>()

  /**
   * Estimated bytes of a shard; undefined if no node reports it or the last estimate was too low.
   */
  async estimate(
    collection: string,
    shardId: number,
    context: RunContext,
  ): Promise<number | undefined> {
    if (this.isUnderestimated(collection, shardId)) return undefined
    await this.#refresh(context)
    const sizes = this.#bytesByNode.flatMap((node) => node.get(collection)?.get(shardId) ?? [])
    return sizes.length === 0 ? undefined : Math.max(...sizes)
  }

  /** Such a shard is streamed alone: it needs the largest parts that fit in memory. */
  isUnderestimated(collection: string, shardId: number): boolean {
    return this.#underestimated.get(collection)?.has(shardId) === true
  }

  /** The next upload of this shard uses the largest parts that fit in memory. */
  markUnderestimated(collection: string, shardId: number): void {
    const shards = this.#underestimated.get(collection) ?? new Set()
    this.#underestimated.set(collection, shards.add(shardId))
  }

  async #refresh(context: RunContext): Promise<void> {
    const { time, log, signal } = context.tools
    const now = time.monotonicMs()
    if (this.#fetchedAt !== undefined && now - this.#fetchedAt < CACHE_TTL_MS) return
    const nodes: ShardBytes[] = []
    for (const ordinal of ordinals(context)) {
      try {
        nodes.push(await shardBytes(engineForPod(context, ordinal), signal))
      } catch (error) {
        signal.throwIfAborted()
        // Another node has a replica, or the shard is uploaded with unknown size.
        if (!(error instanceof EngineError)) throw error
        log.info({ node: ordinal, reason: error.message }, 'no telemetry: shard sizes unknown')
      }
    }
    this.#bytesByNode = nodes
    this.#fetchedAt = now
  }
}
