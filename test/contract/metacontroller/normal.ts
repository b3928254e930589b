/** Takes out of requests and objects what differs from run to run, so that two can be compared. */

const LEFT_OUT = new Set(['managedFields', 'selfLink'])
/** Present or not is what matters. */
const VARYING = new Set([
  'resourceVersion',
  'creationTimestamp',
  'deletionTimestamp',
  'firstTimestamp',
  'lastTimestamp',
])

/** Uids become the names of their objects; the namespace of the case becomes `here`. */
export function normal(value: unknown, names: ReadonlyMap<string, string>): unknown {
  return walk(value, (text) => replaceAll(text, names))
}

/** Collects uid -> `uid of <kind> <name>` from everything that has metadata. */
export function learnUids(value: unknown, names: Map<string, string>): void {
  if (typeof value !== 'object' || value === null) return
  const { kind, metadata } = value as { kind?: string; metadata?: { uid?: string; name?: string } }
  if (metadata?.uid !== undefined && !names.has(metadata.uid)) {
    names.set(metadata.uid, `<uid of ${kind ?? ''} ${metadata.name ?? ''}>`)
  }
  for (const inner of Object.values(value)) learnUids(inner, names)
}

function walk(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((inner) => walk(inner, change))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
    .filter(([field]) => !LEFT_OUT.has(field))
    .map(([field, inner]) => [
      change(field),
      VARYING.has(field) && inner !== null ? `<${field}>` : walk(inner, change),
    ])
    .sort(([one], [other]) => (String(one) < String(other) ? -1 : 1))
  return Object.fromEntries(entries)
}

function replaceAll(text: string, names: ReadonlyMap<string, string>): string {
  let result = text
  for (const [from, to] of names) result = result.replaceAll(from, to)
  return result
}
