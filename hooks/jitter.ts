/** Spreads the reconciles of a thousand collections that were first observed at the same time. */
import { shortHash } from '../crds/contract/names.ts'

/** Returns a number from 0 to 1, constant per resource. */
export function jitterOf(uid: string): number {
  return Number.parseInt(shortHash(uid).slice(0, 8), 16) / 2 ** 32
}
