/**
 * Reports the progress of a data Job in the background and within the annotation's size limit;
 * shows a progress bar on a terminal.
 */

import type { DestinationStream } from 'pino'

/** Leaves space for the rest of the report: MAX_PROGRESS_BYTES in total. */
export const MAX_LIST_BYTES = 48 * 1024

/** One report in the background at a time. */
export class BackgroundReporter {
  #pending: Promise<void> | undefined
  #failure: { error: unknown } | undefined

  /** Skipped while the previous report is still in progress. */
  report(report: () => Promise<void>): void {
    if (this.#pending !== undefined) return
    this.#pending = report()
      .catch((error: unknown) => (this.#failure ??= { error }))
      .then(() => (this.#pending = undefined))
  }

  /** Waits for the report in progress; throws if it said that this pod must stop. */
  async flush(): Promise<void> {
    await this.#pending
    this.throwIfFailed()
  }

  /** Throws if a report said that this pod must stop. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

/** The items that fit into a report, in the order of their states. */
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
  /** Width of a line; 0 if the terminal does not report it. */
  columns: number
  write(text: string): unknown
}

const BAR_WIDTH = 24
const DEFAULT_COLUMNS = 80
const REDRAW_MS = 100
/** Returns to the start of the line and clears it. */
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

  /**
   * `fraction` is from 0 to 1, or unknown. Skipped if the last update was a moment ago: bytes
   * arrive in thousands of chunks.
   */
  show(text: () => string, fraction: number): void {
    if (this.#now() - this.#lastDrawnAt < REDRAW_MS) return
    this.#lastDrawnAt = this.#now()
    this.#isVisible = true
    const filled = Math.floor(BAR_WIDTH * (fraction > 0 ? Math.min(fraction, 1) : 0))
    const line = `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${text()}`
    // A longer text would wrap to a second line, which is never cleared.
    const columns = this.#terminal.columns || DEFAULT_COLUMNS
    this.#terminal.write(CLEAR_LINE + line.slice(0, columns - 1))
  }

  clear(): void {
    if (this.#isVisible) this.#terminal.write(CLEAR_LINE)
    this.#isVisible = false
  }

  /** The stream for log lines, which appear above the bar. */
  logAbove(output: DestinationStream): DestinationStream {
    return {
      write: (line) => {
        this.clear()
        output.write(line)
      },
    }
  }
}
