/**
 * The engine's endpoints that a restore needs: recovery of snapshots, copies of shards, shard keys, and
 * what nodes know of each other (facts 6, 7.4 and 10).
 */
import type { Readable } from 'node:stream'
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../crds/errors.ts'
import { CREATE_SECONDS, LONG_CALL_SECONDS } from '../../crds/limits.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import type { IndexBody } from '../../crds/rules/bodies.ts'
import { Done } from './engine-answers.ts'
import {
  Free,
  LiveCollection,
  MovingPlacement,
  NodeView,
  Telemetry,
} from './engine-recovery-answers.ts'
import type { Engine } from './engine.ts'
import { collectionPath } from './engine-path.ts'
import { fileForm } from './multipart.ts'

const LONG_CALL_MS = LONG_CALL_SECONDS * 1000
/** The engine answers at the end of its own limit; we must still be there. */
const AGREED_CALL_MS = (CREATE_SECONDS + 5) * 1000
const PROBE_MS = 20_000
/** Of nothing: what is sent with it is never taken. */
const NO_CHECKSUM = '0'.repeat(64)
const KIB = 1024

export type SnapshotPriority = 'snapshot' | 'replica' | 'no_sync'

/** What takes a snapshot on a node: all it holds of a collection, or one shard of it. */
export interface Taker {
  collection: string
  shard?: number
}

export interface Recovery {
  priority: SnapshotPriority
  /** Hex SHA-256 of the snapshot. */
  checksum: string
}

/** A shard's way from one peer to another. */
export interface ShardMove {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
}

export class EngineRecovery {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  view(signal?: AbortSignal): Promise<NodeView> {
    return this.#engine.call('GET', '/cluster', NodeView, { signal })
  }

  placement(collection: string, signal?: AbortSignal): Promise<MovingPlacement> {
    const path = `${collectionPath(collection)}/cluster`
    return this.#engine.call('GET', path, MovingPlacement, { signal })
  }

  /** Undefined when there is no such collection. By the name of an alias it is the alias's. */
  async collection(name: string, signal?: AbortSignal): Promise<LiveCollection | undefined> {
    try {
      return await this.#engine.call('GET', collectionPath(name), LiveCollection, { signal })
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  /** Answers once it is built on every shard: at once, on a collection that is empty. */
  async buildIndex(collection: string, body: IndexBody, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/index?wait=true`
    await this.#engine.call('PUT', path, Free, { body, timeoutMs: LONG_CALL_MS, signal })
  }

  /** Its shards get the next ids there are, one after the other, each on so many nodes: one. */
  async createShardKey(
    collection: string,
    { key, shards, copies = 1 }: { key: ShardKey; shards: number; copies?: number | undefined },
    signal?: AbortSignal,
  ): Promise<void> {
    const path = `${collectionPath(collection)}/shards?timeout=${CREATE_SECONDS}`
    const body = { shard_key: key, shards_number: shards, replication_factor: copies }
    await this.#engine.call('PUT', path, Done, {
      body,
      timeoutMs: AGREED_CALL_MS,
      signal,
    })
  }

  /** With all points in it. */
  async deleteShardKey(collection: string, key: ShardKey, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/shards/delete?timeout=${CREATE_SECONDS}`
    const body = { shard_key: key }
    await this.#engine.call('POST', path, Done, {
      body,
      timeoutMs: AGREED_CALL_MS,
      signal,
    })
  }

  /**
   * Has this node fetch a snapshot and take it as its own; answers once it has. What the address says
   * besides the object, which is a credential, is taken out of every complaint. That a snapshot is one
   * of this very shard is not looked at by the engine (facts 6.6).
   */
  async recover(
    taker: Taker,
    { url, priority, checksum }: Recovery & { url: string },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#recoverFrom(taker, { location: url, priority, checksum }, LONG_CALL_MS, signal)
  }

  /** Why this node cannot fetch from an address; undefined when it can. Nothing is changed. */
  async whyUnreachable(
    collection: string,
    url: string,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    // Whatever is fetched, it does not have this checksum.
    const body = { location: url, priority: 'snapshot', checksum: NO_CHECKSUM }
    try {
      await this.#recoverFrom({ collection }, body, PROBE_MS, signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof EngineError)) throw error
      if (cannotFetch(error)) return error.message
      if (error.status !== undefined) return undefined
      // Packets that nobody answers: the node would wait for longer than we do.
      if (/timeout/i.test(error.message)) return `no answer from the store in ${PROBE_MS / 1000} s`
      throw error
    }
    return undefined
  }

