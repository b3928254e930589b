/** The figures of a bench as a table. */

export interface Figure {
  what: string
  unit: string
  value: number
  /** Of the measurement that was disturbed least. */
  best?: number
  /** The same, of what it is measured next to. */
  yardstick?: number
  target?: number
  met?: boolean
}

export function median(values: number[]): number {
  return quantile(values, 0.5)
}

/** What so large a share of the values is below. */
export function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.floor(share * sorted.length)] ?? 0
}

export function print(
  title: string,
  [measured, beside]: [measured: string, yardstick: string],
  figures: Figure[],
): void {
  const rows = figures.map(({ what, unit, value, best, yardstick, target, met }) => [
    what,
    `${short(value)} ${unit}`,
    best === undefined ? '' : `${short(best)} ${unit}`,
    yardstick === undefined ? '' : `${short(yardstick)} ${unit}`,
    yardstick === undefined || yardstick === 0 ? '' : (value / yardstick).toFixed(2),
    target === undefined ? '' : `${signOf(unit, target)} ${target}`,
    met === undefined ? '' : met ? 'met' : 'MISSED',
  ])
  const all = [[title, measured, 'at best', beside, 'ratio', 'target', ''], ...rows]
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  for (const row of all) {
    const cells = row.map((cell, column) => {
      const width = widths?.[column] ?? 0
      return column === 0 ? cell.padEnd(width) : cell.padStart(width)
    })
    process.stdout.write(`${cells.join('  ').trimEnd()}\n`)
  }
  process.stdout.write('\n')
}

/** Rates must be reached; times and sizes stay below, counts at most at their target. */
export function signOf(unit: string, target: number): string {
  if (isBetterWhenMore(unit)) return '>='
  if (unit !== '') return '<'
  return target === 0 ? '=' : '<='
}

/** Rates and factors. */
export function isBetterWhenMore(unit: string): boolean {
  return unit.endsWith('/s') || unit === 'x'
}

function short(value: number): string {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(2)
}
