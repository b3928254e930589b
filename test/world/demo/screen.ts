/** The terminal: redraws the table, reads keys, and restores everything at the end. */
import type { Row } from './rows.ts'

export interface View {
  /** Above the table. */
  head: string[]
  rows: Row[]
  /** Index of the row that keys act on. */
  selected: number | undefined
  /** Below the table; the end of it is shown. */
  log: string[]
  foot: string
  now: Date
}

const COLUMNS = ['KIND', 'NAME', 'PHASE', 'AGE', 'MESSAGE']

/** As many lines as the terminal has at most, each cut to its width. */
export function draw(view: View, width: number, height: number): string[] {
  const table = tableOf(view)
  const above = [...view.head, '', ...table.slice(0, Math.max(2, height - view.head.length - 3))]
  const available = height - above.length - 2
  const log = available > 0 ? view.log.slice(-available) : []
  const lines = [...above, ...(log.length > 0 ? ['', ...log] : [])].slice(0, height - 1)
  return [...lines, view.foot].map((line) => line.slice(0, width))
}

/** 5s, 2m10s, 1h2m: short, as kubectl writes ages. */
export function ageOf(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  if (whole < 120) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m${whole % 60}s`
  return `${Math.floor(whole / 3600)}h${Math.floor((whole % 3600) / 60)}m`
}

function tableOf({ rows, selected, now }: View): string[] {
  const cells = [
    COLUMNS,
    ...rows.map(({ kind, name, phase, message, createdAt }) => {
      const age = ageOf((now.getTime() - createdAt) / 1000)
      return [kind, name, phase, age, message]
    }),
  ]
  const widths = COLUMNS.map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  )
  return cells.map((row, index) => {
    const mark = selected !== undefined && index === selected + 1 ? '>' : ' '
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
    return `${mark} ${line}`.trimEnd()
  })
}

export class Screen {
  readonly #output: NodeJS.WriteStream
  readonly #input: NodeJS.ReadStream
  readonly #onKey: (key: string) => void
  readonly #listen = (chunk: Buffer) => {
    this.#onKey(chunk.toString())
  }

  constructor(output: NodeJS.WriteStream, input: NodeJS.ReadStream, onKey: (key: string) => void) {
    this.#output = output
    this.#input = input
    this.#onKey = onKey
  }

  /** A screen of its own, no cursor, keys as they are pressed. */
  open(): void {
    this.#output.write('\x1b[?1049h\x1b[?25l')
    this.#input.setRawMode(true)
    this.#input.on('data', this.#listen).resume()
  }

  show(view: View): void {
    const { columns, rows } = this.#output
    const lines = draw(view, columns, rows)
    this.#output.write(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`)
  }

  close(): void {
    this.#input.off('data', this.#listen).pause()
    this.#input.setRawMode(false)
    this.#output.write('\x1b[?25h\x1b[?1049l')
  }
}
