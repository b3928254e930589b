/**
 * `npm run test:mutation`: changes the pure files of hooks/ and crds/ in small ways and looks whether
 * their tests notice. File by file, each with the tests of its own room; what was judged before and has
 * not changed since is not run again.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { PURE, testsOf } from './files.ts'
import { scoreOf, tell, type Report, type Scored } from './score.ts'

const ROOT = new URL('../..', import.meta.url).pathname
const FOLDER = join(ROOT, 'dist', 'mutation')
const CONFIG = join(ROOT, '.ci', 'stryker.config.json')
/** Properties are tried so often: as many cases as one change in a line needs. */
const FUZZ_RUNS = '25'

const USAGE = `Usage: npm run test:mutation -- [options] [files]
  files            default: all pure files of hooks/ and crds/
  --changed REF    only those that differ from this commit
  --json           a last line for programs
  --help           print this
Run it alone, or with nice: each change of a line runs the tests of its file once.
`

const FLAGS = {
  changed: { type: 'string' },
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
  const scores = files.map((file) => {
    const score = scored(file)
    tell(score)
    return score
  })
  const all = scoreOf(scores)
  process.stdout.write(
    `${files.length} files: ${all.killed} of ${all.counted} noticed, ${all.explained} explained: ${all.percent} %\n`,
  )
  if (values.json) process.stdout.write(`${JSON.stringify({ files: files.length, ...all })}\n`)
}

function changedSince(commit: string): string[] {
  const names = execFileSync('git', ['diff', '--name-only', commit], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return names.split('\n')
}

/** Stryker over one file, with nothing but its own tests. */
function scored(file: string): Scored {
  const name = file.replaceAll('/', '-')
  const place = (ending: string) => join(FOLDER, `${name}.${ending}`)
  mkdirSync(FOLDER, { recursive: true })
  const config = {
    ...(JSON.parse(readFileSync(CONFIG, 'utf8')) as object),
    mutate: [file],
    tap: { testFiles: testsOf(file), forceBail: true },
    incrementalFile: place('incremental.json'),
    jsonReporter: { fileName: place('report.json') },
  }
  writeFileSync(place('config.json'), JSON.stringify(config))
  const stryker = join(ROOT, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
  const { status, stdout } = spawnSync(process.execPath, [stryker, 'run', place('config.json')], {
    cwd: ROOT,
    encoding: 'utf8',
    // The runner starts `node` by its name: the one of this project, not that of the machine.
    env: {
      ...process.env,
      FUZZ_RUNS,
      PATH: `${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}`,
    },
  })
  if (status !== 0 || !existsSync(place('report.json'))) throw new Error(`${file}: ${stdout}`)
  const report = JSON.parse(readFileSync(place('report.json'), 'utf8')) as Report
  return { file, mutants: report.files[file]?.mutants ?? [] }
}

main()
