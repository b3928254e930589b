/**
 * `npm run test:mutation:sample`: draws mutants of whole folders at random and looks whether any test that
 * comes past them fails. For what the in-process runner cannot judge: code that reaches out.
 */
import { createHash, randomInt } from 'node:crypto'
import { globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { Dice } from '../../faults/machine/dice.ts'
import { recordRun } from '../../proof/record.ts'
import { explained } from '../explained.ts'
import { linesOf, ROOT } from '../files.ts'
import { importsOf, reachedBy } from '../imports.ts'
import { Baselines } from './baselines.ts'
import { gate } from './gate.ts'
import { instrumentedCopy, type Mutant } from './instrument.ts'
import { Judge, type TestFile, type Outcome } from './judge.ts'
import { digestOfAll, readUnfinished, writeUnfinished } from './unfinished.ts'
import type { Judges, Judged } from './unfinished.ts'
import { Workers } from './workers.ts'

/** All of them are instrumented each time: then what a test comes past can be remembered. */
const FOLDERS = 'jobs/{backup,restore,migration,clients}/**/*.ts'

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
    /** Only tests in the folder of the mutant's file judge it; the score can only be lower so. */
    own: { type: 'boolean', default: false },
    /** How long the tests of other folders may take for a mutant, without a change; the score can only be lower so. */
    seconds: { type: 'string', default: '60' },
    /** Each mutant gets a separate process for each test file. */
    separate: { type: 'boolean', default: false },
    /** Judges what a run that was stopped has left, with the same other options. */
    continue: { type: 'boolean', default: false },
  },
})

recordRun('sample')
const print = (line: string) => process.stdout.write(`${line}\n`)
const started = Date.now()
let judged = 0
const files = values.in
  .split(',')
  .flatMap((path) => (path.endsWith('.ts') ? [path] : globSync(`${path}/**/*.ts`, { cwd: ROOT })))
  .toSorted()
const options = createHash('sha256').update(`${values.in} ${values.size}`).digest('hex').slice(0, 8)
const unfinishedFile = join(ROOT, `dist/mutation/unfinished-${options}.json`)
const before = values.continue ? readUnfinished(unfinishedFile, ROOT) : undefined
const of = before?.of ?? digestOfAll(ROOT)
const seed = Number(before?.seed ?? values.seed ?? randomInt(1, 2 ** 31))
const all = [...new Set([...files, ...globSync(FOLDERS, { cwd: ROOT })])].toSorted()
mkdirSync(join(ROOT, 'dist/mutation'), { recursive: true })
const folder = mkdtempSync(join(ROOT, 'dist/mutation/sample-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const copy = await instrumentedCopy(ROOT, folder, all)
const mutants = copy.mutants.filter(({ file }) => files.includes(file))
const size = Math.min(Number(values.size), mutants.length)
const scope = { files: files.length, lines: linesOf(files), mutants: mutants.length }
print(
  `${scope.files} files of ${scope.lines} lines, ${scope.mutants} mutants outside log lines; ` +
    `${size} of them, seed ${seed}`,
)
// Those of one file one after the other: they are judged with the same tests.
const drawn = sample(mutants, size, new Dice(seed)).toSorted((one, other) =>
  one.file < other.file ? -1 : Number(one.file > other.file),
)
const baselines = new Baselines(ROOT, copy, join(ROOT, 'dist/mutation/baselines'))
const judge = new Judge(copy.folder)
const reaching = testsReaching(drawn)
const verdicts = new Map<Mutant, Judged>()
for (const mutant of drawn) {
  const found = before?.verdicts[mutant.key]
  if (found !== undefined) verdicts.set(mutant, found)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    finish(false)
    process.exit(1)
  })
}

await judgeAll(
  drawn.filter((mutant) => !verdicts.has(mutant)),
  'own',
)
// The tests of other folders are asked only for what those of its own leave.
const left = drawn.filter((mutant) => {
  const found = verdicts.get(mutant)
  return found?.judges === 'own' && isSurvivor(found)
})
if (!values.own) await judgeAll(left, 'others')

finish(!isOver())

/** Of what has been judged: a run that is stopped says how far it came, and fails. */
function finish(isComplete: boolean): void {
  saveVerdicts(isComplete)
  const survivors = drawn.filter((mutant) => isSurvivor(verdicts.get(mutant)))
  const explanations = survivors.map((mutant) => explanationOf(mutant))
  for (const [index, mutant] of survivors.entries()) {
    print(describe(mutant, verdicts.get(mutant)?.outcome.is ?? '', explanations[index]))
  }
  const expired = drawn.filter(
    (mutant) =>
      verdicts.get(mutant)?.outcome.is === 'killed' && explanationOf(mutant) !== undefined,
  )
  for (const mutant of expired) {
    print(describe(mutant, 'killed although explained', explanationOf(mutant)))
  }
  const { passes, says } = gate({
    outcomes: [...verdicts.values()].map(({ outcome }) => outcome.is),
    explained: explanations.filter((why) => why !== undefined).length,
    expired: expired.length,
    ...{ drawn: size, scope, least: Number(values.least) },
  })
  print(`${says}; seed ${seed}, ${seconds()} s`)
  process.exitCode = passes ? 0 : 1
}

