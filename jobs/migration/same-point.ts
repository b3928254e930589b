/** Whether two points are the same to the last digit: every number is compared as it is written. */

/** Points as JSON; the order of the keys of a payload is nobody's choice. */
export function samePoint(one: string, other: string | undefined): boolean {
  return one === other || (other !== undefined && canonical(one) === canonical(other))
}

interface WithSource {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown
}

/** A number becomes its text, marked so that no string looks like it. */
function canonical(json: string): string {
  // Newer than the types.
  const point = (JSON as unknown as WithSource).parse(json, (_, value, { source }) =>
    typeof value === 'number' ? { [NUMBER]: source } : sorted(value),
  )
  return JSON.stringify(point)
}

const NUMBER = '\0number'

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)))
}
