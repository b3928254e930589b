/** Limits how many calls run at the same time: in all, and one for each key. The others wait. */

/** Calls without a key are limited only in all. */
type Key = string | undefined

interface WaitingCall {
  key: Key
  start: () => void
}

export class FairLimiter {
  readonly #max: number
  #running = 0
  readonly #runningKeys = new Set<string>()
  /** In order of arrival. */
  readonly #waiting = new Set<WaitingCall>()

  constructor(max: number) {
    this.#max = max
  }

  /** Rejects with the reason of the signal if it aborts before the call starts. */
  async run<Result>(key: Key, signal: AbortSignal, call: () => Promise<Result>): Promise<Result> {
    signal.throwIfAborted()
    if (this.#isFree(key)) this.#start(key)
    else await this.#wait(key, signal)
    try {
      // It may abort at the moment in which the call is started.
      signal.throwIfAborted()
      return await call()
    } finally {
      this.#leave(key)
    }
  }

  async #wait(key: Key, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const entry = { key, start: () => resolve(undefined) }
    const abort = () => {
      if (this.#waiting.delete(entry)) reject(signal.reason as Error)
    }
    this.#waiting.add(entry)
    signal.addEventListener('abort', abort, { once: true })
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  #start(key: Key): void {
    this.#running += 1
    if (key !== undefined) this.#runningKeys.add(key)
  }

  #leave(key: Key): void {
    this.#running -= 1
    if (key !== undefined) this.#runningKeys.delete(key)
    for (const entry of this.#waiting) {
      if (this.#running >= this.#max) return
      if (!this.#isFree(entry.key)) continue
      this.#waiting.delete(entry)
      this.#start(entry.key)
      entry.start()
    }
  }

  #isFree(key: Key): boolean {
    return this.#running < this.#max && (key === undefined || !this.#runningKeys.has(key))
  }
}
