/** What became of the changes of a file: noticed, or survived and explained, or survived. */
import { EXPLAINED } from './explained.ts'

export interface Mutant {
  mutatorName: string
  replacement?: string
  status: string
  location: { start: { line: number; column: number } }
}

export interface Report {
  files: Record<string, { mutants: Mutant[] }>
}

export interface Scored {
  file: string
  mutants: Mutant[]
}

export interface Score {
  killed: number
  /** All but those that do not compile or were ignored. */
  counted: number
  percent: number
}

const NOTICED = ['Killed', 'Timeout']
const MISSED = ['Survived', 'NoCoverage']

export function scoreOf(mutants: Mutant[]): Score {
  const killed = mutants.filter(({ status }) => NOTICED.includes(status)).length
  const counted = killed + mutants.filter(({ status }) => MISSED.includes(status)).length
  return {
    killed,
    counted,
    percent: counted === 0 ? 100 : Math.round((1000 * killed) / counted) / 10,
  }
}

/** The score of a file, and each survivor with why it may live, where that is known. */
export function tell({ file, mutants }: Scored): void {
  const { killed, counted, percent } = scoreOf(mutants)
  process.stdout.write(`${String(percent).padStart(5)} %  ${killed}/${counted}  ${file}\n`)
  for (const { status, mutatorName, replacement = '', location } of mutants) {
    if (!MISSED.includes(status)) continue
    const { line, column } = location.start
    const why = EXPLAINED.find((one) => one.file === file && one.mutator === mutatorName)?.why
    const change = `${mutatorName} ${replacement.replaceAll(/\s+/g, ' ').slice(0, 60)}`
    process.stdout.write(
      `         ${status} ${line}:${column} ${change}${why ? ` (${why})` : ''}\n`,
    )
  }
}
