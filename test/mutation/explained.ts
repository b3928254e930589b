/** Which changes no test need notice (explanations.ts). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EXPLAINED } from './explanations.ts'
import { ROOT } from './files.ts'
import type { Mutant } from './score.ts'

export function explained(file: string, mutant: Mutant): string | undefined {
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const { start, end } = mutant.location
  const line = lines[start.line - 1] ?? ''
  // A mutant over several lines is identified by its first line.
  const from = line.slice(start.column - 1, end?.line === start.line ? end.column - 1 : undefined)
  return EXPLAINED.find(
    (one) =>
      (one.file ?? file) === file &&
      (one.mutator ?? mutant.mutatorName) === mutant.mutatorName &&
      isLike(one.from, from) &&
      (one.to ?? mutant.replacement) === mutant.replacement &&
      isOn(one.line, line),
  )?.why
}

function isOn(pattern: string | RegExp | undefined, line: string): boolean {
  return pattern instanceof RegExp ? pattern.test(line) : (pattern ?? line.trim()) === line.trim()
}

function isLike(pattern: string | RegExp | undefined, text: string): boolean {
  return pattern instanceof RegExp ? pattern.test(text) : (pattern ?? text) === text
}
