/** Timers of the process, or those a test moves by itself. */

export interface Timers {
  /** Runs once after so many milliseconds; calling what it returns cancels that. */
  setTimeout(run: () => void, milliseconds: number): () => void
}

/** Timers that do not keep the process alive by themselves. */
export const systemTimers: Timers = {
  setTimeout(run, milliseconds) {
    const timer = setTimeout(run, milliseconds).unref()
    return () => {
      clearTimeout(timer)
    }
  },
}

/** Rejects when the signal ends the wait. */
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
