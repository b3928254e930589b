/**
 * The bytes of all lanes together: of pages that are being read, that wait, and that are written. Room is
 * taken before a page is asked for, so that lanes side by side need no more memory than one alone.
 */

/** With the process itself, and with what is not collected yet, that stays under 256 MiB. */
export const IN_FLIGHT_BYTES = 40 * 1024 * 1024

/** Room that was taken for one page. */
export interface Hold {
  /** The page came: it needs so much, and no more. */
  settle: (bytes: number) => void
  /** The page is written, or will never be. */
  release: () => void
}

interface Waiting {
  bytes: number
  enter: () => void
}

export class InFlight {
  #held = 0
  readonly #waiting: Waiting[] = []

  /** Each in its turn; what is larger than all the room there is gets in alone. */
  async take(bytes: number, signal: AbortSignal): Promise<Hold> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const stop = () => {
      reject(signal.reason as Error)
    }
    signal.addEventListener('abort', stop, { once: true })
    this.#waiting.push({ bytes, enter: () => resolve(undefined) })
    this.#admit()
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', stop)
    }
    return this.#holdOf(bytes)
  }

  #holdOf(taken: number): Hold {
    let held = taken
    const settle = (bytes: number) => {
      this.#held += bytes - held
      held = bytes
      this.#admit()
    }
    return { settle, release: () => settle(0) }
  }

  /** From the first that waits on: a large one would never find room beside small ones that pass it. */
  #admit(): void {
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      if (this.#held > 0 && this.#held + first.bytes > IN_FLIGHT_BYTES) return
      this.#waiting.shift()
      this.#held += first.bytes
      first.enter()
    }
  }
}