/** With those tests that reach its file, may judge it, and pass as they are. */
async function judgeAll(chosen: readonly Mutant[], judges: Judges): Promise<void> {
  if (isOver()) return
  const began = Date.now()
  const testsOf = (mutant: Mutant) =>
    [...(reaching.get(mutant.file) ?? [])].filter(
      (test) => isOwnTest(mutant, test) === (judges === 'own'),
    )
  const needed = [...new Set(chosen.flatMap(testsOf))].toSorted()
  const known = new Map<string, TestFile | undefined>()
  const importing = new Map(needed.map((test) => [test, new Set(importsOf(test, ROOT))]))
  await inParallel(needed, async (test) => {
    const found = await baselines.of(test)
    known.set(test, found)
    if (found === undefined) print(`${test} fails without a change: it judges nothing`)
  })
  print(
    `${chosen.length} mutants, ${needed.length} test files in ${Math.round((Date.now() - began) / 1000)} s`,
  )
  const pools = Array.from({ length: Number(values.workers) }, () => new Workers(copy.folder))
  await inParallel(chosen, async (mutant, index) => {
    if (isOver()) return
    const tests = testsOf(mutant)
    const workers = values.separate ? undefined : pools[index]
    const outcome = await judge.judge(
      mutant,
      tests.flatMap((test) => known.get(test) ?? []),
      {
        ...(workers !== undefined && { workers }),
        first: new Set(tests.filter((test) => importing.get(test)?.has(mutant.file))),
        ...(judges === 'others' && { budgetMs: 1000 * Number(values.seconds) }),
      },
    )
    if (outcome === undefined) {
      print(`not judged, its tests were ended from outside: ${mutant.file}:${mutant.line}`)
      return
    }
    if (!isKill(outcome) && judges === 'own') {
      print(`own tests: ${describe(mutant, outcome.is, explanationOf(mutant))}`)
    }
    const former = verdicts.get(mutant)?.outcome
    const isSame = former?.is === 'survived' && !isKill(outcome)
    verdicts.set(mutant, { outcome: isSame ? former : outcome, judges })
    judged += 1
    if (judged % 20 !== 0) return
    saveVerdicts(false)
    print(`${verdicts.size} of ${size} judged, ${seconds()} s`)
  })
  for (const workers of pools) workers.end()
}

/** By source file: the test files that load it. */
function testsReaching(chosen: readonly Mutant[]): Map<string, Set<string>> {
  const tests = globSync('test/{jobs,hooks,crds,metacontroller}/**/*.test.ts', { cwd: ROOT })
  const sources = [...new Set(chosen.map(({ file }) => file))]
  return new Map(
    sources.map((file) => {
      const reached = reachedBy(file, tests, ROOT)
      return [file, new Set(tests.filter((test) => reached.has(test)))]
    }),
  )
}

function isOwnTest({ file }: Mutant, test: string): boolean {
  return test.startsWith(`test/${dirname(file).split('/').slice(0, 2).join('/')}/`)
}

function isKill({ is }: Outcome): boolean {
  return is === 'killed' || is === 'timeout'
}

function isSurvivor(found: Judged | undefined): boolean {
  return found !== undefined && !isKill(found.outcome)
}

function saveVerdicts(isComplete: boolean): void {
  const entries = [...verdicts].map(([{ key }, found]) => [key, found] as const)
  const unfinished = { of, seed, seconds: seconds(), verdicts: Object.fromEntries(entries) }
  writeUnfinished(unfinishedFile, unfinished, isComplete)
}

function explanationOf({ file, mutator, replacement, location }: Mutant): string | undefined {
  return explained(file, { mutatorName: mutator, replacement, status: 'Survived', location })
}

async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item, worker: number) => Promise<void>,
): Promise<void> {
  const waiting = items.values()
  const worker = async (index: number) => {
    for (const item of waiting) await work(item, index)
  }
  await Promise.all(Array.from({ length: Number(values.workers) }, (_, index) => worker(index)))
}

/** Without repetition. */
function sample(from: readonly Mutant[], count: number, dice: Dice): Mutant[] {
  const rest = [...from]
  return Array.from({ length: count }, () => {
    const [one] = rest.splice(dice.between(0, rest.length - 1), 1)
    if (one === undefined) throw new Error('fewer mutants than are to be drawn')
    return one
  })
}

function describe(mutant: Mutant, is: string, why: string | undefined): string {
  const { file, line, mutator, original, replacement } = mutant
  const short = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, 80)
  const change = `${file}:${line} ${mutator}: ${short(original)} -> ${short(replacement)}`
  return `${is}: ${change}${why === undefined ? '' : ` (${why})`}`
}

function isOver(): boolean {
  return Date.now() - started > Number(values.minutes) * 60_000
}

/** With those of the runs before that it continues. */
function seconds(): number {
  return (before?.seconds ?? 0) + Math.round((Date.now() - started) / 1000)
}
