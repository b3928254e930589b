/**
 * `npm run proof`: runs each part of the proof as a separate process and prints its output, then the result of
 * each part. With --write the results go into docs/proof.md, with the machine they ran on.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chosenOf, givenFlags } from '../command-line.ts'
import { PARTS, type Part } from './parts.ts'
import { machine } from './machine.ts'
import { run } from './run.ts'
import { section, withSection, type Proved } from './section.ts'

const ROOT = new URL('../..', import.meta.url).pathname
const PAGE = join(ROOT, 'docs/proof.md')

const USAGE = `Usage: npm run proof -- [options]
  --short       as few seeds and cases as .ci/run uses, and a short bench
  --only NAME   only this part; repeatable: ${PARTS.map(({ name }) => name).join(', ')}
  --write       write the results into docs/proof.md; a part that did not run keeps its result
  --help        print this
A whole run takes hours, and the bench needs a machine without other load.
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
    writeFileSync(PAGE, withSection(readFileSync(PAGE, 'utf8'), proved, where))
  }
  process.exitCode = proved.every(({ holds }) => holds) ? 0 : 1
}

async function prove(part: Part, isShort: boolean): Promise<Proved> {
  const { name, title, scope, fails, said } = part
  const command = [...part.command, ...(isShort ? part.short : [])]
  process.stdout.write(`\n=== ${title}\n`)
  const { code, output } = await run(command, ROOT)
  const words = said(output)
  return {
    ...{ name, title, scope, fails, command: `node ${command.join(' ')}` },
    holds: code === 0 && words !== undefined,
    words: words ?? `The command ended with ${code} and printed no result.`,
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`proof: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
})
