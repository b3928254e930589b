/** The engine's endpoints that a VecCollection needs: collections, payload indexes and aliases. */
import { EngineError } from '../../crds/errors.ts'
import { CREATE_SECONDS, WRITE_SECONDS } from '../../crds/limits.ts'
import { Aliases, CollectionInfo, type Alias } from '../../crds/rules/answers.ts'
import type { AliasAction, CollectionBody, IndexBody } from '../../crds/rules/bodies.ts'
import { Done, Operation, type Placement } from './engine-answers.ts'
import type { Engine } from './engine.ts'
import { collectionPath, segment } from './engine-path.ts'

/** The engine answers at the end of its own limit; we must still be there. */
const CREATE_CALL_MS = (CREATE_SECONDS + 5) * 1000

export class EngineCollections {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  readyz(signal?: AbortSignal): Promise<boolean> {
    return this.#engine.readyz(signal)
  }

  version(signal?: AbortSignal): Promise<string> {
    return this.#engine.version(signal)
  }

  async aliases(signal?: AbortSignal): Promise<Alias[]> {
    return (await this.#engine.call('GET', '/aliases', Aliases, { signal })).aliases
  }

  /** Undefined when there is no such collection. By the name of an alias it is the alias's. */
  async collectionInfo(name: string, signal?: AbortSignal): Promise<CollectionInfo | undefined> {
    try {
      return await this.#engine.call('GET', collectionPath(name), CollectionInfo, { signal })
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return undefined
      throw error
    }
  }

  collectionCluster(name: string, signal?: AbortSignal): Promise<Placement> {
    return this.#engine.collectionCluster(name, signal)
  }

  /** Waits for every replica: up to a minute. */
  async createCollection(name: string, body: CollectionBody, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${CREATE_SECONDS}`
    await this.#engine.call('PUT', path, Done, {
      body,
      timeoutMs: CREATE_CALL_MS,
      signal,
    })
  }

  async patchCollection(name: string, body: CollectionBody, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${WRITE_SECONDS}`
    await this.#engine.call('PATCH', path, Done, { body, signal })
  }

  /** One that is not there is fine: the engine answers `false`, or 404. */
  async deleteCollection(name: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}?timeout=${WRITE_SECONDS}`
    await unlessMissing(this.#engine.call('DELETE', path, Done, { signal }))
  }

  /** Answers once it is agreed on; it is built afterwards. */
  async putIndex(name: string, body: IndexBody, signal?: AbortSignal): Promise<void> {
    await this.#engine.call('PUT', `${collectionPath(name)}/index?wait=false`, Operation, {
      body,
      signal,
    })
  }

  async deleteIndex(name: string, field: string, signal?: AbortSignal): Promise<void> {
    const path = `${collectionPath(name)}/index/${segment(field)}?wait=false`
    await unlessMissing(this.#engine.call('DELETE', path, Operation, { signal }))
  }

  /** No reader sees anything in between; yet what stands before a failing action stays. */
  async updateAliases(actions: AliasAction[], signal?: AbortSignal): Promise<void> {
    const path = `/collections/aliases?timeout=${WRITE_SECONDS}`
    await this.#engine.call('POST', path, Done, { body: { actions }, signal })
  }
}

async function unlessMissing(call: Promise<unknown>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof EngineError) || error.status !== 404) throw error
  }
}
