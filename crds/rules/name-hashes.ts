/**
 * Names of collections as short hashes in one string: a status has room for those of a thousand, and a
 * schedule can tell from them which collections a backup has.
 */
import { hash } from 'node:crypto'

/** Six bytes of a SHA-256: eight letters of base64. */
const LETTERS = 8
/** Past so many names there is no room for their hashes. */
const MAX_NAMES = 1000

export function nameHash(name: string): string {
  return hash('sha256', name, 'base64').slice(0, LETTERS)
}

/** Undefined where there are too many. */
export function hashesOf(names: readonly string[]): string | undefined {
  return names.length > MAX_NAMES ? undefined : names.map(nameHash).join('')
}

/** Each of them; what is cut at the end is left out. */
export function hashesIn(text = ''): string[] {
  return text.match(new RegExp(`.{${LETTERS}}`, 'g')) ?? []
}
