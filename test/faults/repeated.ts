/** Runs that once broke a promise: what they found is mended, and stays so. */
import type { Strike } from './faults.ts'

export interface Repeated {
  /** What must hold. */
  title: string
  seed: number
  strikes: Strike[]
}

export const REPEATED: Repeated[] = []
