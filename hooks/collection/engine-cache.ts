/**
 * State shared by all collections of a cluster: readiness, version and aliases, each cached for ten
 * seconds, and a limit on concurrent reconciles. So a thousand collections do not cause a thousand calls.
 */
import type { EngineError } from '../../crds/contract/errors.ts'
import { RETRY_SECONDS } from '../../crds/contract/limits.ts'
import type { Alias } from '../../crds/engine/collections.ts'
import { isRecent } from '../conditions.ts'
import { FairLimiter } from '../fair-limiter.ts'
import type { CollectionEngine } from './ports.ts'

const MAX_AGE_MS = 10_000
const EVICT_AFTER_MS = 600_000
/** Each takes about 7 KB. A cluster whose cache was removed is asked again. */
const MAX_CACHES = 1000
const MAX_CONCURRENT = 8

/** Reconciles share the calls: aborting one reconcile must not abort a call for the others. */
const NEVER_ABORTED = new AbortController().signal

/** One cache per connection: a different key Secret or TLS setting counts as a different engine. */
export class EngineCaches {
  /** In the order of their last use. */
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
    this.#caches.delete(key)
    this.#caches.set(key, cache)
    const [leastRecent = key] = this.#caches.keys()
    if (this.#caches.size > MAX_CACHES) this.#caches.delete(leastRecent)
    return cache
  }
}

interface CachedValue<T> {
  storedAt: number
  value: Promise<T>
  /** The call has returned a value. */
  isResolved: boolean
}

export class EngineCache {
  readonly engine: CollectionEngine
  readonly #now: () => Date
  readonly #cached = new Map<string, CachedValue<unknown>>()
  readonly #limiter = new FairLimiter(MAX_CONCURRENT)
  /** The last call that got no answer. */
  #unanswered = { at: -Infinity, reason: '' }
  usedAt = 0

  constructor(engine: CollectionEngine, now: () => Date) {
    this.engine = engine
    this.#now = now
  }

  /** Undefined if the engine is ready and recent calls were answered. */
  async notReadyReason(signal: AbortSignal): Promise<string | undefined> {
    const { at, reason } = this.#unanswered
    if (isRecent(at, RETRY_SECONDS * 1000, this.#now().getTime())) return reason
    return this.#cachedCall('readyz', () => this.engine.notReadyReason(NEVER_ABORTED), signal)
  }

  version(signal: AbortSignal): Promise<string> {
    return this.#cachedCall('version', () => this.engine.version(NEVER_ABORTED), signal)
  }

  aliases(signal: AbortSignal): Promise<Alias[]> {
    return this.#cachedCall('aliases', () => this.engine.aliases(NEVER_ABORTED), signal)
  }

  /** Called before and after aliases are changed, when the cached list is not reliable. */
  invalidateAliases(): void {
    this.#cached.delete('aliases')
  }

  /**
   * The engine did not answer: report it as not ready for a while without calling it. The reason is the cause
   * alone: other tenants read it, and the message of the error names a collection.
   */
  backOff({ cause }: EngineError): void {
    const detail = cause instanceof Error && cause.message !== '' ? `: ${cause.message}` : ''
    this.#unanswered = { at: this.#now().getTime(), reason: `a recent call got no answer${detail}` }
  }

  /** Runs the work once fewer than eight others are in progress. */
  runLimited<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#limiter.run(undefined, signal, work)
  }

  #cachedCall<T>(name: string, call: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const time = this.#now().getTime()
    const existing = this.#cached.get(name) as CachedValue<T> | undefined
    const isFresh = existing !== undefined && isRecent(existing.storedAt, MAX_AGE_MS, time)
    const entry = isFresh ? existing : this.#store(name, call())
    // A value that is already there needs no abort handling.
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

/** Rejects when the signal aborts; the shared call continues for the others. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(new Error('the reconcile was aborted'))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
