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

/** A number becomes its text, and is told apart from a string by a letter. */
function canonical(json: string): string {
  // Newer than the types.
  const point = (JSON as unknown as WithSource).parse(json, (_, value, { source }) => {
    if (typeof value === 'number') return `n${source ?? ''}`
    return typeof value === 'string' ? `s${value}` : sorted(value)
  })
  return JSON.stringify(point)
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)))
}
