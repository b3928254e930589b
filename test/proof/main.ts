/**
 * `npm run proof`: runs each part of the proof as a separate process and prints its output, then the result of
 * each part. With --write the results go into docs/proof.md, with the machine they ran on. Suites that were run by
 * themselves have kept their results; --collect writes those. A result on the page that is older than what it
 * covers is marked.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chosenOf, givenFlags } from '../command-line.ts'
import { PARTS, type Part } from './parts.ts'
import { changesSince } from './machine.ts'
import { prove } from './prove.ts'
import { isWhole, recordedResults } from './record.ts'
import { section, withMarks, withSection, type Proved } from './section.ts'

const ROOT = new URL('../..', import.meta.url).pathname
const PAGE = join(ROOT, 'docs/proof.md')

const USAGE = `Usage: npm run proof -- [options]
  --short       as few seeds and cases as .ci/run uses, and a short bench; of these results, --write writes only those
                of a whole claim
  --only NAME   only this part; repeatable: ${PARTS.map(({ name }) => name).join(', ')}
  --write       write the results into docs/proof.md; a part that did not run keeps its result
  --collect     run nothing, write the results of suites that were run by themselves
  --mark        run nothing, mark the results on the page that are older than what they cover
  --check       run nothing, end with 1 if a mark is missing
  --help        print this
A whole run takes hours, and the bench needs a machine without other load.
`

const FLAGS = {
  short: { type: 'boolean', default: false },
  only: { type: 'string', multiple: true, default: PARTS.map(({ name }) => name) },
  write: { type: 'boolean', default: false },
  collect: { type: 'boolean', default: false },
  mark: { type: 'boolean', default: false },
  check: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const values = givenFlags(USAGE, FLAGS)
  if (values === undefined) return
  const parts = chosenOf('part', PARTS, values.only)
  if (values.check) {
    check()
    return
  }
  if (values.mark) {
    write([])
    return
  }
  const proved = values.collect ? recordedResults(parts) : await proveAll(parts, values.short)
  process.stdout.write(`\n${section(proved)}`)
  if (values.write || values.collect) write(proved)
  if (values.collect) process.stdout.write(`${proved.length} of ${parts.length} parts\n`)
  process.exitCode = proved.length > 0 && proved.every(({ holds }) => holds) ? 0 : 1
}

async function proveAll(parts: readonly Part[], isShort: boolean): Promise<Proved[]> {
  const proved: Proved[] = []
  for (const part of parts) proved.push(await prove(part, { root: ROOT, isShort }))
  return proved
}

/** Results of whole claims only: most of --short are not. */
function write(proved: readonly Proved[]): void {
  const whole = proved.filter(({ name, command }) =>
    PARTS.some((part) => part.name === name && isWhole(part, command.split(' ').slice(1))),
  )
  writeFileSync(PAGE, marked(withSection(readFileSync(PAGE, 'utf8'), whole)))
}

function marked(page: string): string {
  return withMarks(page, (commit, covers) => changesSince(ROOT, commit, covers))
}

function check(): void {
  const page = readFileSync(PAGE, 'utf8')
  if (page === marked(page)) return
  process.stderr.write(
    'docs/proof.md has results older than what they cover: npm run proof -- --mark\n',
  )
  process.exitCode = 1
}

main().catch((error: unknown) => {
  process.stderr.write(`proof: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
})
