/**
 * A per-vector HNSW object in which the engine knows no field makes the call hang until its time-out
 * (facts 3.1), so what the engine knows must be known before it is asked.
 */

/** Fields of HnswConfigDiff, each with the first minor of 1.x that knows it. */
const KNOWN = new Map([
  ['m', 0],
  ['ef_construct', 0],
  ['full_scan_threshold', 0],
  ['full_scan_threshold_kb', 0],
  ['max_indexing_threads', 0],
  ['on_disk', 0],
  ['payload_m', 0],
  ['inline_storage', 16],
  ['memory', 19],
])
const NEWEST_MINOR = 19

/** Whether an engine of this version knows at least one of the fields. */
export function knowsAny(fields: readonly string[], engineVersion: string): boolean {
  const minor = minorOf(engineVersion)
  // What a newer engine may have learned cannot be told from here.
  if (minor > NEWEST_MINOR) return fields.length > 0
  return fields.some((name) => (KNOWN.get(name) ?? Infinity) <= minor)
}

function minorOf(version: string): number {
  return Number(/^1\.(\d+)/.exec(version)?.[1] ?? Infinity)
}
