/**
 * The engine's endpoints for resharding: it has the protocol, and another process has to drive it
 * (docs/engine-notes.md, "Resharding").
 */
import { Type, type Static } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { Engine } from './client.ts'
import { changeShards } from './shard-change.ts'
import { collectionPath } from './transport.ts'

/** One entry of `resharding_operations` of `GET /collections/{c}/cluster`. */
export const ReshardingOperation = Type.Object({
  uuid: Type.Optional(Type.String()),
  direction: Type.Union([Type.Literal('up'), Type.Literal('down')]),
  /** The shard that is added or removed. */
  shard_id: Type.Integer(),
  peer_id: Type.Number(),
  shard_key: Type.Optional(Type.Union([Type.String(), Type.Integer(), Type.Null()])),
})
export type ReshardingOperation = Static<typeof ReshardingOperation>

const CleanupResult = Type.Object({ status: Type.String() })
const Count = Type.Object({ count: Type.Integer({ minimum: 0 }) })

/** A shard that takes longer to clean is asked again; its task continues meanwhile. */
const CLEANUP_SECONDS = 20
const COUNT_MS = 60_000

export interface StreamedShard {
  collection: string
  /** The shard whose points are read, and the one that gets those that belong to it. */
  shard: number
  toShard: number
  from: number
  to: number
}

export class EngineResharding {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Adds an empty shard on a peer, or begins to remove the one with the highest id. */
  async start(
    collection: string,
    { uuid, direction, peer }: { uuid: string; direction: 'up' | 'down'; peer: number },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#update(collection, { start_resharding: { uuid, direction, peer_id: peer } }, signal)
  }

  /** Starts to copy points between two shards; a failure ends the whole resharding. */
  async stream(
    { collection, shard, toShard, from, to }: StreamedShard,
    signal?: AbortSignal,
  ): Promise<void> {
    const transfer = {
      ...{ shard_id: shard, to_shard_id: toShard, from_peer_id: from, to_peer_id: to },
      method: 'resharding_stream_records',
    }
    await this.#update(collection, { replicate_shard: transfer }, signal)
  }

  /** The replica that got points becomes Active. */
  async finishMigration(
    collection: string,
    shard: number,
    peer: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const replica = { shard_id: shard, peer_id: peer }
    await this.#update(collection, { finish_migrating_points: replica }, signal)
  }

  /** From here on the engine does not abort. Repeating it changes nothing. */
  async commitRead(collection: string, signal?: AbortSignal): Promise<void> {
    await this.#update(collection, { commit_read_hash_ring: {} }, signal)
  }

  async commitWrite(collection: string, signal?: AbortSignal): Promise<void> {
    await this.#update(collection, { commit_write_hash_ring: {} }, signal)
  }

  async finish(collection: string, signal?: AbortSignal): Promise<void> {
    await this.#update(collection, { finish_resharding: {} }, signal)
  }

  /** False if points are already read from the new shards: then it has to be completed. */
  async abort(collection: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.#update(collection, { abort_resharding: {} }, signal)
      return true
    } catch (error) {
      if (error instanceof EngineError && error.status === 400 && COMMITTED.test(error.message)) {
        return false
      }
      throw error
    }
  }

  /**
   * Deletes the points of the replica on this node that belong to other shards. Whether that is
   * complete: a restart of the node loses the task.
   */
  async clean(collection: string, shard: number, signal?: AbortSignal): Promise<boolean> {
    const query = `wait=true&timeout=${CLEANUP_SECONDS}`
    const path = `${collectionPath(collection)}/shards/${shard}/cleanup?${query}`
    const options = { signal, timeoutMs: (CLEANUP_SECONDS + 10) * 1000 }
    return (await this.#engine.call('POST', path, CleanupResult, options)).status === 'completed'
  }

  /**
   * Exact number of points of the replica on this node that belong to a shard, by the hash ring that
   * the resharding leads to.
   */
  async countBelonging(
    collection: string,
    { shard, to }: { shard: number; to: number },
    signal?: AbortSignal,
  ): Promise<number> {
    const path = `${collectionPath(collection)}/shards/${shard}/points/count`
    const body = { exact: true, hash_ring_filter: { expected_shard_id: to } }
    return (await this.#engine.call('POST', path, Count, { body, signal, timeoutMs: COUNT_MS }))
      .count
  }

  #update(collection: string, body: object, signal: AbortSignal | undefined): Promise<void> {
    return changeShards(this.#engine, collection, { body, signal })
  }
}

const COMMITTED = /resharding must be completed/
