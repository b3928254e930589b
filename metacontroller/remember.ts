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
export function remember<Key extends string[], T>(
  load: (...key: Key) => Promise<T | undefined>,
  seconds: number,
  now: () => Date,
  { max, sizeOf }: Capacity<T> = { max: Infinity, sizeOf: () => 0 },
): (...key: Key) => Promise<T | undefined> {
  // In the order of `until`: an entry is always put last.
  const known = new Map<string, Entry<T>>()
  let size = 0

  function forgetExpired(time: number): void {
    for (const [key, { until }] of known) {
      if (until > time) return
      forget(key)
    }
  }

  function forget(key: string): void {
    size -= known.get(key)?.size ?? 0
    known.delete(key)
  }

  /** What is asked for right now has no size yet, and stays. */
  function makeRoom(): void {
    for (const [key, entry] of known) {
      if (size <= max) return
      if (entry.size > 0) forget(key)
    }
  }

  return async (...parts) => {
    const key = JSON.stringify(parts)
    const time = now().getTime()
    forgetExpired(time)
    const found = known.get(key)
    if (found !== undefined) return found.value
    const entry: Entry<T> = { until: time + seconds * 1000, value: load(...parts), size: 0 }
    known.set(key, entry)
    const isKnown = () => known.get(key) === entry
    try {
      const value = await entry.value
      if (!isKnown()) return value
      if (value === undefined) forget(key)
      else {
        entry.size = sizeOf(value)
        size += entry.size
        makeRoom()
      }
      return value
    } catch (error) {
      if (isKnown()) forget(key)
      throw error
    }
  }
}

interface Entry<T> {
  until: number
  value: Promise<T | undefined>
  size: number
}
