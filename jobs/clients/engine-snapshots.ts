/** The engine's endpoints that a backup needs: snapshots of one node, and what a collection is. */
import type { Readable } from 'node:stream'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { EngineError } from '../../crds/errors.ts'
import { LONG_CALL_SECONDS } from '../../crds/limits.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { LONGEST_MS, longCallMs } from './call.ts'
import { Placement } from './engine-answers.ts'
import type { Engine } from './engine.ts'
import { collectionPath, segment } from './engine-path.ts'

const LONG_CALL_MS = LONG_CALL_SECONDS * 1000
/** It waits for locks that a snapshot holds; the engine gives up after 60 s. */
const TELEMETRY_MS = 65_000
/** Where the engine does not tell how many bytes there are. */
const UNKNOWN_SIZE_MS = 24 * LONG_CALL_MS

export const Snapshot = Type.Object({
  name: Type.String({ minLength: 1 }),
  size: Type.Integer({ minimum: 0 }),
  /** Hex SHA-256; absent where the engine keeps snapshots in a store of its own. */
  checksum: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})
export type Snapshot = Static<typeof Snapshot>
const Snapshots = Type.Array(Snapshot)

const Free = Type.Record(Type.String(), Type.Unknown())

/** All of `GET /collections/{c}` that makes the collection what it is. */
export const WholeCollection = Type.Object({
  points_count: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  config: Type.Object({ params: Free }, { additionalProperties: true }),
  payload_schema: Type.Record(
    Type.String(),
    Type.Object({
      data_type: Type.String(),
      params: Type.Optional(Type.Union([Free, Type.Null()])),
    }),
  ),
})
export type WholeCollection = Static<typeof WholeCollection>

/** Where shards are, and whether their number is being changed. */
export const SettlingPlacement = Type.Composite([
  Placement,
  Type.Object({ resharding_operations: Type.Optional(Type.Array(Type.Unknown())) }),
])
export type SettlingPlacement = Static<typeof SettlingPlacement>

const Count = Type.Object({ count: Type.Integer({ minimum: 0 }) })

const OrNull = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]))
const Bytes = OrNull(Type.Number({ minimum: 0 }))

/** `GET /telemetry?details_level=3`, the first level that lists shards; releases differ in what they leave out. */
const Telemetry = Type.Object({
  app: Type.Object({ startup: OrNull(Type.String()) }),
  collections: Type.Object({
    collections: OrNull(
      Type.Array(
        Type.Object({
          id: Type.String(),
          config: OrNull(Type.Object({ uuid: OrNull(Type.String()) })),
          shards: OrNull(
            Type.Array(
              Type.Object({
                local: OrNull(
                  Type.Object({ vectors_size_bytes: Bytes, payloads_size_bytes: Bytes }),
                ),
              }),
            ),
          ),
        }),
      ),
    ),
    snapshots: OrNull(
      Type.Array(
        Type.Object({
          id: Type.String(),
          running_snapshots: OrNull(Type.Integer({ minimum: 0 })),
          total_snapshot_creations: OrNull(Type.Integer({ minimum: 0 })),
        }),
      ),
    ),
  }),
})
type Telemetry = Static<typeof Telemetry>

/** Snapshots of a collection that a node was asked for. */
export interface Creations {
  /** Those it is making now. */
  running: number
  /** All of them, since it started. */
  total: number
  /** When it started: another process counts from 0. */
  since: string
}

/** What only telemetry tells of a collection on a node; undefined where the engine does not. */
export interface Identity {
  /** Another one when a collection is dropped and created again. */
  uuid: string | undefined
  /** About so many bytes of vectors and payloads. */
  bytes: number | undefined
  /** Since 1.16. */
  creations: Creations | undefined
}

const Aliases = Type.Object({ aliases: Type.Array(Type.Object({ alias_name: Type.String() })) })

export class EngineSnapshots {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  collection(name: string, signal?: AbortSignal): Promise<WholeCollection> {
    return this.#engine.call('GET', collectionPath(name), WholeCollection, { signal })
  }

  async aliases(name: string, signal?: AbortSignal): Promise<string[]> {
    const path = `${collectionPath(name)}/aliases`
    const { aliases } = await this.#engine.call('GET', path, Aliases, { signal })
    return aliases.map(({ alias_name }) => alias_name).sort()
  }

