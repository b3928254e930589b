/** Columns of text for a terminal. */
import { escapeUnprintable } from '../log.ts'

/** Aligns the columns of the rows, two spaces apart; the last column is not padded. */
export function formatColumns(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = []
  const cells = rows.map((row) => row.map(escapeUnprintable))
  for (const row of cells) {
    for (const [index, cell] of row.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, cell.length)
    }
  }
  const formatRow = (row: readonly string[]) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('  ')
  return cells.map((row) => `${indent}${formatRow(row)}`.trimEnd() + '\n').join('')
}

/** Age in the format of kubectl: 45s, 12m, 5h, 3d. */
export function formatAge(since: string | undefined, now: Date): string {
  const seconds = Math.floor((now.getTime() - Date.parse(since ?? '')) / 1000)
  return Number.isNaN(seconds) ? '-' : formatSeconds(seconds)
}

/** In the same format. */
export function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.max(seconds, 0)}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

/** A message on one line; not truncated by default. */
export function oneLine(text: string, length = Infinity): string {
  const line = escapeUnprintable(text.replaceAll(/\s+/g, ' ').trim())
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`
}
