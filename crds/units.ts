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

/** The smallest amount that Kubernetes keeps; it rounds others up. */
const NANO_UNITS = 1_000_000_000n

/** In billionths of the unit. */
const QUANTITY_SUFFIXES = new Map<string, bigint>([
  ['n', 1n],
  ['u', 1_000n],
  ['m', 1_000_000n],
  ['', NANO_UNITS],
  ['k', 1_000n * NANO_UNITS],
  ['M', 1_000_000n * NANO_UNITS],
  ['G', 10n ** 9n * NANO_UNITS],
  ['T', 10n ** 12n * NANO_UNITS],
  ['P', 10n ** 15n * NANO_UNITS],
  ['E', 10n ** 18n * NANO_UNITS],
  ['Ki', 2n ** 10n * NANO_UNITS],
  ['Mi', 2n ** 20n * NANO_UNITS],
  ['Gi', 2n ** 30n * NANO_UNITS],
  ['Ti', 2n ** 40n * NANO_UNITS],
  ['Pi', 2n ** 50n * NANO_UNITS],
  ['Ei', 2n ** 60n * NANO_UNITS],
])

/**
 * The quantity as a number; NaN when the text is not a quantity. Equal amounts are equal numbers, whatever their text:
 * the API server writes 10.7Gi of a StatefulSet as 11489037516800m.
 */
export function parseQuantity(quantity: string): number {
  const [, whole = '', fraction = '', unit = ''] =
    /^([0-9]*)(?:\.([0-9]*))?([a-zA-Z]*)$/.exec(quantity) ?? []
  const scale = QUANTITY_SUFFIXES.get(unit)
  if (whole + fraction === '' || scale === undefined) return Number.NaN
  const divisor = 10n ** BigInt(fraction.length)
  const billionths = (BigInt(whole + fraction) * scale + divisor - 1n) / divisor
  return Number(billionths / NANO_UNITS) + Number(billionths % NANO_UNITS) / Number(NANO_UNITS)
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
