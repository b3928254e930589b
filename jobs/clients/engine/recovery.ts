/**
 * The engine's endpoints that a restore needs: recovery of snapshots, copies of shards, shard keys, and
 * what nodes know of each other (facts 6, 7.4 and 10).
 */
import type { Readable } from 'node:stream'
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import { CREATE_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import type { IndexBody } from '../../../crds/engine/collections.ts'
import { trimTrailing } from '../../../crds/contract/names.ts'
import { longCallTimeoutMs } from '../http/request.ts'
import { BooleanResult } from './responses.ts'
import {
  AnyObject,
  RestoreCollectionInfo,
  RestoreClusterInfo,
  ConsensusStatus,
  NodeTelemetry,
} from './recovery-responses.ts'
import type { Engine } from './client.ts'
import { collectionPath } from './transport.ts'
import { fileFormBody } from '../http/body.ts'

/** The engine answers at the end of its own limit; we must still be there. */
const CONSENSUS_CALL_MS = (CREATE_TIMEOUT_SECONDS + 5) * 1000
const PROBE_MS = 20_000
/** Of nothing: what is sent with it is never taken. */
const PROBE_CHECKSUM = '0'.repeat(64)
const KIB = 1024

export type SnapshotPriority = 'snapshot' | 'replica' | 'no_sync'

/** What takes a snapshot on a node: all it holds of a collection, or one shard of it. */
export interface RecoveryTarget {
  collection: string
  shard?: number
}

export interface RecoveryRequest {
  priority: SnapshotPriority
  /** Bytes of the snapshot: they set the time limit of the call. */
  size: number
}

/** A snapshot that the node downloads. */
export interface SnapshotDownload extends RecoveryRequest {
  url: string
  /** Hex SHA-256 of the snapshot; without one, the engine compares nothing. */
  checksum: string | undefined
}

/** A snapshot that is sent to the node. */
export interface SnapshotUpload extends RecoveryRequest {
  /** Name of the file in the form. */
  file: string
  source: Readable
  /** Awaited once all bytes have been sent: before it resolves, the engine cannot begin. */
  beforeEnd: () => Promise<void>
}

/** A shard's way from one peer to another. */
export interface MoveShard {
  shard_id: number
  from_peer_id: number
  to_peer_id: number
}

export class EngineRecovery {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  cluster(signal?: AbortSignal): Promise<ConsensusStatus> {
    return this.#engine.call('GET', '/cluster', ConsensusStatus, { signal })
  }

  collectionCluster(collection: string, signal?: AbortSignal): Promise<RestoreClusterInfo> {
    const path = `${collectionPath(collection)}/cluster`
    return this.#engine.call('GET', path, RestoreClusterInfo, { signal })
  }

  /** Undefined when there is no such collection. By the name of an alias it is the alias's. */
  async collection(name: string, signal?: AbortSignal): Promise<RestoreCollectionInfo | undefined> {
    try {
      return await this.#engine.call('GET', collectionPath(name), RestoreCollectionInfo, { signal })
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  /** Answers once it is built on every shard: at once, on a collection that is empty. */
  async buildIndex(
    collection: string,
    { body, bytes }: { body: IndexBody; bytes: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const path = `${collectionPath(collection)}/index?wait=true`
    await this.#engine.call('PUT', path, AnyObject, {
      body,
      timeoutMs: longCallTimeoutMs(bytes),
      signal,
    })
  }

  /** Its shards get the next ids there are, one after the other, each on so many nodes: one. */
  async createShardKey(
    collection: string,
    { key, shards, replicas = 1 }: { key: ShardKey; shards: number; replicas?: number | undefined },
    signal?: AbortSignal,
  ): Promise<void> {
    const path = `${collectionPath(collection)}/shards?timeout=${CREATE_TIMEOUT_SECONDS}`
    const body = { shard_key: key, shards_number: shards, replication_factor: replicas }
    await this.#engine.call('PUT', path, BooleanResult, {
      body,
      timeoutMs: CONSENSUS_CALL_MS,
      signal,
    })
  }

  /** With all points in it. */
  async deleteShardKey(collection: string, key: ShardKey, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/shards/delete?timeout=${CREATE_TIMEOUT_SECONDS}`
    const body = { shard_key: key }
    await this.#engine.call('POST', path, BooleanResult, {
      body,
      timeoutMs: CONSENSUS_CALL_MS,
      signal,
    })
  }

  /**
   * Has this node fetch a snapshot and take it as its own; answers once it has. What the address says
   * besides the object, which is a credential, is taken out of every complaint. That a snapshot is one
   * of this very shard is not looked at by the engine (facts 6.6).
   */
  async recover(
    target: RecoveryTarget,
    { url, priority, checksum, size }: SnapshotDownload,
    signal?: AbortSignal,
  ): Promise<void> {
    const body = { location: url, priority, ...(checksum !== undefined && { checksum }) }
    await this.#recoverFrom(target, body, longCallTimeoutMs(size), signal)
  }

  /** Why this node cannot fetch from an address; undefined when it can. Nothing is changed. */
  async unreachableReason(
    collection: string,
    url: string,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    // Whatever is fetched, it does not have this checksum.
    const body = { location: url, priority: 'snapshot', checksum: PROBE_CHECKSUM }
    try {
      await this.#recoverFrom({ collection }, body, PROBE_MS, signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof EngineError)) throw error
      if (isFetchRefused(error)) return error.message
      if (error.status !== undefined) return undefined
      // Packets that nobody answers: the node would wait for longer than we do.
      if (/timeout/i.test(error.message)) return `no answer from the store in ${PROBE_MS / 1000} s`
      throw error
    }
    return undefined
  }

  /**
   * The same as `recover`, of bytes that are sent. A file of this name stays in the snapshots folder of
   * a collection; of one shard none does. The engine takes nothing of a body that breaks off. It is given
   * no checksum: while it compares one, no telemetry tells that a recovery is to follow. So `source` has
   * to compare the bytes itself, and to fail before its end where they are not those of the snapshot.
   */
  async upload(
    target: RecoveryTarget,
    { file, source, size, priority, beforeEnd }: SnapshotUpload,
    signal?: AbortSignal,
  ): Promise<void> {
    const query = new URLSearchParams({ wait: 'true', priority })
    const path = `${targetPath(target)}/snapshots/upload?${query.toString()}`
    const stream = fileFormBody({ field: 'snapshot', file, source, size, beforeEnd })
    // True for a collection, null for a shard.
    const options = { stream, timeoutMs: longCallTimeoutMs(size), signal }
    await this.#engine.call('POST', path, Type.Unknown(), options)
  }

  /**
   * How many snapshots of a collection this node is recovering, whoever asked for that: it goes on when
   * the client has gone. Undefined from engines before 1.16, which do not tell.
   */
  async runningRecoveries(collection: string, signal?: AbortSignal): Promise<number | undefined> {
    const { snapshots } = (await this.#telemetry(signal)).collections
    if (snapshots === undefined) return undefined
    return snapshots.find(({ id }) => id === collection)?.running_snapshot_recovery ?? 0
  }

  /** All disks of this node together, in bytes; undefined where the engine does not tell. */
  async diskBytes(signal?: AbortSignal): Promise<number | undefined> {
    const size = (await this.#telemetry(signal)).app.system?.disk_size
    return size == null ? undefined : size * KIB
  }

  /** Starts the way of a shard with hardly a point in it, the quicker one for these; `placement` tells the rest. */
  async moveShard(collection: string, move: MoveShard, signal?: AbortSignal): Promise<void> {
    await this.#updateCluster(
      collection,
      { move_shard: { ...move, method: 'stream_records' } },
      signal,
    )
  }

  /** Starts a copy; where it stands is told by `placement`. */
  async replicateShard(collection: string, move: MoveShard, signal?: AbortSignal): Promise<void> {
    await this.#updateCluster(collection, { replicate_shard: move }, signal)
  }

  /** Refused for the last copy that is Active. */
  async dropReplica(
    collection: string,
    replica: { shard_id: number; peer_id: number },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#updateCluster(collection, { drop_replica: replica }, signal)
  }

  async #recoverFrom(
    target: RecoveryTarget,
    body: { location: string; priority: string; checksum?: string },
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const path = `${targetPath(target)}/snapshots/recover?wait=true`
    try {
      await this.#engine.call('PUT', path, BooleanResult, { body, timeoutMs, signal })
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      const message = stripQuery(error.message)
      throw new EngineError(message, error.status === undefined ? {} : { status: error.status })
    }
  }

  async #updateCluster(
    collection: string,
    body: object,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const path = `${collectionPath(collection)}/cluster?timeout=${CREATE_TIMEOUT_SECONDS}`
    await this.#engine.call('POST', path, BooleanResult, {
      body,
      timeoutMs: CONSENSUS_CALL_MS,
      signal,
    })
  }

  #telemetry(signal: AbortSignal | undefined): Promise<NodeTelemetry> {
    return this.#engine.call('GET', '/telemetry?details_level=2', NodeTelemetry, { signal })
  }
}

/** Statuses of what stands between us and the engine, which may still be at work. */
const PROXY_STATUSES = [408, 502, 503, 504]

/** Whether a recovery has ended with this error; if not, the node may still be at it. */
export function hasRecoveryEnded({ status }: EngineError): boolean {
  return status !== undefined && !PROXY_STATUSES.includes(status)
}

/**
 * Whether a node refused a recovery because it may not fetch, found no way to the store, or was sent
 * away by it; nothing was touched then, and another way is open.
 */
export function isFetchRefused({ status, message }: EngineError): boolean {
  if (status === 403) return true
  return /Failed to download|Http request error|error sending request/i.test(message)
}

/** Addresses without what stands behind the question mark: of a presigned one that is a credential. */
export function stripQuery(text: string): string {
  return text.replace(/(https?:\/\/[^\s?"'<>]*)\?[^\s"'<>]*/gi, (match, address: string) => {
    const end = match.slice(trimTrailing(match, ')]:,.;').length)
    return `${address}${end}`
  })
}

function targetPath({ collection, shard }: RecoveryTarget): string {
  return shard === undefined
    ? collectionPath(collection)
    : `${collectionPath(collection)}/shards/${shard}`
}
