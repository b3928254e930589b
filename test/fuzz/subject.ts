/** What is fuzzed: cases that JSON can hold, so that one that failed can be kept, and what must hold for each. */
import type fc from 'fast-check'

/** Among the kinds of cases, so that each result shows what was done twice. */
export const RUN_AGAIN = 'processes that the machine ended, and were run once more'
export const ASKED_AGAIN = 'answers that were late, and were asked for once more'
export const TWICE = [RUN_AGAIN, ASKED_AGAIN]

export interface Subject<Case> {
  /** As `--only` and the corpus name it. */
  name: string
  /** What must hold, as a sentence. */
  title: string
  cases: fc.Arbitrary<Case>
  /** How many cases of the other subjects take as long as one of this; default: 1. */
  cost?: number
  open(): Promise<Check<Case>>
  /** The same through a whole world, where that makes a difference. */
  inWorld?: () => Promise<Check<Case>>
}

export interface Check<Case> {
  /** Throws when it does not hold. Answers with a word for what kind of case it was. */
  holds(one: Case): Promise<string>
  /** How many answers were late and asked for once more until now; absent: none ever is. */
  askedAgain?(): number
  close(): Promise<void>
}
