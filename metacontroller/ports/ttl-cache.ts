/** Short-lived cache for reads that many resources repeat. */
import { isRecent } from '../../hooks/conditions.ts'

/** Total size of the cache, and the size of one value. */
export interface Capacity<T> {
  max: number
  sizeOf: (value: T) => number
}

/**
 * Caches each value for this many seconds; concurrent callers share one load. Failures and missing
 * values are not cached, because callers wait for the object to appear. Above the capacity the
 * oldest values are evicted early.
 */
export function ttlCache<Key extends string[], T>(
  load: (...key: Key) => Promise<T | undefined>,
  seconds: number,
  now: () => Date,
  { max, sizeOf }: Capacity<T> = { max: Infinity, sizeOf: () => 0 },
): (...key: Key) => Promise<T | undefined> {
  // In the order of `storedAt`: new entries are always inserted last.
  const entries = new Map<string, Entry<T>>()
  let size = 0

  function evictExpired(time: number): void {
    for (const [key, { storedAt }] of entries) {
      if (isRecent(storedAt, seconds * 1000, time)) return
      evict(key)
    }
  }

  function evict(key: string): void {
    size -= entries.get(key)?.size ?? 0
    entries.delete(key)
  }

  /** Entries that are still loading have no size yet and are not evicted. */
  function evictOldest(): void {
    for (const [key, entry] of entries) {
      if (size <= max) return
      if (entry.size > 0) evict(key)
    }
  }

  return async (...keyParts) => {
    const key = JSON.stringify(keyParts)
    const time = now().getTime()
    evictExpired(time)
    const cached = entries.get(key)
    if (cached !== undefined) return cached.value
    const entry: Entry<T> = { storedAt: time, value: load(...keyParts), size: 0 }
    entries.set(key, entry)
    const isCurrent = () => entries.get(key) === entry
    try {
      const value = await entry.value
      if (!isCurrent()) return value
      if (value === undefined) evict(key)
      else {
        entry.size = sizeOf(value)
        size += entry.size
        evictOldest()
      }
      return value
    } catch (error) {
      if (isCurrent()) evict(key)
      throw error
    }
  }
}

interface Entry<T> {
  storedAt: number
  value: Promise<T | undefined>
  size: number
}
