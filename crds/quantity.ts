/** Amounts such as `10Gi`: the API server may write the same amount in another way. */

const UNITS: Record<string, number> = {
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

/** The amount as a number; NaN when it is none. */
export function amountOf(quantity: string): number {
  const [, digits = '', unit = ''] = /^([0-9.]+)([a-zA-Z]*)$/.exec(quantity) ?? []
  return Number.parseFloat(digits) * (unit === '' ? 1 : (UNITS[unit] ?? Number.NaN))
}
