/** Columns of text for a terminal. */
import { printable } from '../printable.ts'

/** Rows with columns of equal width, two spaces apart; the last column is as wide as it is. */
export function columns(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = []
  const shown = rows.map((row) => row.map(printable))
  for (const row of shown) {
    for (const [at, cell] of row.entries()) {
      widths[at] = Math.max(widths[at] ?? 0, cell.length)
    }
  }
  const line = (row: readonly string[]) =>
    row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at] ?? 0))).join('  ')
  return shown.map((row) => `${indent}${line(row)}`.trimEnd() + '\n').join('')
}

/** How long ago, as kubectl says it: 45s, 12m, 5h, 3d. */
export function age(since: string | undefined, now: Date): string {
  const seconds = Math.floor((now.getTime() - Date.parse(since ?? '')) / 1000)
  if (Number.isNaN(seconds)) return '-'
  if (seconds < 120) return `${Math.max(seconds, 0)}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

/** A message on one line; whole, if nothing else is said. */
export function oneLine(text: string, length = Infinity): string {
  const line = printable(text.replaceAll(/\s+/g, ' ').trim())
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`
}
