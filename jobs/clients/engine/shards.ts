/**
 * The engine's endpoints for the work on shards: what a node reports about the cluster, its
 * replicas and their sizes, and the changes of replicas and peers.
 */
import { Type, type Static } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import { CREATE_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { isOlder } from '../../../crds/versions.ts'
import type { Engine } from './client.ts'
import { ReshardingOperation } from './resharding.ts'
import { readRecoveries } from './node-telemetry.ts'
import { BooleanResult } from './responses.ts'
import { changeShards } from './shard-change.ts'
import { estimateBytes, LocalShard } from './statistics.ts'
import { collectionPath } from './transport.ts'

/** Limit for a read: a node that takes longer does not answer. */
const READ_MS = 10_000
/** From this version on, the node that is asked for a transfer chooses its method. */
const CHOOSES_METHOD = '1.18.0'
const TELEMETRY_SECONDS = 10
/** The engine answers when its own limit expires; the client must still be waiting then. */
const CONSENSUS_CALL_MS = (CREATE_TIMEOUT_SECONDS + 5) * 1000

const ShardsClusterStatus = Type.Union([
  Type.Object({ status: Type.Literal('disabled') }),
  Type.Object({
    status: Type.Literal('enabled'),
    peer_id: Type.Number(),
    peers: Type.Record(Type.String(), Type.Object({ uri: Type.String() })),
    raft_info: Type.Object({
      commit: Type.Number(),
      pending_operations: Type.Number(),
      leader: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
    }),
    consensus_thread_status: Type.Object({
      consensus_thread_status: Type.String(),
      err: Type.Optional(Type.String()),
    }),
  }),
])
export type ShardsClusterStatus = Static<typeof ShardsClusterStatus>
/** A node in distributed mode. */
export type NodeStatus = Extract<ShardsClusterStatus, { status: 'enabled' }>

const shardFields = {
  shard_id: Type.Integer(),
  shard_key: Type.Optional(Type.Union([Type.String(), Type.Integer(), Type.Null()])),
  state: Type.String(),
}

/** `GET /collections/{c}/cluster`: every replica that this node knows. */
const ShardPlacement = Type.Object({
  peer_id: Type.Number(),
  local_shards: Type.Array(Type.Object({ ...shardFields, points_count: Type.Integer() })),
  remote_shards: Type.Array(Type.Object({ ...shardFields, peer_id: Type.Number() })),
  shard_transfers: Type.Array(
    Type.Object({
      shard_id: Type.Integer(),
      /** Only in resharding: the shard that gets the points. */
      to_shard_id: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
      from: Type.Number(),
      to: Type.Number(),
      /** Only on the source and on the target. */
      comment: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    }),
  ),
  resharding_operations: Type.Optional(Type.Union([Type.Array(ReshardingOperation), Type.Null()])),
})
export type ShardPlacement = Static<typeof ShardPlacement>

/** `GET /telemetry?details_level=3`, the first level that lists shards. */
const ShardTelemetry = Type.Object({
  collections: Type.Object({
    collections: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          config: Type.Optional(
            Type.Object({
              params: Type.Composite([
                Type.Record(Type.String(), Type.Unknown()),
                Type.Object({
                  replication_factor: Type.Optional(
                    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
                  ),
                }),
              ]),
              optimizer_config: Type.Optional(
                Type.Object({
                  prevent_unoptimized: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
                }),
              ),
            }),
          ),
          shards: Type.Optional(
            Type.Union([
              Type.Array(
                Type.Object({
                  id: Type.Integer(),
                  local: Type.Optional(Type.Union([LocalShard, Type.Null()])),
                }),
              ),
              Type.Null(),
            ]),
          ),
        }),
      ),
    ),
  }),
})

/** What a node knows about a collection without asking the other nodes. */
export interface CollectionFacts {
  factor: number | undefined
  /** The engine's parameters of the collection. */
  params: Record<string, unknown> | undefined
  /** Estimated bytes of the replicas on this node, by shard. */
  bytes: Map<number, number>
  /** Reads do not return points before they are indexed (`prevent_unoptimized`, since 1.17.1). */
  hidesUnindexed?: true
  /** The engine reports no size for a replica on this node. */
  isIncomplete?: true
}

/** A replica to copy, or a transfer in progress; with peer ids. */
export interface ShardTransfer {
  collection: string
  shard: number
  from: number
  to: number
  /** Only in resharding: the shard that gets the points. */
  toShard?: number
}

/**
 * What changes in the comment of a transfer only if the transfer makes progress: `downloading (12.30s)` and `recovering |
 * Transferring records (5/9), ETA: 3.00s` without their seconds.
 */
export function withoutClock(comment: string): string {
  return comment.replaceAll(/\b\d{1,9}(\.\d{1,9})?s\b/g, '')
}

const Count = Type.Object({ count: Type.Integer({ minimum: 0 }) })

export class EngineShards {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  get node(): string {
    return this.#engine.node
  }

  cluster(signal?: AbortSignal): Promise<ShardsClusterStatus> {
    return this.#engine.call('GET', '/cluster', ShardsClusterStatus, { signal, timeoutMs: READ_MS })
  }

  collections(signal?: AbortSignal): Promise<string[]> {
    return this.#engine.collections(signal)
  }

