/**
 * Which changes no test need notice (explanations.ts). An explanation is for one line of one file: when the line
 * changes, or a test notices the change after all, it has expired and the gate fails.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EXPLAINED, type Explained } from './explanations.ts'
import { ROOT } from './files.ts'
import type { Mutant, Scored } from './score.ts'

export type Explanations = Readonly<Record<string, readonly Explained[]>>

/** Why a mutant may survive, where that is explained. */
export function explained(
  file: string,
  mutant: Mutant,
  { all = EXPLAINED, lines = linesOf(file) }: { all?: Explanations; lines?: string[] } = {},
): string | undefined {
  const change = changeOf(lines, mutant)
  return all[file]?.find((one) => isOn(one, lines, mutant) && one.changes.includes(change))?.why
}

/** Whether the mutant begins on the line of the explanation. */
function isOn({ line, nth }: Explained, lines: readonly string[], { location }: Mutant): boolean {
  const index = location.start.line - 1
  if (lines[index]?.trim() !== line) return false
  const before = lines.slice(0, index).filter((text) => text.trim() === line).length
  return nth === undefined || nth === before + 1
}

/** The change as explanations quote it: kind, what is replaced on its first line, and by what. */
export function changeOf(
  lines: readonly string[],
  { mutatorName, replacement = '', location: { start, end } }: Mutant,
): string {
  const line = lines[start.line - 1] ?? ''
  const from = line.slice(start.column - 1, end?.line === start.line ? end.column - 1 : undefined)
  const before = line.slice(0, start.column - 1).split(from).length
  const nth = before === 1 ? '' : ` #${before}`
  return `${mutatorName}: ${from}${nth} -> ${replacement.replaceAll(/\s+/g, ' ')}`
}

/** Explanations whose line is not there as often as they say. */
export function changedLines(all: Explanations = EXPLAINED, textOf = linesOf): string[] {
  return Object.entries(all).flatMap(([file, explanations]) => {
    const lines = textOf(file).map((line) => line.trim())
    return explanations.flatMap(({ line, times = 1 }) => {
      const found = lines.filter((text) => text === line).length
      return found === times
        ? []
        : [`${file}: ${times} times expected, ${found} times found: ${line}`]
    })
  })
}

/** Explanations of changes that did not survive, or that the line does not have. */
export function expired(
  { file, missed }: Pick<Scored, 'file' | 'missed'>,
  all: Explanations = EXPLAINED,
  lines: string[] = linesOf(file),
): string[] {
  return (all[file] ?? []).flatMap((one) =>
    one.changes.flatMap((change) => {
      const found = missed.filter(
        (mutant) => isOn(one, lines, mutant) && changeOf(lines, mutant) === change,
      ).length
      const expected = one.nth === undefined ? (one.times ?? 1) : 1
      return found === expected ? [] : [`${file}: ${change} on the line ${one.line}`]
    }),
  )
}

/** Ranges of lines of the file, as Stryker takes them, with an explanation. */
export function explainedRanges(file: string): string[] {
  const quoted = new Set(EXPLAINED[file]?.map(({ line }) => line))
  return linesOf(file).flatMap((line, index) =>
    quoted.has(line.trim()) ? [`${file}:${index + 1}-${index + 1}`] : [],
  )
}

function linesOf(file: string): string[] {
  return readFileSync(join(ROOT, file), 'utf8').split('\n')
}
