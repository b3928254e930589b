/**
 * `npm run test:mutation`: makes small changes in the pure files of hooks/ and crds/ and reports which of them
 * no test detects. It runs each file with the tests of its folder; a file that has not changed since its
 * stored score, and whose tests have not, is counted and not run again.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { PURE, ROOT, testsOf } from './files.ts'
import { digestOf, keep, stored } from './stored-scores.ts'
import {
  isComplete,
  scoredFrom,
  scoreOf,
  print,
  type Mutant,
  type Report,
  type Scored,
} from './score.ts'

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
  --changed REF    only those that differ from this commit
  --again          also files with a stored score
  --stored         run nothing, count the stored scores
  --json           a last line for programs
  --help           print this
Scores are stored in test/mutation/scores.jsonl. Run it alone, or with nice: each change of a line runs the
tests of its file once.
`

const FLAGS = {
  changed: { type: 'string' },
  again: { type: 'boolean', default: false },
  stored: { type: 'boolean', default: false },
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
  const files = chosen.filter((file) => changed?.includes(file) ?? true)
  const scores = files.flatMap((file) => {
    const known = values.again ? undefined : stored(file)
    const score = known ?? (values.stored ? undefined : tried(file))
    if (score !== undefined) print(score)
    return score ?? []
  })
  const all = scoreOf(scores)
  const count = `${scores.length} of ${files.length} files`
  process.stdout.write(
    `${count}: ${all.killed} of ${all.counted} noticed, ${all.explained} explained: ${all.percent} %\n`,
  )
  // A change that no test detects and no explanation covers fails the run.
  if (!isComplete(all) || scores.length < files.length) process.exitCode = 1
  if (values.json) process.stdout.write(`${JSON.stringify({ files: scores.length, ...all })}\n`)
}

/** A file whose tests fail without a change does not prevent the judgement of the others. */
function tried(file: string): Scored | undefined {
  try {
    return judged(file)
  } catch (error) {
    process.exitCode = 1
    process.stderr.write(`${String(error)}\n`)
    return undefined
  }
}

function judged(file: string): Scored {
  const of = digestOf(file)
  const score = scoredFrom(mutantsOf(file), { file, of })
  keep(score)
  return score
}

function changedSince(commit: string): string[] {
  const names = execFileSync('git', ['diff', '--name-only', commit], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return names.split('\n')
}

/** Runs Stryker on one file with the tests of that file. */
function mutantsOf(file: string): Mutant[] {
  const name = file.replaceAll('/', '-')
  const path = (extension: string) => join(FOLDER, `${name}.${extension}`)
  mkdirSync(FOLDER, { recursive: true })
  const config = {
    ...(JSON.parse(readFileSync(CONFIG, 'utf8')) as object),
    mutate: [file],
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
