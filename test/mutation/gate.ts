/** Whether the scores of files pass, and the lines that say so with their scope. */
import { scoreOf, type Score, type Scored } from './score.ts'

export interface Judged {
  /** Explanations whose line is no longer there. */
  changed: readonly string[]
  /** Explanations of changes that a test notices. */
  expired: readonly string[]
  scope: Scope
}

/** How many files were to be judged and lines were, of how many the product has. */
export interface Scope {
  files: number
  lines: number
  ofFiles: number
  ofLines: number
}

/** A change that no test detects and no explanation covers fails, and so does an explanation that has expired. */
export function gate(
  scores: readonly Scored[],
  { changed, expired, scope }: Judged,
): { passes: boolean; lines: string[]; score: Score } {
  const score = scoreOf(scores)
  const { killed, counted, explained, percent } = score
  const unexplained = counted - killed - explained
  const isWhole = scores.length === scope.files
  const said = scores.length === 0 ? 'nothing was judged' : `${percent} %`
  return {
    passes: unexplained === 0 && isWhole && changed.length === 0 && expired.length === 0,
    lines: [
      ...changed.map((one) => `explanation of a line that has changed: ${one}`),
      ...expired.map((one) => `explanation of a change that does not survive: ${one}`),
      `${scores.length} of ${scope.files} files: ${killed} of ${counted} noticed, ${explained} explained, ` +
        `${unexplained} not, ${changed.length + expired.length} explanations expired: ${said}; ` +
        `${scope.lines} lines, of ${scope.ofFiles} files with ${scope.ofLines} lines of the operator`,
    ],
    score,
  }
}
