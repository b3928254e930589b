/**
 * `npm run bench`: measures what the operator costs. The yardstick of each figure is measured in the same run,
 * alternating with it. Ends with 1 where a target was missed or a row could not be measured, and with --compare
 * where a ratio is worse than in an earlier run or nothing could be compared.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chosenOf, givenFlags } from '../command-line.ts'
import { backup } from './backup.ts'
import { clusters } from './clusters.ts'
import { collections } from './collections.ts'
import { drain } from './drain.ts'
import { migration } from './migration.ts'
import type { Part } from './part.ts'
import { machine } from '../proof/machine.ts'
import { useRealParts } from '../real-parts.ts'
import { rest } from './rest.ts'
import {
  compareRatios,
  judgeTargets,
  measurePart,
  withRatios,
  type Baseline,
  type Measured,
} from './results.ts'
import { restore } from './restore.ts'
import { shards } from './shards.ts'
import { starts } from './starts.ts'
import { print } from './table.ts'
import { uploads } from './uploads.ts'

const ROOT = join(import.meta.dirname, '../..')
const BASELINE = join(import.meta.dirname, 'baseline.json')

/** In the order of their measurement. */
const PARTS: Part[] = [
  ...[clusters, collections, starts, backup, uploads, shards, drain, restore, migration],
]

const USAGE = `Usage: npm run bench -- [options]
  --only NAME   only this part; repeatable:
${PARTS.map(({ name, title }) => `                  ${name.padEnd(12)} ${title}`).join('\n')}
  --seconds N   length of each measurement of hooks (3)
  --pairs N     measurements of each side, alternating (5)
  --parents N   number of different parents for the memory figure (10000)
  --profile     write a CPU profile of the service to dist/bench
  --compare     compare ratios with those of test/bench/baseline.json
  --save        keep the ratios there, with the date, the commit and the machine
  --help        print this
${PARTS.map(({ usage = '' }) => usage).join('\n')}`

const FLAGS = {
  only: { type: 'string', multiple: true, default: PARTS.map(({ name }) => name) },
  seconds: { type: 'string', default: '3' },
  pairs: { type: 'string', default: '5' },
  parents: { type: 'string', default: '10000' },
  profile: { type: 'boolean', default: false },
  compare: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const values = givenFlags(USAGE, FLAGS)
  if (values === undefined) return
  const parts = chosenOf('part', PARTS, values.only)
  const plan = {
    seconds: Number(values.seconds),
    pairs: Number(values.pairs),
    parents: Number(values.parents),
    profile: values.profile,
  }
  useRealParts(process.env)
  const all: Measured = { figures: new Map(), unmeasured: [] }
  for (const part of parts) {
    await rest()
    const measure = () => part.measure(plan)
    const { rows, figures, unmeasured } = await measurePart({ ...part, measure }, process.env)
    if (rows.length > 0) print(part.title, part.columns, rows)
    for (const [key, figure] of figures) all.figures.set(key, figure)
    all.unmeasured.push(...unmeasured)
  }
  const names = parts.map(({ name }) => name)
  const verdicts = [judgeTargets(all)]
  if (values.compare) verdicts.push(compareRatios(all.figures, names, baseline()))
  for (const { lines } of verdicts) process.stdout.write(`${lines.join('\n')}\n`)
  if (values.save) {
    const saved = withRatios(baseline(), all.figures, names, machine(ROOT))
    writeFileSync(BASELINE, `${JSON.stringify(saved, undefined, 2)}\n`)
  }
  process.exitCode = verdicts.every(({ holds }) => holds) ? 0 : 1
}

/** Empty as long as no run was kept. */
function baseline(): Baseline {
  return existsSync(BASELINE) ? (JSON.parse(readFileSync(BASELINE, 'utf8')) as Baseline) : {}
}

main().catch((error: unknown) => {
  process.stderr.write(
    `bench: ${error instanceof Error ? (error.stack ?? error.message) : 'failed'}\n`,
  )
  process.exitCode = 1
})
