/**
 * What all collections of a cluster share: readiness, version and aliases, asked once in ten seconds,
 * and a limit on the passes at once. A thousand collections are a thousand syncs, not as many calls.
 */
import { RETRY_SECONDS } from '../../crds/contract/limits.ts'
import type { Alias } from '../../crds/engine/collections.ts'
import type { CollectionEngine } from './ports.ts'

const MAX_AGE_MS = 10_000
const EVICT_AFTER_MS = 600_000
const MAX_CONCURRENT = 8

/** An answer is nobody's alone: the end of one pass must not end it for the others. */
const NEVER_ABORTED = new AbortController().signal

/** The clusters by their connection: another key Secret or TLS is another engine. */
export class EngineCaches {
  readonly #caches = new Map<string, EngineCache>()
  readonly #now: () => Date

  constructor(now: () => Date) {
    this.#now = now
  }

  get(key: string, engine: () => CollectionEngine): EngineCache {
    const time = this.#now().getTime()
    for (const [other, { usedAt }] of this.#caches) {
      if (usedAt < time - EVICT_AFTER_MS) this.#caches.delete(other)
    }
    const cache = this.#caches.get(key) ?? new EngineCache(engine(), this.#now)
    cache.usedAt = time
    this.#caches.set(key, cache)
    return cache
  }
}

interface CachedValue<T> {
  storedAt: number
  value: Promise<T>
  /** It has been answered. */
  isResolved: boolean
}

export class EngineCache {
  readonly engine: CollectionEngine
  readonly #now: () => Date
  readonly #cached = new Map<string, CachedValue<unknown>>()
  readonly #queue: (() => void)[] = []
  #running = 0
  #backOffUntil = 0
  usedAt = 0

  constructor(engine: CollectionEngine, now: () => Date) {
    this.engine = engine
    this.#now = now
  }

  /** False too while an engine that did not answer is left alone. */
  async readyz(signal: AbortSignal): Promise<boolean> {
    if (this.#now().getTime() < this.#backOffUntil) return false
    return this.#cachedCall('readyz', () => this.engine.readyz(NEVER_ABORTED), signal)
  }

  version(signal: AbortSignal): Promise<string> {
    return this.#cachedCall('version', () => this.engine.version(NEVER_ABORTED), signal)
  }

  aliases(signal: AbortSignal): Promise<Alias[]> {
    return this.#cachedCall('aliases', () => this.engine.aliases(NEVER_ABORTED), signal)
  }

  /** Before aliases are changed, and after: what was known of them is not good enough. */
  invalidateAliases(): void {
    this.#cached.delete('aliases')
  }

  /** The engine did not answer: nobody asks it for a while. */
  backOff(): void {
    this.#backOffUntil = this.#now().getTime() + RETRY_SECONDS * 1000
  }

  /** Runs the work once fewer than eight others are under way. */
  async runLimited<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.#running >= MAX_CONCURRENT) await this.#waitForSlot(signal)
    else this.#running += 1
    try {
      return await work()
    } finally {
      this.#releaseSlot()
    }
  }

  /** The turn goes to the next in line, so the number that runs stays the same. */
  #releaseSlot(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#running -= 1
    else next()
  }

  async #waitForSlot(signal: AbortSignal): Promise<void> {
    let resume: () => void = () => undefined
    const slot = new Promise<void>((resolve) => {
      resume = resolve
    })
    this.#queue.push(resume)
    try {
      await abortable(slot, signal)
    } catch (error) {
      const position = this.#queue.indexOf(resume)
      // It may have come in the very moment in which the pass was ended.
      if (position < 0) this.#releaseSlot()
      else this.#queue.splice(position, 1)
      throw error
    }
  }

  #cachedCall<T>(name: string, call: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const time = this.#now().getTime()
    const existing = this.#cached.get(name) as CachedValue<T> | undefined
    const isFresh = existing !== undefined && time - existing.storedAt < MAX_AGE_MS
    const entry = isFresh ? existing : this.#store(name, call())
    // Nobody waits for what is there.
    return entry.isResolved ? entry.value : abortable(entry.value, signal)
  }

  #store<T>(name: string, value: Promise<T>): CachedValue<T> {
    const entry = { storedAt: this.#now().getTime(), value, isResolved: false }
    this.#cached.set(name, entry)
    value.then(
      () => {
        entry.isResolved = true
      },
      () => {
        if (this.#cached.get(name) === entry) this.#cached.delete(name)
      },
    )
    return entry
  }
}

/** What was asked for all goes on without the pass that ends. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(new Error('the pass was ended'))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
