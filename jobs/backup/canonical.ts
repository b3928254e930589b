/** JSON in which the order of fields does not matter: nodes and stores differ in it. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, inOrder)
}

function inOrder(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}
