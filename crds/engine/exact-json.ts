/**
 * JSON that users write and that is written again elsewhere, such as the metadata of a collection. JavaScript has only
 * numbers of 53 bits: others are held as their text, and `JSON.stringify` writes that.
 */

/** A number whose text would change if it were read as a JavaScript number. */
export interface ExactNumber {
  rawJSON: string
}

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

interface ExactJson {
  parse(text: string, reviver: Reviver): unknown
  rawJSON(text: string): ExactNumber
  isRawJSON(value: unknown): value is ExactNumber
}

// Newer than the type definitions.
const json = JSON as unknown as ExactJson

/** Where such a number may be: an integer of many digits, a fraction of zeros, or an exponent. */
const MAY_CHANGE = [/[\s:[,]-?\d{16}/, /[\s:[,]-?\d+\.0+[\s,\]}]/, /[\s:[,]-?[\d.]+[eE]/]

/** Collections have these as users have written them: `1.0` is not `1` for a client. */
const AS_WRITTEN = 'metadata'

/**
 * Numbers that JavaScript would change are `ExactNumber`: integers beyond 2^53 and, in metadata, floats without a
 * fraction. Throws `SyntaxError`.
 */
export function parseExactJson(text: string): unknown {
  if (!MAY_CHANGE.some((pattern) => pattern.test(text))) return JSON.parse(text) as unknown
  try {
    return withPlainNumbers(json.parse(text, keepText), false)
  } catch (error) {
    // Nested deeper than anything that an engine or a backup writes.
    if (error instanceof RangeError) return JSON.parse(text) as unknown
    throw error
  }
}

export function isExactNumber(value: unknown): value is ExactNumber {
  return json.isRawJSON(value)
}

/** The nearest JavaScript number. */
export function roundedNumber({ rawJSON }: ExactNumber): number {
  return Number(rawJSON)
}

/** Whether they are the same number, however it is written. */
export function isSameNumber(exact: ExactNumber, other: unknown): boolean {
  if (!isExactNumber(other) && typeof other !== 'number') return false
  const [a, b] = [exact.rawJSON, isExactNumber(other) ? other.rawJSON : JSON.stringify(other)]
  return INTEGER.test(a) && INTEGER.test(b) ? BigInt(a) === BigInt(b) : Number(a) === Number(b)
}

const INTEGER = /^-?\d+$/

const keepText: Reviver = (_, value, { source }) => {
  if (!Number.isInteger(value) || source === undefined || source === String(value)) return value
  return json.rawJSON(source)
}

/** Outside of metadata a number that JavaScript holds is one, however it is written: code reads it. */
function withPlainNumbers(value: unknown, isAsWritten: boolean): unknown {
  if (isExactNumber(value)) {
    const number = roundedNumber(value)
    return isAsWritten || !Number.isSafeInteger(number) ? value : number
  }
  if (typeof value !== 'object' || value === null) return value
  for (const [name, field] of Object.entries(value)) {
    const plain = withPlainNumbers(field, isAsWritten || name === AS_WRITTEN)
    // A value that is replaced is a number: no other changes.
    if (plain !== field) Object.defineProperty(value, name, { value: plain })
  }
  return value
}
