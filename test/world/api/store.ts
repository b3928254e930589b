/** Storage of the embedded API: objects by kind, namespace and name under one counter of versions, and what changed. */
import type { ApiObject } from '../client.ts'
import { clone, deepFreeze } from './json.ts'
import type { Kind } from './kinds.ts'

export interface Change {
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** Group and plural of the kind. */
  collection: string
  object: ApiObject
  /** What a change replaced: a selector may have matched it. */
  previous?: ApiObject
  revision: number
}

/** Number of changes that are kept for watches; a watch that is further behind must list again. */
const MEMORY = 20_000

export class Store {
  #revision = 1
  #changes: Change[] = []
  readonly #collections = new Map<string, Map<string, ApiObject>>()
  readonly #listeners = new Set<(change: Change) => void>()

  get revision(): number {
    return this.#revision
  }

  get(kind: Kind, namespace: string, name: string): ApiObject | undefined {
    return this.#collection(collectionOf(kind)).get(`${namespace}/${name}`)
  }

  /** In the order of namespace and name, as etcd keeps them. */
  list(kind: Kind, namespace = ''): ApiObject[] {
    const prefix = namespace === '' ? '' : `${namespace}/`
    return [...this.#collection(collectionOf(kind))]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object)
  }

  /** Stores a copy under the next version and returns it, frozen. */
  put(kind: Kind, object: ApiObject): ApiObject {
    const key = keyOf(object)
    const collection = this.#collection(collectionOf(kind))
    const previous = collection.get(key)
    const stored = this.#next(object)
    collection.set(key, stored)
    this.#record({
      type: previous === undefined ? 'ADDED' : 'MODIFIED',
      collection: collectionOf(kind),
      object: stored,
      ...(previous !== undefined && { previous }),
    })
    return stored
  }

  /** Removes the object; its last state gets a version of its own. */
  remove(kind: Kind, object: ApiObject): ApiObject {
    this.#collection(collectionOf(kind)).delete(keyOf(object))
    const last = this.#next(object)
    this.#record({ type: 'DELETED', collection: collectionOf(kind), object: last, previous: last })
    return last
  }

  /** Removes all objects of a kind without a watch event, for a client that starts over. */
  empty(kind: Kind): void {
    this.#collections.delete(collectionOf(kind))
  }

  /** What changed after a version; undefined when that is no longer known. */
  since(revision: number): Change[] | undefined {
    const oldest = this.#changes[0]
    if (oldest !== undefined && this.#changes.length >= MEMORY && revision < oldest.revision - 1) {
      return undefined
    }
    const from = this.#changes.findIndex((change) => change.revision > revision)
    return from === -1 ? [] : this.#changes.slice(from)
  }

  /** Calls the listener synchronously for every change; the returned function unsubscribes. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #collection(name: string): Map<string, ApiObject> {
    const found = this.#collections.get(name)
    if (found !== undefined) return found
    const made = new Map<string, ApiObject>()
    this.#collections.set(name, made)
    return made
  }

  #next(object: ApiObject): ApiObject {
    this.#revision += 1
    const copy = clone(object)
    copy.metadata.resourceVersion = String(this.#revision)
    return deepFreeze(copy)
  }

  #record(change: Omit<Change, 'revision'>): void {
    const recorded = { ...change, revision: this.#revision }
    this.#changes.push(recorded)
    if (this.#changes.length > 2 * MEMORY) this.#changes = this.#changes.slice(-MEMORY)
    for (const listener of [...this.#listeners]) listener(recorded)
  }
}

export function collectionOf({ group, plural }: Kind): string {
  return `${group}/${plural}`
}

function keyOf({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`
}