  /** Undefined if the collection does not exist on this node. */
  async placement(collection: string, signal?: AbortSignal): Promise<ShardPlacement | undefined> {
    const path = `${collectionPath(collection)}/cluster`
    try {
      return await this.#engine.call('GET', path, ShardPlacement, { signal, timeoutMs: READ_MS })
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  /**
   * Configuration and sizes by collection. Unlike `GET /collections/{c}`, telemetry does not ask
   * other nodes, so it is answered while some of them are down.
   */
  async facts(signal?: AbortSignal): Promise<Map<string, CollectionFacts>> {
    const path = `/telemetry?details_level=3&timeout=${TELEMETRY_SECONDS}`
    const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
    const { collections } = await this.#engine.call('GET', path, ShardTelemetry, options)
    return new Map(
      (collections.collections ?? []).map(({ id: name, config, shards }) => {
        const bytes = new Map<number, number>()
        let isIncomplete = shards == null
        for (const { id, local } of shards ?? []) {
          if (local == null) continue
          const estimated = estimateBytes(local)
          if (estimated === undefined) isIncomplete = true
          else bytes.set(id, estimated)
        }
        const factor = config?.params.replication_factor ?? undefined
        const params = config?.params
        const hidesUnindexed = config?.optimizer_config?.prevent_unoptimized === true
        const marks = {
          ...(hidesUnindexed && { hidesUnindexed }),
          ...(isIncomplete && { isIncomplete }),
        }
        return [name, { factor, params, bytes, ...marks }]
      }),
    )
  }

  /** Collections that this node recovers from snapshots; none before 1.16. */
  async recovering(signal?: AbortSignal): Promise<ReadonlySet<string>> {
    const recoveries = [...((await readRecoveries(this.#engine, signal)) ?? [])]
    return new Set(recoveries.flatMap(([collection, running]) => (running > 0 ? collection : [])))
  }

  /** About how many points the replica of this shard on this node has, or that the node cannot read it. */
  async estimatePoints(
    collection: string,
    shard: number,
    signal?: AbortSignal,
  ): Promise<number | 'unreadable'> {
    const path = `${collectionPath(collection)}/shards/${shard}/points/count`
    const options = { body: { exact: false }, signal, timeoutMs: READ_MS }
    try {
      return (await this.#engine.call('POST', path, Count, options)).count
    } catch (error) {
      if (error instanceof EngineError && error.status === 500) return 'unreadable'
      throw error
    }
  }

  /** Exact number of points of the replica on this node. */
  async countPoints(
    collection: string,
    shard: number,
    { signal, timeoutMs = READ_MS }: { signal?: AbortSignal | undefined; timeoutMs?: number } = {},
  ): Promise<number> {
    const path = `${collectionPath(collection)}/shards/${shard}/points/count`
    const options = { body: { exact: true }, signal, timeoutMs }
    return (await this.#engine.call('POST', path, Count, options)).count
  }

  /** Starts a transfer; `placement` reports its progress. */
  async replicate({ collection, shard, from, to }: ShardTransfer, signal?: AbortSignal) {
    const method = await this.#transferMethod(collection, signal)
    const transfer = {
      ...{ shard_id: shard, from_peer_id: from, to_peer_id: to },
      ...(method !== undefined && { method }),
    }
    await this.#update(collection, { replicate_shard: transfer }, signal)
  }

  /** The target of the transfer becomes Dead. With a transfer of a resharding the whole resharding ends. */
  async abort({ collection, shard, from, to, toShard }: ShardTransfer, signal?: AbortSignal) {
    const transfer = {
      ...{ shard_id: shard, from_peer_id: from, to_peer_id: to },
      // Without it the engine finds no transfer of a resharding.
      ...(toShard !== undefined && { to_shard_id: toShard }),
    }
    await this.#update(collection, { abort_transfer: transfer }, signal)
  }

  /** Rejected for the last Active replica. */
  async drop(collection: string, shard: number, peer: number, signal?: AbortSignal) {
    await this.#update(collection, { drop_replica: { shard_id: shard, peer_id: peer } }, signal)
  }

  /**
   * Rejected while the peer holds shards, as the answering node sees it, unless it is forced: then its replicas are
   * removed as well. A peer that does not exist is accepted.
   */
  async removePeer(
    peer: number,
    { signal, isForced = false }: { signal?: AbortSignal; isForced?: boolean } = {},
  ): Promise<void> {
    const force = isForced ? '&force=true' : ''
    const path = `/cluster/peer/${peer}?timeout=${CREATE_TIMEOUT_SECONDS}${force}`
    const options = { timeoutMs: CONSENSUS_CALL_MS, signal }
    await this.#engine.call('DELETE', path, BooleanResult, options)
  }

  /**
   * An older node would pass a transfer on without a method. A newer node that applies this change
   * once all others are newer, too, stops its consensus: such a node may have been away during an
   * update. The methods are the defaults of the older nodes.
   *
   * A transfer by snapshot, which a newer engine would choose, can lose a write that is acknowledged meanwhile, and locks
   * its collection on the source: a shard key that a client creates or deletes ends all reads, writes and changes there
   * (docs/engine-notes.md). Only a collection that hides points without an index is copied in this way.
   */
  async #transferMethod(
    collection: string,
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    const facts = (await this.facts(signal)).get(collection)
    if (facts?.hidesUnindexed !== true) return 'stream_records'
    return isOlder(await this.#engine.version(signal), CHOOSES_METHOD) ? 'snapshot' : undefined
  }

  #update(collection: string, body: object, signal: AbortSignal | undefined): Promise<void> {
    return changeShards(this.#engine, collection, { body, signal })
  }
}
