/** What the parts of the service process are given: its log, and timers that tests simulate. */

/** The methods of the service's logger that are used here. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export interface Timers {
  /** Runs a function once after this many milliseconds; the returned function cancels it. */
  setTimeout(run: () => void, milliseconds: number): () => void
}

/** Timers that do not keep the process alive. */
export const systemTimers: Timers = {
  setTimeout(run, milliseconds) {
    const timer = setTimeout(run, milliseconds).unref()
    return () => {
      clearTimeout(timer)
    }
  },
}

/** Rejects when the signal aborts the wait. */
export function delay(timers: Timers, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancel()
      reject(new Error('the wait was ended'))
    }
    const cancel = timers.setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, milliseconds)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}
