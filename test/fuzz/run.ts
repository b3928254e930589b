/** Draws cases of a subject from a seed, and says of the first one that fails what is left of it when it is made small. */
import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import { ASKED_AGAIN, type Check, type Subject } from './subject.ts'

export interface Fuzzed {
  cases: number
  /** How many cases were of which kind. */
  kinds: Record<string, number>
  /** Of the CPU, in this process: the run may be made to wait at any time. */
  seconds: number
  failures: Failure[]
}

export interface Failure {
  case: unknown
  why: string
}

export interface Draw<Case> {
  seed: number
  count: number
  /** Instead of the subject's own. */
  open?: () => Promise<Check<Case>>
  /** Ends it early, with what it has come to. */
  enough?: AbortSignal
}

/** Any: the run prints it, and can be repeated by it. */
export function newSeed(): number {
  return randomInt(2 ** 31)
}

export async function fuzz<Case>(subject: Subject<Case>, draw: Draw<Case>): Promise<Fuzzed> {
  const { seed, count, open = () => subject.open(), enough } = draw
  const began = process.cpuUsage()
  const check = await open()
  const kinds: Record<string, number> = {}
  const stray: string[] = []
  // A rejection without an awaiting caller would otherwise stay unnoticed.
  const heard = (reason: unknown) => stray.push(wordsOf(reason))
  process.on('unhandledRejection', heard)
  // While it is made small, the run may be ended.
  let first: Failure | undefined
  const property = fc.asyncProperty(subject.cases, async (one) => {
    try {
      const kind = await check.holds(one)
      const [unheard] = stray.splice(0)
      if (unheard !== undefined) throw new Error(`an unhandled rejection: ${unheard}`)
      if (first === undefined) kinds[kind] = (kinds[kind] ?? 0) + 1
    } catch (error) {
      first ??= { case: one, why: wordsOf(error) }
      throw error
    }
  })
  try {
    const found = await Promise.race([
      fc.check(property, { seed, numRuns: count }),
      whenAborted(enough),
    ])
    const failure = found?.failed === true ? failureOf(found) : first
    const cases = sum(Object.values(kinds)) + (failure === undefined ? 0 : 1)
    const failures = failure === undefined ? [] : [failure]
    const again = check.askedAgain?.() ?? 0
    if (again > 0) kinds[ASKED_AGAIN] = again
    return { cases, kinds, seconds: cpuSecondsSince(began), failures }
  } finally {
    process.off('unhandledRejection', heard)
    await check.close()
  }
}

/** Slices of one run as one. */
export function merged(slices: Fuzzed[]): Fuzzed {
  const kinds: Record<string, number> = {}
  for (const [kind, count] of slices.flatMap((slice) => Object.entries(slice.kinds))) {
    kinds[kind] = (kinds[kind] ?? 0) + count
  }
  return {
    cases: sum(slices.map(({ cases }) => cases)),
    kinds,
    seconds: sum(slices.map(({ seconds }) => seconds)),
    failures: slices.flatMap(({ failures }) => failures),
  }
}

async function whenAborted(enough: AbortSignal | undefined): Promise<undefined> {
  return new Promise((resolve) => {
    // It may have come while the subject was opened.
    if (enough?.aborted === true) resolve(undefined)
    enough?.addEventListener('abort', () => resolve(undefined))
  })
}

function failureOf<Case>({ counterexample, errorInstance }: fc.RunDetails<[Case]>): Failure {
  return { case: counterexample?.[0], why: wordsOf(errorInstance) }
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}

function cpuSecondsSince(began: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1e6
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
