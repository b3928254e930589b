/** How a Job that moves data tells where it stands, without waiting for the API and within bounds. */

import type { DestinationStream } from 'pino'

/** Leaves room for the rest of the report: MAX_PROGRESS_BYTES in all. */
export const MAX_LIST_BYTES = 48 * 1024

/** One report in the background at a time. */
export class BackgroundReporter {
  #pending: Promise<void> | undefined
  #failure: { error: unknown } | undefined

  /** Left out while the last one is still under way. */
  report(report: () => Promise<void>): void {
    if (this.#pending !== undefined) return
    this.#pending = report()
      .catch((error: unknown) => (this.#failure ??= { error }))
      .then(() => (this.#pending = undefined))
  }

  /** Waits for the report under way; throws when it said that this pod must stop. */
  async flush(): Promise<void> {
    await this.#pending
    this.throwIfFailed()
  }

  /** Throws when a report said that this pod must stop. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

/** The items for which a report has room, in the order of their states. */
export function takeWithinBytes<Item extends { status: string }>(
  items: readonly Item[],
  statusOrder: readonly Item['status'][],
  maxBytes = MAX_LIST_BYTES,
): Set<Item> {
  const listed = new Set<Item>()
  let remainingBytes = maxBytes
  for (const status of statusOrder) {
    for (const item of items) {
      if (item.status !== status) continue
      remainingBytes -= Buffer.byteLength(JSON.stringify(item)) + 1
      if (remainingBytes < 0) return listed
      listed.add(item)
    }
  }
  return listed
}

export interface Terminal {
  /** Letters in a line; 0 where the terminal does not tell. */
  columns: number
  write(text: string): unknown
}

const BAR_WIDTH = 24
const DEFAULT_COLUMNS = 80
const REDRAW_MS = 100
/** Back to the beginning of the line, and nothing is left of it. */
const CLEAR_LINE = '\r\u001b[2K'

export class ProgressBar {
  readonly #terminal: Terminal
  readonly #now: () => number
  #lastDrawnAt = -Infinity
  #isVisible = false

  constructor(terminal: Terminal, now = () => performance.now()) {
    this.#terminal = terminal
    this.#now = now
  }

  /** `share` is from 0 to 1, or not known. Left out when the last one is a moment old: bytes come in thousands of pieces. */
  show(text: () => string, fraction: number): void {
    if (this.#now() - this.#lastDrawnAt < REDRAW_MS) return
    this.#lastDrawnAt = this.#now()
    this.#isVisible = true
    const filled = Math.floor(BAR_WIDTH * (fraction > 0 ? Math.min(fraction, 1) : 0))
    const line = `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${text()}`
    // A longer one would go on in a second line, which nothing clears.
    const columns = this.#terminal.columns || DEFAULT_COLUMNS
    this.#terminal.write(CLEAR_LINE + line.slice(0, columns - 1))
  }

  clear(): void {
    if (this.#isVisible) this.#terminal.write(CLEAR_LINE)
    this.#isVisible = false
  }

  /** Where the log goes. */
  logAbove(output: DestinationStream): DestinationStream {
    return {
      write: (line) => {
        this.clear()
        output.write(line)
      },
    }
  }
}
