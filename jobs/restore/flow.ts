/** Bytes of the collection under way: how many are back, how many pass through us, and how fast they come. */

export class Flow {
  #back = 0
  /** Of snapshots that are sent at this moment, by key. */
  readonly #sent = new Map<string, number>()
  /** When this attempt began to move bytes, in milliseconds, and how many it has moved. */
  #since = 0
  #moved = 0

  start(now: number): void {
    this.#since = now
  }

  /** Another collection, of which so many bytes were back before. */
  begin(back: number): void {
    this.#back = back
    this.#sent.clear()
  }

  /** A snapshot passes through us from its first byte on, perhaps once more. */
  sends(key: string): void {
    this.#sent.set(key, 0)
  }

  sent(key: string, bytes: number): void {
    this.#sent.set(key, (this.#sent.get(key) ?? 0) + bytes)
  }

  isBack(key: string, bytes: number): void {
    this.#sent.delete(key)
    this.#back += bytes
    this.#moved += bytes
  }

  get bytes(): number {
    return [...this.#sent.values()].reduce((sum, bytes) => sum + bytes, this.#back)
  }

  /** Bytes in a second, since this attempt began. */
  pace(now: number): number {
    return this.#moved / (Math.max(1, now - this.#since) / 1000)
  }
}
