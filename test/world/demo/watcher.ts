/** Follows every object of the shown kinds in one namespace, by watches as kubectl would. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { ApiClient } from '../client.ts'

export interface Change {
  object: AnyObject
  gone: boolean
}

const AGAIN_MS = 500
/** A watch is hardly ever later than that. */
const LATE_MS = 5_000

export class Watcher {
  readonly #client: ApiClient
  readonly #namespace: string
  readonly #stopped = new AbortController()
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #watches: Promise<void>[] = []
  readonly #known = new Map<string, AnyObject>()

  constructor(client: ApiClient, namespace: string) {
    this.#client = client
    this.#namespace = namespace
  }

  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  follow(apiVersion: string, kind: string): void {
    this.#watches.push(this.#watch(apiVersion, kind))
  }

  objects(): AnyObject[] {
    return [...this.#known.values()]
  }

  /** Waits until the watch has delivered a version that another client has already read. */
  async caughtUp(
    { kind, name }: { kind: string; name: string },
    predicate: (object: AnyObject | undefined) => boolean,
  ): Promise<void> {
    const isMet = () => predicate(this.#known.get(`${kind} ${name}`))
    if (isMet()) return
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const end = this.onChange(() => {
      if (isMet()) resolve(undefined)
    })
    const waited = new AbortController()
    await Promise.race([promise, pause(LATE_MS, waited.signal)])
    waited.abort()
    end()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await Promise.allSettled(this.#watches)
  }

  /** A watch that ends, as real API servers end them after a while, begins again with a list. */
  async #watch(apiVersion: string, kind: string): Promise<void> {
    const { signal } = this.#stopped
    const namespace = this.#namespace
    while (!signal.aborted) {
      try {
        const { items, resourceVersion } = await this.#client.list(apiVersion, kind, { namespace })
        this.#relist(kind, items)
        const options = { namespace, resourceVersion, signal }
        for await (const { type, object } of this.#client.watch(apiVersion, kind, options)) {
          if (type !== 'BOOKMARK') this.#see({ object, gone: type === 'DELETED' })
        }
      } catch {
        // The API may be away for a moment; where it stays away, the tour itself fails.
        await pause(AGAIN_MS, signal)
      }
    }
  }

  #relist(kind: string, items: AnyObject[]): void {
    const names = new Set(items.map(({ metadata }) => metadata.name))
    for (const object of this.objects()) {
      if (object.kind === kind && !names.has(object.metadata.name)) {
        this.#see({ object, gone: true })
      }
    }
    for (const object of items) this.#see({ object, gone: false })
  }

  #see(change: Change): void {
    const { object, gone } = change
    if (gone) this.#known.delete(keyOf(object))
    else this.#known.set(keyOf(object), object)
    for (const listener of this.#listeners) listener(change)
  }
}

/** One namespace is followed, so kind and name are enough. */
export function keyOf({ kind, metadata }: AnyObject): string {
  return `${kind} ${metadata.name}`
}

export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => undefined)
}
