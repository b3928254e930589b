/** Durations (`720h`, `1h30m`, `30s`) and quantities as Kubernetes writes them, and human-readable sizes, lists and values. */

/**
 * The format that `parseDuration` accepts: whole numbers with h, m and s, in this order. The number of
 * digits is limited because CEL's duration() fails beyond 292 years.
 */
export const DURATION_PATTERN = '^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$'

/** Seconds in a duration such as `1h30m`. */
export function parseDuration(text: string): number {
  const match = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text)
  const [, hours = '0', minutes = '0', seconds = '0'] = match ?? []
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
}

const QUANTITY_SUFFIXES: Record<string, number> = {
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/** The quantity as a number; NaN when the text is not a quantity. */
export function parseQuantity(quantity: string): number {
  const [, digits = '', unit = ''] = /^([0-9.]+)([a-zA-Z]*)$/.exec(quantity) ?? []
  return Number.parseFloat(digits) * (unit === '' ? 1 : (QUANTITY_SUFFIXES[unit] ?? Number.NaN))
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** One decimal for units above bytes; a decimal of 0 is omitted. */
export function formatBytes(bytes: number): string {
  let unit = 0
  let amount = bytes
  // 1023.95 would round to 1024.0, so it uses the next unit.
  while (amount >= 1023.95 && unit < BYTE_UNITS.length - 1) {
    amount /= 1024
    unit += 1
  }
  const text = unit === 0 ? String(Math.round(amount)) : amount.toFixed(1).replace(/\.0$/, '')
  return `${text} ${BYTE_UNITS[unit] ?? 'B'}`
}

/** The first names, and how many others there are: `a, b and 3 more`. */
export function formatNames(names: readonly string[], max: number): string {
  const listed = names.slice(0, max).join(', ')
  return names.length > max ? `${listed} and ${names.length - max} more` : listed
}

/** Maximum length of a value in a message, in characters. */
const MAX_VALUE = 60

/** A value for a message, as JSON and cut to a length; `null` without one. */
export function formatValue(value: unknown): string {
  const text = JSON.stringify(value ?? null)
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}…`
}
