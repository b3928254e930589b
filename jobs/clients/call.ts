/** What every call to the outside has: an end in time, and words for what went wrong. */

/** The signal ends a call, and so does its time. */
export function deadline(timeoutMs: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs)
  return signal === undefined ? timeout : AbortSignal.any([timeout, signal])
}

/** What went wrong, down to the socket: undici wraps the words that matter. */
export function wordsOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(wordsOf).join('; ')
  }
  return error instanceof Error ? error.message : String(error)
}
