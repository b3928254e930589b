/** How a Job that moves data tells where it stands, without waiting for the API and within bounds. */

/** Leaves room for the rest of the report: MAX_PROGRESS_BYTES in all. */
export const MAX_LIST_BYTES = 48 * 1024

/** One report in the background at a time. */
export class Teller {
  #telling: Promise<void> | undefined
  #refusal: { error: unknown } | undefined

  /** Left out while the last one is still under way. */
  tell(report: () => Promise<void>): void {
    if (this.#telling !== undefined) return
    this.#telling = report()
      .catch((error: unknown) => (this.#refusal ??= { error }))
      .then(() => (this.#telling = undefined))
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  async told(): Promise<void> {
    await this.#telling
    this.check()
  }

  /** Throws when a report said that this pod must stop. */
  check(): void {
    if (this.#refusal !== undefined) throw this.#refusal.error
  }
}

/** The items for which a report has room, in the order of their states. */
export function withRoom<Item extends { status: string }>(
  all: readonly Item[],
  order: readonly Item['status'][],
  maxBytes = MAX_LIST_BYTES,
): Set<Item> {
  const listed = new Set<Item>()
  let left = maxBytes
  for (const status of order) {
    for (const item of all) {
      if (item.status !== status) continue
      left -= Buffer.byteLength(JSON.stringify(item)) + 1
      if (left < 0) return listed
      listed.add(item)
    }
  }
  return listed
}
