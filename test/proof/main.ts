/**
 * `npm run proof`: the whole proof by one command, part by part, each a process of its own whose output
 * is shown. At the end its last lines, one table; with --write README shows that, with the machine.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chosenOf, givenFlags } from '../command-line.ts'
import { PARTS, type Part } from './parts.ts'
import { machine } from './machine.ts'
import { run } from './run.ts'
import { section, withSection, type Proved } from './section.ts'

const ROOT = new URL('../..', import.meta.url).pathname
const README = join(ROOT, 'README.md')

const USAGE = `Usage: npm run proof -- [options]
  --short       so many seeds and cases as .ci/run takes, and a short bench
  --only NAME   only this part; repeatable: ${PARTS.map(({ name }) => name).join(', ')}
  --write       put the result into README.md; a part that was not run keeps what stands there
  --help        print this
The whole of it takes hours, and the bench wants a machine of its own.
`

const FLAGS = {
  short: { type: 'boolean', default: false },
  only: { type: 'string', multiple: true, default: PARTS.map(({ name }) => name) },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const values = givenFlags(USAGE, FLAGS)
  if (values === undefined) return
  const parts = chosenOf('part', PARTS, values.only)
  const proved: Proved[] = []
  for (const part of parts) {
    proved.push(await prove(part, values.short))
  }
  const where = machine(ROOT)
  process.stdout.write(`\n${section(proved, where)}`)
  if (values.write) {
    writeFileSync(README, withSection(readFileSync(README, 'utf8'), proved, where))
  }
  process.exitCode = proved.every(({ holds }) => holds) ? 0 : 1
}

async function prove(
  { name, title, command, short, said }: Part,
  isShort: boolean,
): Promise<Proved> {
  process.stdout.write(`\n=== ${title}\n`)
  const { code, output } = await run([...command, ...(isShort ? short : [])], ROOT)
  const words = said(output)
  return {
    name,
    title,
    holds: code === 0 && words !== undefined,
    words: words ?? `ended with ${code}`,
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`proof: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
})
