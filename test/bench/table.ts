/** The figures of a bench as a table. */

export interface Figure {
  what: string
  unit: string
  value: number
  /** Of the measurement that was disturbed least. */
  best?: number
  /** The same, of the bare echo. */
  echo?: number
  target?: number
  met?: boolean
}

export function median(values: number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

export function print(figures: Figure[]): void {
  const rows = figures.map(({ what, unit, value, best, echo, target, met }) => [
    what,
    `${short(value)} ${unit}`,
    best === undefined ? '' : `${short(best)} ${unit}`,
    echo === undefined ? '' : `${short(echo)} ${unit}`,
    echo === undefined || echo === 0 ? '' : (value / echo).toFixed(2),
    target === undefined ? '' : `${unit === '/s' ? '>=' : target === 0 ? '=' : '<'} ${target}`,
    met === undefined ? '' : met ? 'met' : 'MISSED',
  ])
  const all = [['', 'service', 'at best', 'bare echo', 'ratio', 'target', ''], ...rows]
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  for (const row of all) {
    const cells = row.map((cell, column) => {
      const width = widths?.[column] ?? 0
      return column === 0 ? cell.padEnd(width) : cell.padStart(width)
    })
    process.stdout.write(`${cells.join('  ').trimEnd()}\n`)
  }
}

function short(value: number): string {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(2)
}
