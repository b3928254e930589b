/** Delays watch events of the loop, so that hooks are called with a stale cache. */
import type { ServerResponse } from 'node:http'

export class Watches {
  #held: (() => void)[] | undefined

  /** Makes the events of this stream subject to `hold`. */
  follow(response: ServerResponse): void {
    const write = response.write.bind(response) as (chunk: unknown) => boolean
    response.write = (chunk: unknown) => {
      if (this.#held === undefined) return write(chunk)
      this.#held.push(() => response.writable && write(chunk))
      return true
    }
  }

  /** Holds all events back until the returned function is called, which delivers them in order. */
  hold(): () => void {
    this.#held ??= []
    return () => {
      const held = this.#held ?? []
      this.#held = undefined
      for (const write of held) write()
    }
  }
}
