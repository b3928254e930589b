/**
 * `npm run test:mutation`: makes small changes in the pure files of hooks/ and crds/ and reports which of them
 * no test detects. It runs each file with the tests of its folder; a file that has not changed since its
 * stored score, and whose tests have not, is counted and not run again. It ends with 1 for a survivor without an
 * explanation, and for an explanation that has expired.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { changedLines, expired, explainedRanges } from './explained.ts'
import { directTestsOf, linesOf, PRODUCT, PURE, ROOT, testsOf } from './files.ts'
import { gate } from './gate.ts'
import { digestOf, isConcerned, keep, stored } from './stored-scores.ts'
import { scoredFrom, print, type Mutant, type Report, type Scored } from './score.ts'

const FOLDER = join(ROOT, 'dist', 'mutation')
const CONFIG = join(ROOT, '.ci', 'stryker.config.json')
/** Cases per property: enough to detect a change in one line. */
const FUZZ_RUNS = '25'
/**
 * Time limit for a change that never ends and runs nothing of the changed file (the runner detects the
 * others). It is by the clock, and longer than any pause of this process.
 */
const LAST_RESORT_MINUTES = 30

const USAGE = `Usage: npm run test:mutation -- [options] [files]
  files            default: all pure files of hooks/ and crds/
  --changed REF    only those that differ from this commit, or of which a test does that imports them
  --tests          with --changed, also those of which another test or a helper of a test differs: many, it takes hours
  --again          also files with a stored score
  --stored         run nothing, count the stored scores
  --explained      only the lines that test/mutation/explanations.ts quotes; stores no score
  --json           a last line for programs
  --help           print this
Scores are stored in test/mutation/scores.jsonl. Run it alone, or with nice: each change of a line runs the
tests of its file once.
`

const FLAGS = {
  changed: { type: 'string' },
  tests: { type: 'boolean', default: false },
  again: { type: 'boolean', default: false },
  stored: { type: 'boolean', default: false },
  explained: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

function main(): void {
  const { values, positionals } = parseArgs({
    options: FLAGS,
    allowPositionals: true,
    strict: true,
  })
  if (values.help) {
    process.stdout.write(USAGE)
    return
  }
  const unknown = positionals.find((file) => !PURE.includes(file))
  if (unknown !== undefined) throw new Error(`${unknown} is none of the pure files`)
  const chosen = positionals.length > 0 ? positionals : PURE
  const changed = values.changed === undefined ? undefined : changedSince(values.changed)
  const isDirect = (file: string) =>
    changed === undefined || [file, ...directTestsOf(file)].some(isIn(changed))
  const others = chosen.filter((file) => !isDirect(file) && isConcerned(file, changed ?? []))
  const files = chosen
    .filter((file) => isDirect(file) || (values.tests && others.includes(file)))
    .filter((file) => !values.explained || explainedRanges(file).length > 0)
  const scores = files.flatMap((file) => {
    const known = values.again || values.explained ? undefined : stored(file)
    const score = known ?? (values.stored ? undefined : tried(file, values.explained))
    if (score !== undefined) print(score)
    return score ?? []
  })
  const { passes, lines, score } = gate(scores, {
    changed: changedLines(),
    expired: scores.flatMap((one) => expired(one)),
    scope: { files: files.length, lines: linesOf(scores.map(({ file }) => file)), ...PRODUCT },
  })
  process.stdout.write(`${lines.join('\n')}\n`)
  if (others.length > 0 && !values.tests) {
    process.stdout.write(
      `${others.length} more files, whose other tests or helpers differ, were not judged: --tests judges them\n`,
    )
  }
  if (!passes) process.exitCode = 1
  if (values.json) process.stdout.write(`${JSON.stringify({ files: scores.length, ...score })}\n`)
}

/** A file whose tests fail without a change does not prevent the judgement of the others. */
function tried(file: string, isPartial: boolean): Scored | undefined {
  try {
    return isPartial ? judgedLines(file) : judged(file)
  } catch (error) {
    process.exitCode = 1
    process.stderr.write(`${String(error)}\n`)
    return undefined
  }
}

function judged(file: string): Scored {
  const of = digestOf(file)
  const score = scoredFrom(mutantsOf(file, [file]), { file, of })
  keep(score)
  return score
}

/** Only changes on lines with an explanation: whether it still holds. */
function judgedLines(file: string): Scored {
  return scoredFrom(mutantsOf(file, explainedRanges(file)), { file, of: '' })
}

function isIn(paths: readonly string[]): (path: string) => boolean {
  return (path) => paths.includes(path)
}

function changedSince(commit: string): string[] {
  const names = execFileSync('git', ['diff', '--name-only', commit], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return names.split('\n')
}

/** Runs Stryker on these ranges of one file with the tests of that file. */
function mutantsOf(file: string, ranges: string[]): Mutant[] {
  const name = file.replaceAll('/', '-')
  const path = (extension: string) => join(FOLDER, `${name}.${extension}`)
  mkdirSync(FOLDER, { recursive: true })
  const config = {
    ...(JSON.parse(readFileSync(CONFIG, 'utf8')) as object),
    mutate: ranges,
    timeoutMS: LAST_RESORT_MINUTES * 60_000,
    dryRunTimeoutMinutes: LAST_RESORT_MINUTES,
    tempDirName: path('tmp'),
    inProcess: { testFiles: testsOf(file), changed: file },
    jsonReporter: { fileName: path('report.json') },
  }
  writeFileSync(path('config.json'), JSON.stringify(config))
  const stryker = join(ROOT, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
  const { status, stdout } = spawnSync(process.execPath, [stryker, 'run', path('config.json')], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      ...process.env,
      FUZZ_RUNS,
      PATH: `${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}`,
    },
  })
  if (status !== 0 || !existsSync(path('report.json'))) throw new Error(`${file}: ${stdout}`)
  const report = JSON.parse(readFileSync(path('report.json'), 'utf8')) as Report
  return report.files[file]?.mutants ?? []
}

main()