  /**
   * The same as `recover`, of bytes that are sent. A file of this name stays in the snapshots folder of
   * a collection; of one shard none does.
   */
  async upload(
    taker: Taker,
    {
      file,
      source,
      size,
      priority,
      checksum,
    }: Recovery & { file: string; source: Readable; size: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const query = new URLSearchParams({ wait: 'true', priority, checksum })
    const path = `${takerPath(taker)}/snapshots/upload?${query.toString()}`
    const stream = fileForm({ field: 'snapshot', file, source, size })
    // True for a collection, null for a shard.
    await this.#engine.call('POST', path, Type.Unknown(), {
      stream,
      timeoutMs: LONG_CALL_MS,
      signal,
    })
  }

  /** Whether this node still takes a snapshot: it goes on when nobody waits for it any more. */
  async isRecovering(collection: string, signal?: AbortSignal): Promise<boolean> {
    const { collections } = await this.#telemetry(signal)
    const found = collections.snapshots?.find(({ id }) => id === collection)
    return (found?.running_snapshot_recovery ?? 0) > 0
  }

  /** All disks of this node together, in bytes; undefined where the engine does not tell. */
  async diskBytes(signal?: AbortSignal): Promise<number | undefined> {
    const size = (await this.#telemetry(signal)).app.system?.disk_size
    return size == null ? undefined : size * KIB
  }

  /** Starts the way of a shard with hardly a point in it, the quicker one for these; `placement` tells the rest. */
  async moveShard(collection: string, move: ShardMove, signal?: AbortSignal): Promise<void> {
    await this.#change(collection, { move_shard: { ...move, method: 'stream_records' } }, signal)
  }

  /** Starts a copy; where it stands is told by `placement`. */
  async replicateShard(collection: string, move: ShardMove, signal?: AbortSignal): Promise<void> {
    await this.#change(collection, { replicate_shard: move }, signal)
  }

  /** Refused for the last copy that is Active. */
  async dropReplica(
    collection: string,
    replica: { shard_id: number; peer_id: number },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#change(collection, { drop_replica: replica }, signal)
  }

  async #recoverFrom(
    taker: Taker,
    body: { location: string; priority: string; checksum: string },
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const path = `${takerPath(taker)}/snapshots/recover?wait=true`
    try {
      await this.#engine.call('PUT', path, Done, { body, timeoutMs, signal })
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      const message = withoutQuery(error.message)
      throw new EngineError(message, error.status === undefined ? {} : { status: error.status })
    }
  }

  async #change(collection: string, body: object, signal: AbortSignal | undefined): Promise<void> {
    const path = `${collectionPath(collection)}/cluster?timeout=${CREATE_SECONDS}`
    await this.#engine.call('POST', path, Done, {
      body,
      timeoutMs: AGREED_CALL_MS,
      signal,
    })
  }

  #telemetry(signal: AbortSignal | undefined): Promise<Telemetry> {
    return this.#engine.call('GET', '/telemetry?details_level=2', Telemetry, { signal })
  }
}

/**
 * Whether a node refused a recovery because it may not fetch, found no way to the store, or was sent
 * away by it; nothing was touched then, and another way is open.
 */
export function cannotFetch({ status, message }: EngineError): boolean {
  if (status === 403) return true
  return /Failed to download|Http request error|error sending request/i.test(message)
}

/** Addresses without what stands behind the question mark: of a presigned one that is a credential. */
export function withoutQuery(text: string): string {
  return text.replace(/(https?:\/\/[^\s?"'<>]*)\?[^\s"'<>]*/gi, (found, address: string) => {
    const end = /[)\]:,.;]+$/.exec(found)?.[0] ?? ''
    return `${address}${end}`
  })
}

function takerPath({ collection, shard }: Taker): string {
  return shard === undefined
    ? collectionPath(collection)
    : `${collectionPath(collection)}/shards/${shard}`
}
