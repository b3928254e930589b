/** A short memory for reads that many resources repeat. */

/**
 * Answers from memory what was loaded less than so many seconds ago, and asks once where several ask
 * at the same time. What failed or was absent is asked again: somebody is waiting for it to appear.
 */
export function remember<Key extends string[], T>(
  load: (...key: Key) => Promise<T | undefined>,
  seconds: number,
  now: () => Date,
): (...key: Key) => Promise<T | undefined> {
  // In the order of `until`: an entry is always put last.
  const known = new Map<string, { until: number; value: Promise<T | undefined> }>()

  function forgetExpired(time: number): void {
    for (const [key, { until }] of known) {
      if (until > time) return
      known.delete(key)
    }
  }

  return async (...parts) => {
    const key = JSON.stringify(parts)
    const time = now().getTime()
    forgetExpired(time)
    const found = known.get(key)
    if (found !== undefined) return found.value
    const entry = { until: time + seconds * 1000, value: load(...parts) }
    known.set(key, entry)
    const forget = () => {
      if (known.get(key) === entry) known.delete(key)
    }
    try {
      const value = await entry.value
      if (value === undefined) forget()
      return value
    } catch (error) {
      forget()
      throw error
    }
  }
}
