/** Amounts as the API server writes them, whatever text they were given as. */

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?(|[KMGTPE]i|[numkMGTPE])$/
const NANO = 10n ** 9n
const DECIMAL = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E']
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']

/** The largest suffix with which the amount is a whole number; another notation than these stays. */
export function canonicalQuantity(text: string): string {
  const [, sign = '', whole = '', fraction = '', suffix = ''] = QUANTITY.exec(text) ?? []
  if (whole + fraction === '') return text
  const isBinary = suffix.endsWith('i')
  const scale = isBinary
    ? 1024n ** BigInt(BINARY.indexOf(suffix)) * NANO
    : 1000n ** BigInt(DECIMAL.indexOf(suffix))
  const divisor = 10n ** BigInt(fraction.length)
  const billionths = (BigInt(whole + fraction) * scale + divisor - 1n) / divisor
  const minus = sign === '-' ? sign : ''
  const isWhole = billionths % NANO === 0n && billionths >= 1024n * NANO
  return isBinary && isWhole
    ? minus + withSuffix(billionths / NANO, 1024n, BINARY)
    : minus + withSuffix(billionths, 1000n, DECIMAL)
}

function withSuffix(amount: bigint, base: bigint, suffixes: readonly string[]): string {
  if (amount === 0n) return '0'
  let [rest, at] = [amount, 0]
  while (rest % base === 0n && at < suffixes.length - 1) {
    rest /= base
    at += 1
  }
  return `${rest}${suffixes[at] ?? ''}`
}
