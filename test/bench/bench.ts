/**
 * `npm run bench`: measures what the operator costs. The yardstick of each figure is measured in the same run,
 * alternating with it. Asserts nothing; the table says which targets are met.
 */
import { chosenOf, givenFlags } from '../command-line.ts'
import { backup } from './backup.ts'
import { clusters } from './clusters.ts'
import { collections } from './collections.ts'
import { migration } from './migration.ts'
import type { Part } from './part.ts'
import { rest } from './rest.ts'
import { restore } from './restore.ts'
import { shards } from './shards.ts'
import { starts } from './starts.ts'
import { print } from './table.ts'
import { uploads } from './uploads.ts'

/** In the order of their measurement. */
const PARTS: Part[] = [
  ...[clusters, collections, starts, backup, uploads, shards, restore, migration],
]

const USAGE = `Usage: npm run bench -- [options]
  --only NAME   only this part; repeatable:
${PARTS.map(({ name, title }) => `                  ${name.padEnd(12)} ${title}`).join('\n')}
  --seconds N   length of each measurement of hooks (3)
  --pairs N     measurements of each side, alternating (5)
  --parents N   number of different parents for the memory figure (10000)
  --profile     write a CPU profile of the service to dist/bench
  --help        print this
${PARTS.map(({ usage = '' }) => usage).join('\n')}`

const FLAGS = {
  only: { type: 'string', multiple: true, default: PARTS.map(({ name }) => name) },
  seconds: { type: 'string', default: '3' },
  pairs: { type: 'string', default: '5' },
  parents: { type: 'string', default: '10000' },
  profile: { type: 'boolean', default: false },
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
  for (const { title, columns, measure } of parts) {
    await rest()
    print(title, columns, await measure(plan))
  }
}

main().catch((error: unknown) => {
  process.stderr.write(
    `bench: ${error instanceof Error ? (error.stack ?? error.message) : 'failed'}\n`,
  )
  process.exitCode = 1
})
