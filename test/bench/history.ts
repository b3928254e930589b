/** What was measured before: one line of JSON for each run that was kept. */
import { appendFileSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { Run } from './compare.ts'
import type { Figure } from './table.ts'

const FILE = new URL('history.jsonl', import.meta.url)

/** These figures as a run of this machine. */
export function runOf(figures: Figure[]): Run {
  const cpu = cpus()[0]?.model
  return {
    at: new Date().toISOString(),
    node: process.version,
    ...(cpu !== undefined && { cpu }),
    figures: Object.fromEntries(figures.map(({ what, ...rest }) => [what, rest])),
  }
}

export function keep(run: Run): void {
  appendFileSync(FILE, `${JSON.stringify(run)}\n`)
}

/** Of each figure what was kept last: a run may have measured only a part. Undefined before the first. */
export function kept(): Run | undefined {
  const lines = readFileSync(FILE, 'utf8').split('\n')
  const runs = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Run)
  const last = runs.at(-1)
  if (last === undefined) return undefined
  return {
    ...last,
    figures: Object.assign({}, ...runs.map(({ figures }) => figures)) as Run['figures'],
  }
}
