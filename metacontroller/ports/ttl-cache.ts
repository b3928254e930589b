/** A short memory for reads that many resources repeat. */

/** How much may be remembered, and how much one answer is. */
export interface Capacity<T> {
  max: number
  sizeOf: (value: T) => number
}

/**
 * Answers from memory what was loaded less than so many seconds ago, and asks once where several ask
 * at the same time. What failed or was absent is asked again: somebody is waiting for it to appear. Past
 * the capacity the oldest answers are forgotten early.
 */
export function ttlCache<Key extends string[], T>(
  load: (...key: Key) => Promise<T | undefined>,
  seconds: number,
  now: () => Date,
  { max, sizeOf }: Capacity<T> = { max: Infinity, sizeOf: () => 0 },
): (...key: Key) => Promise<T | undefined> {
  // In the order of `until`: an entry is always put last.
  const entries = new Map<string, Entry<T>>()
  let size = 0

  function evictExpired(time: number): void {
    for (const [key, { expiresAt }] of entries) {
      if (expiresAt > time) return
      evict(key)
    }
  }

  function evict(key: string): void {
    size -= entries.get(key)?.size ?? 0
    entries.delete(key)
  }

  /** What is asked for right now has no size yet, and stays. */
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
    const entry: Entry<T> = { expiresAt: time + seconds * 1000, value: load(...keyParts), size: 0 }
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
  expiresAt: number
  value: Promise<T | undefined>
  size: number
}
