/**
 * `npm run test:mutation:sample`: draws mutants of whole folders at random and looks whether any test that
 * comes past them fails. For what the in-process runner cannot judge: code that reaches out.
 */
import { globSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Dice } from '../../faults/machine/dice.ts'
import { ROOT } from '../files.ts'
import { reachedBy } from '../imports.ts'
import { instrumentedCopy, type Mutant } from './instrument.ts'
import { baseline, judge, type TestFile, type Outcome } from './judge.ts'

const { values } = parseArgs({
  options: {
    /** Folders or files, by comma. */
    in: { type: 'string', default: 'jobs/backup,jobs/restore,jobs/migration,jobs/clients' },
    size: { type: 'string', default: '300' },
    /** Default: random. */
    seed: { type: 'string' },
    /** Percent that must be killed. */
    least: { type: 'string', default: '85' },
    workers: { type: 'string', default: '2' },
    /** No further mutant is begun after so long. */
    minutes: { type: 'string', default: 'Infinity' },
  },
})

const print = (line: string) => process.stdout.write(`${line}\n`)
const started = Date.now()
const files = values.in
  .split(',')
  .flatMap((path) => (path.endsWith('.ts') ? [path] : globSync(`${path}/**/*.ts`, { cwd: ROOT })))
  .toSorted()
const seed = Number(values.seed ?? randomInt(1, 2 ** 31))
const { folder, mutants } = await instrumentedCopy(ROOT, join(ROOT, 'dist/mutation/sample'), files)
const size = Math.min(Number(values.size), mutants.length)
print(
  `${files.length} files, ${mutants.length} mutants outside log lines; ${size} of them, seed ${seed}`,
)
const drawn = sample(mutants, size, new Dice(seed))
const tests = await baselines()
const verdicts = new Map<Mutant, Outcome>()
await inParallel(drawn, async (mutant) => {
  if (Date.now() - started > Number(values.minutes) * 60_000) return
  const outcome = await judge(folder, mutant, tests)
  verdicts.set(mutant, outcome)
  if (outcome.is === 'survived' || outcome.is === 'not covered') print(describe(mutant, outcome))
})
process.exitCode = summary() ? 0 : 1

/** Those tests that reach one of the files and pass as they are. */
async function baselines(): Promise<TestFile[]> {
  const all = globSync('test/{jobs,hooks,crds,metacontroller}/**/*.test.ts', { cwd: ROOT })
  const drawnFiles = [...new Set(drawn.map(({ file }) => file))]
  const reaching = new Set(drawnFiles.flatMap((file) => [...reachedBy(file, all, ROOT)]))
  const found: TestFile[] = []
  await inParallel(
    all.filter((file) => reaching.has(file)),
    async (file) => {
      const test = await baseline(folder, file)
      if (test === undefined) print(`${file} fails without a change: it judges nothing`)
      else found.push(test)
    },
  )
  print(`${found.length} test files, ${seconds()} s`)
  return found
}

async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = items.values()
  const worker = async () => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: Number(values.workers) }, worker))
}

/** Without repetition. */
function sample(all: readonly Mutant[], count: number, dice: Dice): Mutant[] {
  const left = [...all]
  return Array.from({ length: count }, () => {
    const [one] = left.splice(dice.between(0, left.length - 1), 1)
    if (one === undefined) throw new Error('fewer mutants than are to be drawn')
    return one
  })
}

function describe({ file, line, mutator, original, replacement }: Mutant, { is }: Outcome): string {
  const short = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, 80)
  return `${is}: ${file}:${line} ${mutator}: ${short(original)} -> ${short(replacement)}`
}

function summary(): boolean {
  const count = (is: Outcome['is']) => [...verdicts.values()].filter((one) => one.is === is).length
  const killed = count('killed') + count('timeout')
  const percent = verdicts.size === 0 ? 0 : (100 * killed) / verdicts.size
  print(
    `${verdicts.size} of ${mutants.length} mutants in ${files.length} files judged: ${killed} killed ` +
      `(${count('timeout')} by time-out), ${count('survived')} survived, ${count('not covered')} not covered: ` +
      `${percent.toFixed(1)} %, at least ${values.least} % are required; seed ${seed}, ${seconds()} s`,
  )
  return percent >= Number(values.least) && verdicts.size === size
}

function seconds(): number {
  return Math.round((Date.now() - started) / 1000)
}
