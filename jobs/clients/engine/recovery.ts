/**
 * The engine's endpoints that a restore needs: recovery of snapshots, replicas of shards, shard
 * keys, and the nodes' views of each other.
 */
import type { Readable } from 'node:stream'
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import { CREATE_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import type { IndexBody } from '../../../crds/engine/collections.ts'
import { stripQuery } from '../http/redact.ts'
import { longCallTimeoutMs } from '../http/request.ts'
import {
  BooleanResult,
  AnyObject,
  RestoreCollectionInfo,
  RestoreClusterInfo,
  ConsensusStatus,
} from './responses.ts'
import { readNodeTelemetry, readRecoveries } from './node-telemetry.ts'
import type { Engine } from './client.ts'
import { collectionPath } from './transport.ts'
import { fileFormBody } from '../http/body.ts'

/** The engine answers when its own limit expires; the client must still be waiting then. */
const CONSENSUS_CALL_MS = (CREATE_TIMEOUT_SECONDS + 5) * 1000
const PROBE_MS = 20_000
/** Matches no content: whatever is sent with it is rejected. */
const PROBE_CHECKSUM = '0'.repeat(64)
const KIB = 1024

export type SnapshotPriority = 'snapshot' | 'replica' | 'no_sync'

/**
 * What recovers a snapshot on a node: everything the node holds of a collection, or one shard of
 * it.
 */
export interface RecoveryTarget {
  collection: string
  shard?: number
}

export interface RecoveryRequest {
  priority: SnapshotPriority
  /** Size of the snapshot in bytes; determines the time limit of the call. */
  size: number
}

/** A snapshot that the node downloads. */
export interface SnapshotDownload extends RecoveryRequest {
  url: string
  /** Hex SHA-256 of the snapshot; without one the engine does not verify it. */
  checksum: string | undefined
}

/** A snapshot that is uploaded to the node. */
export interface SnapshotUpload extends RecoveryRequest {
  /** File name in the form. */
  file: string
  source: Readable
  /** Awaited after all bytes have been sent: until it resolves, the engine cannot start. */
  beforeEnd: () => Promise<void>
}

/** The transfer of a shard from one peer to another. */
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

  /**
   * Undefined if the collection does not exist. The name of an alias returns the collection of the
   * alias. With exact numbers, like a manifest.
   */
  async collection(name: string, signal?: AbortSignal): Promise<RestoreCollectionInfo | undefined> {
    const options = { signal, exactNumbers: true } as const
    try {
      return await this.#engine.call('GET', collectionPath(name), RestoreCollectionInfo, options)
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  /** Resolves once the index is built on every shard: at once if the collection is empty. */
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

  /**
   * Its shards get the next free ids, in sequence, each with `replicas` replicas: by default as many as the collection
   * is to have.
   */
  async createShardKey(
    collection: string,
    { key, shards, replicas }: { key: ShardKey; shards: number; replicas?: number | undefined },
    signal?: AbortSignal,
  ): Promise<void> {
    const path = `${collectionPath(collection)}/shards?timeout=${CREATE_TIMEOUT_SECONDS}`
    const body = {
      ...{ shard_key: key, shards_number: shards },
      ...(replicas !== undefined && { replication_factor: replicas }),
    }
    await this.#engine.call('PUT', path, BooleanResult, {
      body,
      timeoutMs: CONSENSUS_CALL_MS,
      signal,
    })
  }

  /** Deletes the shard key with all its points. */
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
   * Makes this node download a snapshot and recover from it; resolves when the recovery is
   * complete. The query of the address is a credential and is removed from every error message. The
   * engine does not verify that a snapshot belongs to this shard.
   */
  async recover(
    target: RecoveryTarget,
    { url, priority, checksum, size }: SnapshotDownload,
    signal?: AbortSignal,
  ): Promise<void> {
    const body = { location: url, priority, ...(checksum !== undefined && { checksum }) }
    await this.#recoverFrom(target, body, longCallTimeoutMs(size), signal)
  }

  /** Why this node cannot download from an address; undefined if it can. Changes nothing. */
  async unreachableReason(
    collection: string,
    url: string,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    // Nothing that the node downloads has this checksum.
    const body = { location: url, priority: 'snapshot', checksum: PROBE_CHECKSUM }
    try {
      await this.#recoverFrom({ collection }, body, PROBE_MS, signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof EngineError)) throw error
      if (isFetchRefused(error)) return error.message
      if (error.status !== undefined) return undefined
      // The packets get no response: the node would wait longer than the client does.
      if (/timeout/i.test(error.message)) return `no answer from the store in ${PROBE_MS / 1000} s`
      throw error
    }
    return undefined
  }

  /**
   * Like `recover`, but uploads the bytes. The file of a collection stays in its snapshots folder
   * under this name; that of a single shard does not. The engine ignores a body that breaks off. No
   * checksum is sent: while the engine verifies one, its telemetry does not show that a recovery
   * will follow. So `source` must verify the bytes itself and fail before its end if they are not
   * those of the snapshot.
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
   * How many snapshots of a collection this node is currently recovering, whichever client
   * requested them: a recovery continues after the client has gone. Undefined for engines before
   * 1.16, which do not report it.
   */
  async runningRecoveries(collection: string, signal?: AbortSignal): Promise<number | undefined> {
    const recoveries = await readRecoveries(this.#engine, signal)
    return recoveries === undefined ? undefined : (recoveries.get(collection) ?? 0)
  }

  /**
   * Total capacity of all disks of this node in bytes; undefined if the engine does not report it.
   */
  async diskBytes(signal?: AbortSignal): Promise<number | undefined> {
    const size = (await readNodeTelemetry(this.#engine, signal)).app.system?.disk_size
    return size == null ? undefined : size * KIB
  }

  /**
   * Starts moving a shard that holds hardly any points, by the method that is faster for those;
   * `placement` reports the progress.
   */
  async moveShard(collection: string, move: MoveShard, signal?: AbortSignal): Promise<void> {
    await this.#updateCluster(
      collection,
      { move_shard: { ...move, method: 'stream_records' } },
      signal,
    )
  }

  /** Rejected for the last Active replica. */
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
      throw new EngineError(stripQuery(error.message), { status: error.status })
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
}

/** Statuses of a proxy in front of the engine, which may still be working. */
const PROXY_STATUSES = [408, 502, 503, 504]

/**
 * Whether this error means that the recovery has ended; if not, the node may still be working on
 * it.
 */
export function hasRecoveryEnded({ status }: EngineError): boolean {
  return status !== undefined && !PROXY_STATUSES.includes(status)
}

/**
 * Whether a node rejected a recovery because it is not allowed to download, could not reach the
 * store, or was rejected by it. Nothing was changed then, and the snapshot can be uploaded instead.
 */
export function isFetchRefused({ status, message }: EngineError): boolean {
  if (status === 403) return true
  return /Failed to download|Http request error|error sending request/i.test(message)
}

function targetPath({ collection, shard }: RecoveryTarget): string {
  return shard === undefined
    ? collectionPath(collection)
    : `${collectionPath(collection)}/shards/${shard}`
}
