/**
 * The engine's endpoints that a backup needs: snapshots of one node, and the definition of a
 * collection.
 */
import type { Readable } from 'node:stream'
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../../crds/contract/errors.ts'
import { LONG_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import { MAX_TIMER_MS, longCallTimeoutMs } from '../http/request.ts'
import {
  AliasList,
  BackupClusterInfo,
  BackupCollectionInfo,
  CountResult,
  Snapshot,
  SnapshotList,
  SnapshotTelemetry,
} from './responses.ts'
import type { Engine } from './client.ts'
import { collectionPath, encodeSegment } from './transport.ts'

const LONG_CALL_MS = LONG_CALL_TIMEOUT_SECONDS * 1000
/** The call waits for locks that a snapshot holds; the engine gives up after 60 s. */
const TELEMETRY_MS = 65_000
/** Used if the engine does not report the number of bytes. */
const UNKNOWN_SIZE_MS = 24 * LONG_CALL_MS

/** Snapshots of a collection that were requested from a node. */
export interface SnapshotCreations {
  /** Snapshots in progress. */
  running: number
  /** All snapshots since the node started. */
  total: number
  /** When the node started: a new process counts from 0. */
  since: string
}

/**
 * What only telemetry reports about a collection on a node; undefined if the engine does not report
 * it.
 */
export interface CollectionIdentity {
  /** Changes when a collection is dropped and recreated. */
  uuid: string | undefined
  /** Approximate bytes of vectors and payloads. */
  bytes: number | undefined
  /** Since 1.16. */
  creations: SnapshotCreations | undefined
}

export class EngineSnapshots {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** With exact numbers: a restore writes them again. */
  collection(name: string, signal?: AbortSignal): Promise<BackupCollectionInfo> {
    const options = { signal, exactNumbers: true } as const
    return this.#engine.call('GET', collectionPath(name), BackupCollectionInfo, options)
  }

  async aliases(name: string, signal?: AbortSignal): Promise<string[]> {
    const path = `${collectionPath(name)}/aliases`
    const { aliases } = await this.#engine.call('GET', path, AliasList, { signal })
    return aliases.map(({ alias_name }) => alias_name).sort()
  }

  collectionCluster(name: string, signal?: AbortSignal): Promise<BackupClusterInfo> {
    return this.#engine.call('GET', `${collectionPath(name)}/cluster`, BackupClusterInfo, {
      signal,
    })
  }

  /** An exact count; undefined if the collection does not allow it (strict mode). */
  async exactCount(
    collection: string,
    signal?: AbortSignal,
    shardKey?: ShardKey,
  ): Promise<number | undefined> {
    const path = `${collectionPath(collection)}/points/count`
    const body = { exact: true, ...(shardKey !== undefined && { shard_key: shardKey }) }
    const options = { body, timeoutMs: LONG_CALL_MS, signal }
    try {
      return (await this.#engine.call('POST', path, CountResult, options)).count
    } catch (error) {
      if (error instanceof EngineError && error.status === 400) return undefined
      throw error
    }
  }

  /** Snapshot files of this collection on this node; files on other nodes are not listed. */
  list(collection: string, signal?: AbortSignal): Promise<Snapshot[]> {
    const path = `${collectionPath(collection)}/snapshots`
    return this.#engine.call('GET', path, SnapshotList, { signal })
  }

  /**
   * Resolves once the node has started a snapshot of its shards, which then continues even if the
   * client disappears.
   */
  async begin(collection: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/snapshots?wait=false`
    await this.#engine.bytes('POST', path, { signal })
  }

  /**
   * Snapshots the shards on this node; resolves when the file is complete, or rejects with the
   * reason of the failure.
   */
  create(collection: string, timeoutMs: number, signal?: AbortSignal): Promise<Snapshot> {
    const path = `${collectionPath(collection)}/snapshots?wait=true`
    return this.#engine.call('POST', path, Snapshot, { timeoutMs, signal })
  }

  async identity(collection: string, signal?: AbortSignal): Promise<CollectionIdentity> {
    // Lower levels list no shards and therefore no sizes.
    return parseIdentity(await this.#telemetry(3, TELEMETRY_MS, signal), collection)
  }

  /** uuid of each collection for which the engine reports one, by name. */
  async uuids(signal?: AbortSignal, timeoutMs = TELEMETRY_MS): Promise<Map<string, string>> {
    // The first level that lists collections: the next one lists their shards.
    const { collections } = await this.#telemetry(2, timeoutMs, signal)
    return new Map(
      (collections.collections ?? []).flatMap(({ id, config }): [string, string][] =>
        config?.uuid == null ? [] : [[id, config.uuid]],
      ),
    )
  }

  download(collection: string, { name, size }: Snapshot, signal?: AbortSignal): Promise<Readable> {
    const path = `${collectionPath(collection)}/snapshots/${encodeSegment(name)}`
    return this.#engine.open(path, longCallTimeoutMs(size), signal)
  }

  /**
   * Streams a snapshot of a shard on this node while the engine creates it: no file is created, and
   * neither a length nor a checksum is given. The engine closes the stream if the client reads
   * nothing for five minutes.
   */
  streamShard(collection: string, shardId: number, signal?: AbortSignal): Promise<Readable> {
    // The duration is unknown; a stalled stream ends by itself.
    return this.#engine.open(
      `${collectionPath(collection)}/shards/${shardId}/snapshot`,
      MAX_TIMER_MS,
      signal,
    )
  }

  async delete(collection: string, name: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/snapshots/${encodeSegment(name)}?wait=true`
    await this.#engine.call('DELETE', path, Type.Unknown(), { signal })
  }

  #telemetry(
    level: 2 | 3,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<SnapshotTelemetry> {
    const path = `/telemetry?details_level=${level}`
    return this.#engine.call('GET', path, SnapshotTelemetry, { timeoutMs, signal })
  }
}

/** Time limit for a snapshot of this size. */
export function snapshotTimeoutMs(bytes: number | undefined): number {
  return bytes === undefined ? UNKNOWN_SIZE_MS : longCallTimeoutMs(bytes)
}

function parseIdentity(telemetry: SnapshotTelemetry, name: string): CollectionIdentity {
  const collection = telemetry.collections.collections?.find(({ id }) => id === name)
  return {
    uuid: collection?.config?.uuid ?? undefined,
    bytes: sumBytes(collection?.shards ?? []),
    creations: parseCreations(telemetry, name),
  }
}

function parseCreations(
  { app, collections }: SnapshotTelemetry,
  name: string,
): SnapshotCreations | undefined {
  const { snapshots } = collections
  const { startup: since } = app
  if (snapshots == null || since == null) return undefined
  const counts = snapshots.find(({ id }) => id === name)
  // A collection without any snapshot request may be missing.
  if (counts === undefined) return { running: 0, total: 0, since }
  const { running_snapshots: running, total_snapshot_creations: total } = counts
  return running == null || total == null ? undefined : { running, total, since }
}

type TelemetryShards = NonNullable<
  NonNullable<SnapshotTelemetry['collections']['collections']>[number]['shards']
>

/** Undefined if one of the shards reports no size. */
function sumBytes(shards: TelemetryShards): number | undefined {
  let bytes = 0
  for (const { local } of shards) {
    if (local == null) continue
    const { vectors_size_bytes: vectors, payloads_size_bytes: payloads } = local
    if (vectors == null || payloads == null) return undefined
    bytes += vectors + payloads
  }
  return bytes
}
