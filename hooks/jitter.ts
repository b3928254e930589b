/** What spreads the passes over a thousand collections that were all seen at once. */
import { shortHash } from '../crds/contract/names.ts'

/** A number from 0 to 1 that is the resource's own. */
export function jitterOf(uid: string): number {
  return Number.parseInt(shortHash(uid).slice(0, 8), 16) / 2 ** 32
}
