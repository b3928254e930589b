/**
 * The last line of a terminal while a Job moves bytes: a bar, and where it stands. What is logged
 * meanwhile stands above it.
 */
import type { DestinationStream } from 'pino'

export interface Terminal {
  /** Letters in a line; 0 where the terminal does not tell. */
  columns: number
  write(text: string): unknown
}

const WIDTH = 24
const USUAL_COLUMNS = 80
const EVERY_MS = 100
/** Back to the beginning of the line, and nothing is left of it. */
const CLEAR = '\r\u001b[2K'

export class Bar {
  readonly #terminal: Terminal
  readonly #now: () => number
  #shownAt = -Infinity
  #isShown = false

  constructor(terminal: Terminal, now = () => performance.now()) {
    this.#terminal = terminal
    this.#now = now
  }

  /** `share` is from 0 to 1, or not known. Left out when the last one is a moment old: bytes come in thousands of pieces. */
  show(text: () => string, share: number): void {
    if (this.#now() - this.#shownAt < EVERY_MS) return
    this.#shownAt = this.#now()
    this.#isShown = true
    const full = Math.floor(WIDTH * (share > 0 ? Math.min(share, 1) : 0))
    const line = `[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${text()}`
    // A longer one would go on in a second line, which nothing clears.
    const columns = this.#terminal.columns || USUAL_COLUMNS
    this.#terminal.write(CLEAR + line.slice(0, columns - 1))
  }

  clear(): void {
    if (this.#isShown) this.#terminal.write(CLEAR)
    this.#isShown = false
  }

  /** Where the log goes. */
  above(output: DestinationStream): DestinationStream {
    return {
      write: (line) => {
        this.clear()
        output.write(line)
      },
    }
  }
}
