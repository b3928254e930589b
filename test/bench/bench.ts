/**
 * `npm run bench`: measures what the operator costs. The yardstick of each figure is measured in the same run,
 * alternating with it. Ends with 1 where a target was missed or a row could not be measured, and with --compare
 * where a ratio is worse than in an earlier run or nothing could be compared.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chosenOf, givenFlags } from '../command-line.ts'
import { attacks } from './attacks.ts'
import { backup } from './backup.ts'
import { clusters } from './clusters.ts'
import { collections } from './collections.ts'
import { drain } from './drain.ts'
import { migration } from './migration.ts'
import type { Part, Plan } from './part.ts'
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
import { print, type Figure } from './table.ts'
import { uploads } from './uploads.ts'

const ROOT = join(import.meta.dirname, '../..')

/** In the order of their measurement. */
const PARTS: Part[] = [
  ...[clusters, collections, attacks, starts, backup, uploads, shards, drain, restore, migration],
]

const USAGE = `Usage: npm run bench -- [options]
  --only NAME   only this part; repeatable:
${PARTS.map(({ name, title }) => `                  ${name.padEnd(12)} ${title}`).join('\n')}
  --seconds N   length of each measurement of hooks (3)
  --pairs N     measurements of each side, alternating (5)
  --parents N   number of different parents for the memory figure (10000)
  --profile     write a CPU profile of the service to dist/bench
  --cgroup      attack the service in a memory cgroup with the limit of the chart (as root)
  --compare     compare ratios with those of the baseline
  --save        keep the ratios there, with the date, the commit and the machine
  --baseline F  the file of the baseline (test/bench/baseline.json)
  --record F    write what was measured to this file
  --recorded F  judge what an earlier run has recorded, and measure nothing
  --help        print this
${PARTS.map(({ usage = '' }) => usage).join('\n')}`

const FLAGS = {
  only: { type: 'string', multiple: true, default: PARTS.map(({ name }) => name) },
  seconds: { type: 'string', default: '3' },
  pairs: { type: 'string', default: '5' },
  parents: { type: 'string', default: '10000' },
  profile: { type: 'boolean', default: false },
  cgroup: { type: 'boolean', default: false },
  compare: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  baseline: { type: 'string', default: join(import.meta.dirname, 'baseline.json') },
  record: { type: 'string' },
  recorded: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

/** What a run measured, as it is kept in a file. */
interface Recorded {
  /** Date, commit and machine. */
  measured: string
  figures: [key: string, figure: Figure][]
  unmeasured: string[]
}

async function main(): Promise<void> {
  const values = givenFlags(USAGE, FLAGS)
  if (values === undefined) return
  const parts = chosenOf('part', PARTS, values.only)
  const plan = {
    seconds: Number(values.seconds),
    pairs: Number(values.pairs),
    parents: Number(values.parents),
    profile: values.profile,
    cgroup: values.cgroup,
  }
  const { recorded, record } = values
  const run = recorded === undefined ? await measureParts(parts, plan) : read(recorded)
  if (record !== undefined) writeFileSync(record, `${JSON.stringify(run)}\n`)
  const names = parts.map(({ name }) => name)
  const isChosen = (key: string) => names.some((name) => key.startsWith(`${name}: `))
  const all: Measured = {
    figures: new Map(run.figures.filter(([key]) => isChosen(key))),
    unmeasured: run.unmeasured.filter(isChosen),
  }
  const baseline = baselineIn(values.baseline)
  const verdicts = [judgeTargets(all)]
  if (values.compare) verdicts.push(compareRatios(all.figures, names, baseline))
  for (const { lines } of verdicts) process.stdout.write(`${lines.join('\n')}\n`)
  if (values.save) {
    const saved = withRatios(baseline, all.figures, names, run.measured)
    writeFileSync(values.baseline, `${JSON.stringify(saved, undefined, 2)}\n`)
  }
  process.exitCode = verdicts.every(({ holds }) => holds) ? 0 : 1
}

/** Measures these parts one after the other, and prints the table of each. */
async function measureParts(parts: readonly Part[], plan: Plan): Promise<Recorded> {
  useRealParts(process.env)
  const run: Recorded = { measured: machine(ROOT), figures: [], unmeasured: [] }
  for (const part of parts) {
    await rest()
    const measure = () => part.measure(plan)
    const expected = part.targets(plan)
    const { rows, figures, unmeasured } = await measurePart(
      { ...part, expected, measure },
      process.env,
    )
    if (rows.length > 0) print(part.title, part.columns, rows)
    run.figures.push(...figures)
    run.unmeasured.push(...unmeasured)
  }
  return run
}

function read(file: string): Recorded {
  const run = JSON.parse(readFileSync(file, 'utf8')) as Recorded
  process.stdout.write(`recorded: ${run.measured}\n`)
  return run
}

/** Empty as long as no run was kept. */
function baselineIn(file: string): Baseline {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Baseline) : {}
}

main().catch((error: unknown) => {
  process.stderr.write(
    `bench: ${error instanceof Error ? (error.stack ?? error.message) : 'failed'}\n`,
  )
  process.exitCode = 1
})
