/** `npm run test:fuzz`: many cases of each subject from one seed, side by side; what fails is printed as a line for the corpus. */
import { chosenOf, givenFlags } from '../command-line.ts'
import { lineOf } from './corpus.ts'
import { newSeed, type Fuzzed } from './run.ts'
import { fuzzAll, type Part } from './side-by-side.ts'
import type { Subject } from './subject.ts'
import { SUBJECTS } from './subjects.ts'

const USAGE = `Usage: npm run test:fuzz -- [options]
  --count N     cases of each subject (100000)
  --world N     cases of each subject through a whole world (500)
  --seed N      repeats a run; a run prints its own
  --only NAME   only this subject; repeatable:
${SUBJECTS.map(({ name, title }) => `                  ${name.padEnd(10)} ${title}`).join('\n')}
  --json        a last line for programs
  --help        print this
A run that gets a SIGUSR2 ends with what it has come to. A failure is made small and printed as a line for test/fuzz/corpus.jsonl, which every run of the tests
plays again.
`

const FLAGS = {
  count: { type: 'string', default: '100000' },
  world: { type: 'string', default: '500' },
  seed: { type: 'string' },
  only: { type: 'string', multiple: true, default: SUBJECTS.map(({ name }) => name) },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const values = givenFlags(USAGE, FLAGS)
  if (values === undefined) return
  const subjects = chosenOf('subject', SUBJECTS, values.only)
  const seed = Number(values.seed ?? newSeed())
  process.stdout.write(`seed ${seed}\n`)
  const parts = [
    // Worlds take longest.
    ...partsOf(subjects, { isWorld: true, seed, count: Number(values.world) }),
    ...partsOf(subjects, { isWorld: false, seed, count: Number(values.count) }),
  ]
  const ended = await fuzzAll(parts, print, { enough: abortOn('SIGUSR2') })
  const failed = ended.filter(({ failures }) => failures.length > 0).length
  if (values.json) {
    const all = Object.fromEntries(parts.map((part, index) => [nameOf(part), ended[index]]))
    process.stdout.write(`${JSON.stringify({ seed, failed, subjects: all })}\n`)
  }
  process.exitCode = failed === 0 ? 0 : 1
}

function partsOf(subjects: Subject<never>[], { count, ...part }: Omit<Part, 'subject'>): Part[] {
  if (count === 0) return []
  return subjects
    .filter(({ inWorld }) => !part.isWorld || inWorld !== undefined)
    .map(({ name, cost = 1 }) => ({
      ...{ subject: name, ...part },
      count: part.isWorld ? count : Math.ceil(count / cost),
    }))
}

function nameOf({ subject, isWorld }: Part): string {
  return isWorld ? `${subject} in a world` : subject
}

function print(part: Part, { cases, kinds, seconds, failures }: Fuzzed): void {
  process.stdout.write(
    `${nameOf(part).padEnd(10)} ${cases} cases in ${Math.round(seconds)} CPU s\n`,
  )
  for (const [kind, count] of Object.entries(kinds).toSorted()) {
    process.stdout.write(`  ${String(count).padStart(8)} ${kind}\n`)
  }
  for (const { case: one, why } of failures) {
    const line = lineOf({ subject: part.subject, why: '', case: one })
    process.stdout.write(`FAILED: ${why}\n${line}\n`)
  }
}

/** Aborted once the signal comes. */
function abortOn(signal: NodeJS.Signals): AbortSignal {
  const end = new AbortController()
  process.once(signal, () => end.abort())
  return end.signal
}

main().catch((error: unknown) => {
  process.stderr.write(`fuzz: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
})
