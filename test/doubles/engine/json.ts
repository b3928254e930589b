/** JSON that keeps integers beyond 2^53, for ids are 64 bits wide, and reals without a fraction. */

interface RawJson {
  rawJSON: string
}

interface WithRaw {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown
  rawJSON(text: string): RawJson
  isRawJSON(value: unknown): value is RawJson
}

// Newer than the types.
const json = JSON as unknown as WithRaw

export function parseJson(text: string): unknown {
  return json.parse(text, (_, value, { source = '' }) => {
    if (typeof value !== 'number') return value
    const isLost = !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
    return isLost || /^-?\d+\.0+$/.test(source) ? json.rawJSON(source) : value
  })
}

/** Numbers that are held as text cannot be cloned otherwise. */
export function cloneJson<Value>(value: Value): Value {
  return parseJson(JSON.stringify(value)) as Value
}

/** An integer that JavaScript would round; undefined for anything else. */
export function largeInteger(value: unknown): bigint | undefined {
  return json.isRawJSON(value) && /^-?\d+$/.test(value.rawJSON) ? BigInt(value.rawJSON) : undefined
}

/** A number of any size as text; undefined for anything else. */
export function integerText(value: unknown): string | undefined {
  if (json.isRawJSON(value)) return value.rawJSON
  return typeof value === 'number' ? String(value) : undefined
}
