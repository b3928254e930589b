/** The engine's endpoints that a backup needs: snapshots of one node, and what a collection is. */
import type { Readable } from 'node:stream'
import { Type, type Static } from '@sinclair/typebox'
import { EngineError } from '../../crds/errors.ts'
import { LONG_CALL_SECONDS } from '../../crds/limits.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { LONGEST_MS, longCallMs } from './call.ts'
import { Placement } from './engine-answers.ts'
import type { Engine } from './engine.ts'
import { collectionPath, segment } from './engine-path.ts'

const LONG_CALL_MS = LONG_CALL_SECONDS * 1000

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

  /** Snapshots the shards this node holds; answers once the file is complete. */
  create(collection: string, signal?: AbortSignal): Promise<Snapshot> {
    const path = `${collectionPath(collection)}/snapshots?wait=true`
    return this.#engine.call('POST', path, Snapshot, { timeoutMs: LONG_CALL_MS, signal })
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
