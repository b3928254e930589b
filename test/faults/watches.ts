/** What the loop watches, and how late it hears of it: a cache that lags shows hooks what was. */
import type { ServerResponse } from 'node:http'

export class Watches {
  #held: (() => void)[] | undefined

  /** From now on the news of this stream can be held back. */
  follow(response: ServerResponse): void {
    const write = response.write.bind(response) as (chunk: unknown) => boolean
    response.write = (chunk: unknown) => {
      if (this.#held === undefined) return write(chunk)
      this.#held.push(() => response.writable && write(chunk))
      return true
    }
  }

  /** Holds all news back until what it answers is called; they come in their order then. */
  hold(): () => void {
    this.#held ??= []
    return () => {
      const held = this.#held ?? []
      this.#held = undefined
      for (const write of held) write()
    }
  }
}
