/**
 * Which collections are finished, in little space: a report has no room for the names of thousands, and a
 * pod that goes on must not copy one of them again over what was written to the target since.
 */
import { createHash } from 'node:crypto'

/** Two of 5,000 names have the same six bytes once in twenty million migrations. */
const BYTES = 6
const CHARACTERS = 8

/** What each takes in a report. */
export const FINGERPRINT_BYTES = CHARACTERS

/** Of names, one after the other. */
export function fingerprints(names: readonly string[]): string {
  return names.map(fingerprint).join('')
}

/** Whether a name is among them. */
export function isFinished(name: string, finished = ''): boolean {
  const sought = fingerprint(name)
  for (let at = finished.indexOf(sought); at !== -1; at = finished.indexOf(sought, at + 1)) {
    if (at % CHARACTERS === 0) return true
  }
  return false
}

function fingerprint(name: string): string {
  return createHash('sha256').update(name).digest().subarray(0, BYTES).toString('base64url')
}
