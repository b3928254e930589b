/** What became of the changes of a file: noticed, or survived and explained, or survived. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { changeOf, explained } from './explained.ts'
import { linesOf, ROOT } from './files.ts'

export interface Mutant {
  mutatorName: string
  replacement?: string
  status: string
  location: { start: Position; end?: Position }
}

/** Both from one; the end is that after the last column. */
interface Position {
  line: number
  column: number
}

export interface Report {
  files: Record<string, { mutants: Mutant[] }>
}

/** What is kept of a file: it can be judged again when an explanation is added. */
export interface Scored {
  file: string
  /** Digest of the text that was judged. */
  of: string
  killed: number
  missed: Mutant[]
}

export interface Score {
  killed: number
  /** Survivors without observable effect. */
  explained: number
  /** All but those that do not compile or were ignored. */
  counted: number
  /** Of those that count and are not explained. */
  percent: number
}

const NOTICED = ['Killed', 'Timeout']
const MISSED = ['Survived', 'NoCoverage']

/** Of a report of Stryker. */
export function scoredFrom(mutants: Mutant[], file: Pick<Scored, 'file' | 'of'>): Scored {
  const killed = mutants.filter(({ status }) => NOTICED.includes(status)).length
  const missed = mutants.filter(({ status }) => MISSED.includes(status)).map(plain)
  return { ...file, killed, missed }
}

function plain({ mutatorName, replacement = '', status, location }: Mutant): Mutant {
  return { mutatorName, replacement, status, location }
}

export function scoreOf(scored: readonly Scored[]): Score {
  const killed = scored.reduce((sum, one) => sum + one.killed, 0)
  const missed = scored.flatMap(({ file, missed: all }) => all.map((one) => ({ file, ...one })))
  const explainedOnes = missed.filter((one) => explained(one.file, one))
  const counted = killed + missed.length
  const due = counted - explainedOnes.length
  const percent = due === 0 ? 100 : Math.round((1000 * killed) / due) / 10
  return { killed, explained: explainedOnes.length, counted, percent }
}

/** The score of a file, and each survivor with why it may live, where that is known. */
export function print(scored: Scored): void {
  const { file, missed } = scored
  const { killed, counted, percent } = scoreOf([scored])
  process.stdout.write(
    `${String(percent).padStart(5)} %  ${killed}/${counted}  ${file} (${linesOf([file])} lines)\n`,
  )
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  for (const one of missed) {
    const { line, column } = one.location.start
    const why = explained(file, one, { lines })
    const reason = why === undefined ? '' : ` (${why})`
    process.stdout.write(
      `         ${one.status} ${line}:${column} ${changeOf(lines, one)}${reason}\n`,
    )
  }
}
