/**
 * Times that an earlier sync recorded. A clock that was ahead may have been set back since: what it
 * recorded does not count, otherwise it would hold until the clock is there again.
 */

/** Whether less than this long has passed since a time that was recorded, in milliseconds. */
export function isRecent(recordedAt: number, maxAgeMs: number, now: number): boolean {
  return !isFromTheFuture(recordedAt, now) && now - recordedAt < maxAgeMs
}

/** Whether a clock that was ahead recorded this time, by more than the tolerance. */
export function isFromTheFuture(recordedAt: number, now: number, toleranceMs = 0): boolean {
  return recordedAt - now > toleranceMs
}
