/** `npm run test:fuzz`: many cases of each subject from one seed; what fails is printed as a line for the corpus. */
import { chosenOf, givenFlags } from '../command-line.ts'
import { lineOf } from './corpus.ts'
import { fuzz, newSeed, type Fuzzed } from './run.ts'
import { SUBJECTS } from './subjects.ts'

const USAGE = `Usage: npm run test:fuzz -- [options]
  --count N     cases of each subject (100000)
  --world N     cases of each subject through a whole world (500)
  --seed N      repeats a run; a run prints its own
  --only NAME   only this subject; repeatable:
${SUBJECTS.map(({ name, title }) => `                  ${name.padEnd(10)} ${title}`).join('\n')}
  --json        a last line for programs
  --help        print this
A failure is made small and printed as a line for test/fuzz/corpus.jsonl, which every run of the tests
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
  const all: Record<string, Fuzzed> = {}
  for (const subject of subjects) {
    const note = (name: string, fuzzed: Fuzzed) => {
      all[name] = fuzzed
      tell(name, fuzzed)
    }
    note(subject.name, await fuzz(subject, { seed, count: Number(values.count) }))
    const { name, inWorld } = subject
    if (inWorld === undefined || Number(values.world) === 0) continue
    note(
      `${name} in a world`,
      await fuzz(subject, { seed, count: Number(values.world), open: inWorld }),
    )
  }
  const failed = Object.values(all).filter(({ failure }) => failure !== undefined).length
  if (values.json) process.stdout.write(`${JSON.stringify({ seed, failed, subjects: all })}\n`)
  process.exitCode = failed === 0 ? 0 : 1
}

function tell(name: string, { cases, kinds, seconds, failure }: Fuzzed): void {
  process.stdout.write(`${name.padEnd(10)} ${cases} cases in ${Math.round(seconds)} s\n`)
  for (const [kind, count] of Object.entries(kinds).toSorted()) {
    process.stdout.write(`  ${String(count).padStart(8)} ${kind}\n`)
  }
  if (failure === undefined) return
  const line = lineOf({ subject: name, why: '', case: failure.case })
  process.stdout.write(`FAILED: ${failure.why}\n${line}\n`)
}

main().then(
  // What a case left open, such as a timer, holds nobody up.
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`fuzz: ${error instanceof Error ? error.message : 'failed'}\n`)
    process.exit(1)
  },
)
