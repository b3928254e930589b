/** Whether a sample is good enough, and the sentence that says so with its scope. */
import type { Outcome } from './judge.ts'

export interface Sample {
  /** Of the mutants that were judged. */
  outcomes: readonly Outcome['is'][]
  /** Survivors that change nothing that can be observed (explanations.ts). */
  explained: number
  /** Killed mutants with such an explanation: it has expired. */
  expired: number
  drawn: number
  scope: Scope
  /** Percent of those not explained that must be killed. */
  least: number
}

/** What the mutants were drawn from. */
export interface Scope {
  files: number
  lines: number
  mutants: number
}

/** A sample that was not judged to its end, an empty one, and an explanation that has expired fail. */
export function gate({ outcomes, explained, expired, drawn, scope, least }: Sample): {
  passes: boolean
  says: string
} {
  const count = (is: Outcome['is']) => outcomes.filter((one) => one === is).length
  const killed = count('killed') + count('timeout')
  const due = outcomes.length - explained
  const percent = due === 0 ? 0 : (100 * killed) / due
  const passes = percent >= least && outcomes.length === drawn && expired === 0
  const says =
    `${passes ? 'passed' : 'FAILED'}: ${killed} of ${due} killed (${count('timeout')} by time-out): ` +
    `${percent.toFixed(1)} %, at least ${least} % are required; ` +
    `${count('survived')} survived and ${count('not covered')} not covered, ${explained} of them explained, ` +
    `${expired} killed although explained; ` +
    `${outcomes.length} of ${drawn} drawn judged, drawn from ${scope.mutants} mutants in ${scope.files} files ` +
    `of ${scope.lines} lines`
  return { passes, says }
}