  placement(name: string, signal?: AbortSignal): Promise<SettlingPlacement> {
    return this.#engine.call('GET', `${collectionPath(name)}/cluster`, SettlingPlacement, {
      signal,
    })
  }

  /** Points counted one by one; undefined where the collection does not allow it (strict mode). */
  async exactCount(
    collection: string,
    signal?: AbortSignal,
    shardKey?: ShardKey,
  ): Promise<number | undefined> {
    const path = `${collectionPath(collection)}/points/count`
    const body = { exact: true, ...(shardKey !== undefined && { shard_key: shardKey }) }
    const options = { body, timeoutMs: LONG_CALL_MS, signal }
    try {
      return (await this.#engine.call('POST', path, Count, options)).count
    } catch (error) {
      if (error instanceof EngineError && error.status === 400) return undefined
      throw error
    }
  }

  /** Files of this collection that this node keeps; of other nodes it knows nothing. */
  list(collection: string, signal?: AbortSignal): Promise<Snapshot[]> {
    const path = `${collectionPath(collection)}/snapshots`
    return this.#engine.call('GET', path, Snapshots, { signal })
  }

  /** Answers once the node has begun a snapshot of its shards: then it goes on, whatever becomes of us. */
  async begin(collection: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/snapshots?wait=false`
    await this.#engine.bytes('POST', path, { signal })
  }

  /** Snapshots the shards this node holds; answers once the file is complete, or with why it is not. */
  create(collection: string, timeoutMs: number, signal?: AbortSignal): Promise<Snapshot> {
    const path = `${collectionPath(collection)}/snapshots?wait=true`
    return this.#engine.call('POST', path, Snapshot, { timeoutMs, signal })
  }

  async identity(collection: string, signal?: AbortSignal): Promise<Identity> {
    // A lower level names no shards, and with them no sizes.
    const path = '/telemetry?details_level=3'
    const telemetry = await this.#engine.call('GET', path, Telemetry, {
      timeoutMs: TELEMETRY_MS,
      signal,
    })
    return identityIn(telemetry, collection)
  }

  download(collection: string, { name, size }: Snapshot, signal?: AbortSignal): Promise<Readable> {
    const path = `${collectionPath(collection)}/snapshots/${segment(name)}`
    return this.#engine.open(path, longCallMs(size), signal)
  }

  /**
   * A shard this node holds, snapshotted while it is read: no file is made, and neither length nor
   * checksum is told. Who takes nothing for five minutes is left (facts 6.6).
   */
  streamShard(collection: string, shardId: number, signal?: AbortSignal): Promise<Readable> {
    // How long it takes nobody knows: one that stands still ends by itself.
    return this.#engine.open(
      `${collectionPath(collection)}/shards/${shardId}/snapshot`,
      LONGEST_MS,
      signal,
    )
  }

  async delete(collection: string, name: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(collection)}/snapshots/${segment(name)}?wait=true`
    await this.#engine.call('DELETE', path, Type.Unknown(), { signal })
  }
}

/** How long a snapshot of so many bytes may take. */
export function timeFor(bytes: number | undefined): number {
  return bytes === undefined ? UNKNOWN_SIZE_MS : longCallMs(bytes)
}

function identityIn(telemetry: Telemetry, name: string): Identity {
  const found = telemetry.collections.collections?.find(({ id }) => id === name)
  return {
    uuid: found?.config?.uuid ?? undefined,
    bytes: bytesIn(found?.shards ?? []),
    creations: creationsIn(telemetry, name),
  }
}

function creationsIn({ app, collections }: Telemetry, name: string): Creations | undefined {
  const { snapshots } = collections
  const { startup: since } = app
  if (snapshots == null || since == null) return undefined
  const counted = snapshots.find(({ id }) => id === name)
  // One that no snapshot was ever asked for may be missing.
  if (counted === undefined) return { running: 0, total: 0, since }
  const { running_snapshots: running, total_snapshot_creations: total } = counted
  return running == null || total == null ? undefined : { running, total, since }
}

type Shards = NonNullable<NonNullable<Telemetry['collections']['collections']>[number]['shards']>

/** Undefined where one of the shards does not tell. */
function bytesIn(shards: Shards): number | undefined {
  let bytes = 0
  for (const { local } of shards) {
    if (local == null) continue
    const { vectors_size_bytes: vectors, payloads_size_bytes: payloads } = local
    if (vectors == null || payloads == null) return undefined
    bytes += vectors + payloads
  }
  return bytes
}
