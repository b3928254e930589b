/** Sizes for people: `1.4 GiB`. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** One decimal above bytes, none where it would say nothing. */
export function humanSize(bytes: number): string {
  let unit = 0
  let amount = bytes
  // 1023.95 would be shown as 1024.0: it belongs to the next unit.
  while (amount >= 1023.95 && unit < UNITS.length - 1) {
    amount /= 1024
    unit += 1
  }
  const text = unit === 0 ? String(Math.round(amount)) : amount.toFixed(1).replace(/\.0$/, '')
  return `${text} ${UNITS[unit] ?? 'B'}`
}
