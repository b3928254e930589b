/** The engine's endpoints that a VecCollection needs: collections, payload indexes and aliases. */
import { EngineError } from '../../../crds/contract/errors.ts'
import { CREATE_TIMEOUT_SECONDS, WRITE_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import {
  Aliases,
  CollectionInfo,
  type Alias,
  type AliasAction,
  type CollectionBody,
  type IndexBody,
} from '../../../crds/engine/collections.ts'
import type { Engine } from './client.ts'
import { BooleanResult, OperationResult, type CollectionClusterInfo } from './responses.ts'
import { collectionPath, encodeSegment } from './transport.ts'

/** The engine answers when its own limit expires; the client must still be waiting then. */
const CREATE_CALL_MS = (CREATE_TIMEOUT_SECONDS + 5) * 1000

interface CollectionsOptions {
  /** Numbers of a configuration that JavaScript would change are `ExactNumber`, for callers that write it again. */
  exactNumbers?: true
}

export class EngineCollections {
  readonly #engine: Engine
  readonly #options: CollectionsOptions

  constructor(engine: Engine, options: CollectionsOptions = {}) {
    this.#engine = engine
    this.#options = options
  }

  notReadyReason(signal?: AbortSignal): Promise<string | undefined> {
    return this.#engine.notReadyReason(signal)
  }

  version(signal?: AbortSignal): Promise<string> {
    return this.#engine.version(signal)
  }

  async aliases(signal?: AbortSignal): Promise<Alias[]> {
    return (await this.#engine.call('GET', '/aliases', Aliases, { signal })).aliases
  }

  /**
   * Undefined if the collection does not exist. The name of an alias returns the collection of the
   * alias.
   */
  async collectionInfo(name: string, signal?: AbortSignal): Promise<CollectionInfo | undefined> {
    const options = { signal, ...this.#options }
    try {
      return await this.#engine.call('GET', collectionPath(name), CollectionInfo, options)
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  collectionCluster(name: string, signal?: AbortSignal): Promise<CollectionClusterInfo> {
    return this.#engine.collectionCluster(name, signal)
  }

  /** Waits for every replica: up to a minute. */
  async createCollection(name: string, body: CollectionBody, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${CREATE_TIMEOUT_SECONDS}`
    await this.#engine.call('PUT', path, BooleanResult, {
      body,
      timeoutMs: CREATE_CALL_MS,
      signal,
    })
  }

  async patchCollection(name: string, body: CollectionBody, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${WRITE_TIMEOUT_SECONDS}`
    await this.#engine.call('PATCH', path, BooleanResult, { body, signal })
  }

  /** A missing collection is accepted: the engine answers `false` or 404. */
  async deleteCollection(name: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${WRITE_TIMEOUT_SECONDS}`
    await ignoreNotFound(this.#engine.call('DELETE', path, BooleanResult, { signal }))
  }

  /** Returns once the change is agreed on; the index is built afterwards. */
  async putIndex(name: string, body: IndexBody, signal?: AbortSignal): Promise<void> {
    await this.#engine.call('PUT', `${collectionPath(name)}/index?wait=false`, OperationResult, {
      body,
      signal,
    })
  }

  async deleteIndex(name: string, field: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}/index/${encodeSegment(field)}?wait=false`
    await ignoreNotFound(this.#engine.call('DELETE', path, OperationResult, { signal }))
  }

  /** Readers see no intermediate state, but actions before a failing action remain applied. */
  async updateAliases(actions: AliasAction[], signal?: AbortSignal): Promise<void> {
    const path = `/collections/aliases?timeout=${WRITE_TIMEOUT_SECONDS}`
    await this.#engine.call('POST', path, BooleanResult, { body: { actions }, signal })
  }
}

async function ignoreNotFound(call: Promise<unknown>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof EngineError) || error.status !== 404) throw error
  }
}
