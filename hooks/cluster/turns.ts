/**
 * Turns of helm Jobs. The count of running Jobs is some seconds old, so a Job that was just granted
 * counts until it must have become visible.
 */

const VISIBLE_AFTER_MS = 15_000

export class Turns {
  readonly #granted = new Map<string, number>()

  /** Jobs granted to other resources that the count may not show yet. */
  others(uid: string, now: Date): number {
    for (const [holder, at] of this.#granted) {
      if (now.getTime() - at > VISIBLE_AFTER_MS) this.#granted.delete(holder)
    }
    return this.#granted.size - (this.#granted.has(uid) ? 1 : 0)
  }

  grant(uid: string, now: Date): void {
    this.#granted.set(uid, now.getTime())
  }
}
