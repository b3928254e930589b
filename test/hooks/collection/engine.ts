/**
 * An engine as plain data behind the port of the VecCollection hooks. It applies request bodies as the engine
 * double does. Reads after a PATCH are old by count, not by time, and a test may let single calls fail.
 */
import type {
  Alias,
  AliasAction,
  CollectionBody,
  CollectionInfo,
  IndexBody,
  ShardReplicas,
} from '../../../crds/engine/collections.ts'
import type { CollectionEngine } from '../../../hooks/collection/ports.ts'
import {
  createdInfo,
  engineError,
  patchInto,
  readCreation,
  readIndex,
  readPatch,
  withoutField,
} from './engine-config.ts'

type Call = [name: string, ...parts: unknown[]]

export interface Stored {
  info: CollectionInfo
  /** What reads still show, and how many of them. */
  stale?: { info: CollectionInfo; reads: number }
}

export class FakeEngine implements CollectionEngine {
  readonly collections = new Map<string, Stored>()
  readonly aliasTargets = new Map<string, string>()
  /** Every write, in order. */
  readonly writes: Call[] = []
  /** Every call, by name. */
  readonly calls: string[] = []
  isReady = true
  engineVersion = '1.18.3'
  nodes = 1
  /** So many reads after a PATCH show what was before. */
  staleReads = 1
  /** Thrown by the next call of a name, after the write was applied (`applied`) or instead of it. */
  readonly faults = new Map<string, { error: Error; applied?: boolean; persists?: boolean }>()
  /** Called before each call: a test may change the world there. */
  beforeCall: (name: string) => void | Promise<void> = () => undefined
  replicas: ShardReplicas | undefined

  async notReadyReason(): Promise<string | undefined> {
    await this.#enter('readyz')
    return this.isReady ? undefined : 'GET /readyz on vec-a answered 503: some shards are not ready'
  }

  async version(): Promise<string> {
    await this.#enter('version')
    return this.engineVersion
  }

  async aliases(): Promise<Alias[]> {
    await this.#enter('aliases')
    return [...this.aliasTargets].map(([alias_name, collection_name]) => ({
      alias_name,
      collection_name,
    }))
  }

  async collectionInfo(collection: string): Promise<CollectionInfo | undefined> {
    await this.#enter('collectionInfo')
    const stored = this.collections.get(this.#target(collection))
    if (stored === undefined) return undefined
    if (stored.stale !== undefined && stored.stale.reads > 0) {
      stored.stale.reads -= 1
      return structuredClone(stored.stale.info)
    }
    return structuredClone(stored.info)
  }

  async collectionCluster(): Promise<ShardReplicas> {
    await this.#enter('collectionCluster')
    return this.replicas ?? { local_shards: [{ shard_id: 0, state: 'Active' }], remote_shards: [] }
  }

  createCollection(collection: string, body: CollectionBody): Promise<void> {
    return this.#write('createCollection', [collection, body], () => {
      const read = readCreation(body)
      if (this.collections.has(collection)) throw engineError(409, 'already exists')
      if (this.aliasTargets.has(collection)) throw engineError(400, 'an alias has this name')
      this.collections.set(collection, { info: createdInfo(read) })
    })
  }

  patchCollection(collection: string, body: CollectionBody): Promise<void> {
    return this.#write('patchCollection', [collection, body], () => {
      const read = readPatch(body)
      const stored = this.collections.get(this.#target(collection))
      if (stored === undefined) throw engineError(404, 'not found')
      const beforeCall = structuredClone(stored.info)
      patchInto(stored.info, read)
      stored.stale = { info: beforeCall, reads: this.staleReads }
    })
  }

  deleteCollection(collection: string): Promise<void> {
    return this.#write('deleteCollection', [collection], () => {
      this.collections.delete(collection)
      for (const [alias, target] of this.aliasTargets) {
        if (target === collection) this.aliasTargets.delete(alias)
      }
    })
  }

  putIndex(collection: string, index: IndexBody): Promise<void> {
    return this.#write('putIndex', [collection, index], () => {
      const change = readIndex(index)
      const stored = this.collections.get(this.#target(collection))
      if (stored === undefined) throw engineError(404, 'not found')
      stored.info.payload_schema = change(stored.info.payload_schema)
    })
  }

  deleteIndex(collection: string, field: string): Promise<void> {
    return this.#write('deleteIndex', [collection, field], () => {
      const stored = this.collections.get(this.#target(collection))
      if (stored === undefined) return
      stored.info.payload_schema = withoutField(stored.info.payload_schema, field)
    })
  }

  updateAliases(actions: AliasAction[]): Promise<void> {
    return this.#write('updateAliases', [actions], () => {
      for (const action of actions) {
        if ('delete_alias' in action) {
          this.aliasTargets.delete(action.delete_alias.alias_name)
          continue
        }
        const { alias_name, collection_name } = action.create_alias
        if (this.collections.has(alias_name))
          throw engineError(409, `collection ${alias_name} exists`)
        if (!this.collections.has(collection_name)) throw engineError(404, 'not found')
        this.aliasTargets.set(alias_name, collection_name)
      }
    })
  }

  /** The live config of a collection, for a test to change by hand. */
  liveInfo(collection: string): CollectionInfo {
    const stored = this.collections.get(collection)
    if (stored === undefined) throw new Error(`no collection ${collection}`)
    return stored.info
  }

  #target(name: string): string {
    return this.aliasTargets.get(name) ?? name
  }

  async #enter(name: string): Promise<void> {
    this.calls.push(name)
    await this.beforeCall(name)
    const fault = this.faults.get(name)
    if (fault === undefined || fault.applied === true) return
    if (fault.persists !== true) this.faults.delete(name)
    throw fault.error
  }

  async #write(name: string, parts: unknown[], apply: () => void): Promise<void> {
    this.writes.push([name, ...parts])
    await this.#enter(name)
    apply()
    const fault = this.faults.get(name)
    if (fault === undefined) return
    if (fault.persists !== true) this.faults.delete(name)
    throw fault.error
  }
}
