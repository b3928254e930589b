/** Draws cases of a subject from a seed, and says of the first one that fails what is left of it when it is made small. */
import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import type { Check, Subject } from './subject.ts'

export interface Fuzzed {
  cases: number
  /** How many cases were of which kind. */
  kinds: Record<string, number>
  seconds: number
  failure?: { case: unknown; why: string }
}

export interface Draw<Case> {
  seed: number
  count: number
  /** Instead of the subject's own. */
  open?: () => Promise<Check<Case>>
}

/** Any: the run prints it, and can be repeated by it. */
export function newSeed(): number {
  return randomInt(2 ** 31)
}

export async function fuzz<Case>(
  subject: Subject<Case>,
  { seed, count, open = () => subject.open() }: Draw<Case>,
): Promise<Fuzzed> {
  const began = performance.now()
  const check = await open()
  const kinds: Record<string, number> = {}
  const stray: string[] = []
  // Nobody awaited it, so nobody would hear of it.
  const heard = (reason: unknown) => stray.push(wordsOf(reason))
  process.on('unhandledRejection', heard)
  const property = fc.asyncProperty(subject.cases, async (one) => {
    const kind = await check.holds(one)
    kinds[kind] = (kinds[kind] ?? 0) + 1
    const [first] = stray.splice(0)
    if (first !== undefined) throw new Error(`an unhandled rejection: ${first}`)
  })
  try {
    const { failed, numRuns, counterexample, errorInstance } = await fc.check(property, {
      seed,
      numRuns: count,
    })
    const seconds = (performance.now() - began) / 1000
    const done = { cases: numRuns, kinds, seconds }
    if (!failed) return done
    return { ...done, failure: { case: counterexample?.[0], why: wordsOf(errorInstance) } }
  } finally {
    process.off('unhandledRejection', heard)
    await check.close()
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
