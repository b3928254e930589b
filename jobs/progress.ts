/**
 * Progress of a data Job: reported in the background and within the annotation's size limit, or
 * shown as a progress bar on a terminal.
 */
import type { DestinationStream } from 'pino'
import type { KindReport, Reporter } from './reporter.ts'

/** Leaves space for the rest of the report: MAX_PROGRESS_BYTES in total. */
export const MAX_LIST_BYTES = 48 * 1024

const MAX_ERROR_LENGTH = 512
const ERROR_END = 200
const GAP = ' ... '

/** A collection in the report of a data Job. */
interface ReportedCollection {
  name: string
  status: string
}

interface ProgressOptions<Collection extends ReportedCollection> {
  reporter: Pick<Reporter, 'progress' | 'checkpoint'>
  /** Which collections a report lists first if it cannot list all. */
  statusOrder: readonly Collection['status'][]
  /** The message and the fields of a report about the present state. */
  toReport: () => { message: string; fields: KindReport }
}

/** The collections of a data Job, the first error, and the reports about them. */
export class JobProgress<Collection extends ReportedCollection> {
  readonly collections = new Map<string, Collection>()
  readonly #options: ProgressOptions<Collection>
  #firstError: string | undefined
  #pending: Promise<void> | undefined
  #failure: { error: unknown } | undefined
  #saving: Promise<void> = Promise.resolve()

  constructor(options: ProgressOptions<Collection>) {
    this.#options = options
  }

  /** Changes a collection; unknown names are ignored. */
  update(name: string, change: Partial<Collection>): void {
    const existing = this.collections.get(name)
    if (existing !== undefined) this.collections.set(name, { ...existing, ...change })
  }

  /** Records the error if it is the first; returns it as the report has it. */
  recordError(error: string): string {
    this.#firstError ??= error
    return truncateError(error)
  }

  /** Position of a collection in the order of processing, from 1. */
  numberOf(name: string): number {
    return [...this.collections.keys()].indexOf(name) + 1
  }

  counts(): { total: number; completed: number; failed: number } {
    const { completed, failed } = countStates([...this.collections.values()])
    return { total: this.collections.size, completed, failed }
  }

  /** The first error as field of a report. */
  errorField(): { error?: string } {
    return this.#firstError === undefined ? {} : { error: truncateError(this.#firstError) }
  }

  /** The collections that fit into a report, and the others. */
  listed(maxBytes = MAX_LIST_BYTES): { collections: Collection[]; omitted: Collection[] } {
    const all = [...this.collections.values()]
    const listed = takeWithinBytes(all, this.#options.statusOrder, maxBytes)
    return {
      collections: all.filter((collection) => listed.has(collection)),
      omitted: all.filter((collection) => !listed.has(collection)),
    }
  }

  /**
   * Reports in the background, because the work does not wait for the API; skipped while the
   * previous report is still in progress.
   */
  report(toReport: () => { message: string; fields?: KindReport } = this.#options.toReport): void {
    if (this.#pending !== undefined) return
    const { message, fields } = toReport()
    this.#pending = this.#options.reporter
      .progress(message, fields)
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

  /**
   * Reports and waits until the report is accepted. One at a time: an older report must not
   * overwrite a newer one.
   */
  checkpoint(): Promise<void> {
    const save = async () => {
      await this.flush()
      const { message, fields } = this.#options.toReport()
      await this.#options.reporter.checkpoint(message, fields)
    }
    this.#saving = this.#saving.then(save, save)
    return this.#saving
  }
}

/** The collections that a report does not list, by state. */
export function countStates(collections: readonly ReportedCollection[]): {
  completed: number
  failed: number
  pending: number
} {
  const count = (status: string) => collections.filter((one) => one.status === status).length
  const completed = count('Completed')
  const failed = count('Failed')
  return { completed, failed, pending: collections.length - completed - failed }
}

/** Without its middle if it is too long: it begins with what failed, and ends with the cause and the hint. */
function truncateError(error: string): string {
  if (error.length <= MAX_ERROR_LENGTH) return error
  return `${error.slice(0, MAX_ERROR_LENGTH - ERROR_END - GAP.length)}${GAP}${error.slice(-ERROR_END)}`
}

/** The items that fit into a report, in the order of their states. */
function takeWithinBytes<Item extends { status: string }>(
  items: readonly Item[],
  statusOrder: readonly Item['status'][],
  maxBytes: number,
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
