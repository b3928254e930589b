/**
 * `npm run bench`: what the operator costs, each figure beside a yardstick that is measured in turns
 * with it in the same run. Asserts nothing; `--save` keeps the figures, `--compare` holds them to those
 * kept before.
 */
import { chosenOf, givenFlags } from '../command-line.ts'
import { backup } from './backup.ts'
import { clusters } from './clusters.ts'
import { collections } from './collections.ts'
import { told, worseThan } from './compare.ts'
import { keep, kept, runOf } from './history.ts'
import { idle } from './idle.ts'
import { image } from './image.ts'
import { migration } from './migration.ts'
import type { Part } from './part.ts'
import { purging } from './purge.ts'
import { rest } from './rest.ts'
import { restore } from './restore.ts'
import { shards } from './shards.ts'
import { starts } from './starts.ts'
import { storm } from './storm.ts'
import { print, type Figure } from './table.ts'
import { uploads } from './uploads.ts'

/** In the order of their measurement. */
const PARTS: Part[] = [
  ...[clusters, collections, storm, idle, starts],
  ...[backup, uploads, purging, shards, restore, migration, image],
]

const USAGE = `Usage: npm run bench -- [options]
  --only NAME   only this part; repeatable:
${PARTS.map(({ name, title }) => `                  ${name.padEnd(12)} ${title}`).join('\n')}
  --seconds N   length of each measurement of hooks (3)
  --pairs N     measurements of each side, in turns (5)
  --parents N   different parents synced in turn for the memory (10000)
  --profile     write a CPU profile of the service to dist/bench
  --compare     say which ratios are worse by more than a tenth than they were when kept last
  --save        append the figures to test/bench/history.jsonl
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
  const all: Figure[] = []
  for (const { name, title, columns, measure } of parts) {
    await rest()
    const figures = await measure(plan)
    print(title, columns, figures)
    all.push(...figures.map((figure) => ({ ...figure, what: `${name}: ${figure.what}` })))
  }
  const now = runOf(all)
  const before = kept()
  if (values.compare && before !== undefined) {
    process.stdout.write(told(worseThan(before, now), before))
  }
  if (values.save) keep(now)
}

main().catch((error: unknown) => {
  process.stderr.write(
    `bench: ${error instanceof Error ? (error.stack ?? error.message) : 'failed'}\n`,
  )
  process.exitCode = 1
})
