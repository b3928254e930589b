/** Parts of a pod and of its containers that have the same rules. */
import { oneOf, required } from './causes.ts'
import type { Cause } from './failure.ts'
import { isRecord, type Json } from './json.ts'

/** Whether exactly one of these fields is set. */
export function oneSource(given: Json, sources: readonly string[]): boolean {
  return sources.filter((source) => isRecord(given[source])).length === 1
}

const PROFILES = ['Localhost', 'RuntimeDefault', 'Unconfined']

export function seccompCauses(profile: unknown, path: string): Cause[] {
  if (!isRecord(profile)) return []
  if (profile['type'] === undefined) return [required(`${path}.type`)]
  return oneOf(`${path}.type`, profile['type'], PROFILES)
}
