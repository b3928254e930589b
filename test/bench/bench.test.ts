/** The command with recorded runs: what it says of them, and when it fails. Nothing is measured. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Baseline } from './results.ts'
import type { Figure } from './table.ts'

const BENCH = join(import.meta.dirname, 'bench.ts')
const BASELINE = JSON.parse(
  readFileSync(join(import.meta.dirname, 'baseline.json'), 'utf8'),
) as Baseline

/** A run whose ratios are those of the committed baseline, on a machine of another speed. */
function equalToBaseline(): [string, Figure][] {
  return Object.entries(BASELINE).flatMap(([part, { ratios }]) =>
    Object.entries(ratios).map(([what, ratio]): [string, Figure] => [
      `${part}: ${what}`,
      { what, unit: what.includes('answers') ? '/s' : 'ms', value: 7 * ratio, yardstick: 7 },
    ]),
  )
}

function bench(t: Test, figures: [string, Figure][], args: string[], unmeasured: string[] = []) {
  const met: [string, Figure] = [
    'clusters: RSS',
    { what: 'RSS', unit: 'MiB', value: 150, target: 190, met: true },
  ]
  const run = { measured: 'a day', figures: [...figures, met], unmeasured }
  const folder = t.testdir({ 'run.json': JSON.stringify(run), 'none.json': '{}' })
  const given = args.map((arg) => arg.replace('@', `${folder}/`))
  const command = [BENCH, '--recorded', join(folder, 'run.json'), ...given]
  const { status, stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' })
  return { status, stdout }
}

t.test('a run with the ratios of the committed baseline passes, at any speed', async (t) => {
  const figures = equalToBaseline()
  t.not(figures.length, 0)
  const { status, stdout } = bench(t, figures, ['--compare'])
  t.match(stdout, `compared ${figures.length} ratios: 0 worse by more than a tenth, 0 new, 0 gone`)
  t.equal(status, 0)
})

t.test('a comparison that compares nothing fails', async (t) => {
  const { status, stdout } = bench(t, equalToBaseline(), ['--compare', '--baseline', '@none.json'])
  t.match(stdout, 'compared 0 ratios')
  t.match(stdout, 'FAILED: nothing was compared')
  t.equal(status, 1)
})

t.test('a ratio that is worse, or gone, fails and is named', async (t) => {
  const [[key, figure] = ['', undefined], ...others] = equalToBaseline()
  if (figure === undefined) throw new Error('the baseline is empty')
  const half = { ...figure, value: figure.value / 2 }
  const worse = bench(t, [[key, half], ...others], ['--compare'])
  t.match(worse.stdout, `  worse: ${key}: `)
  t.equal(worse.status, 1)
  const gone = bench(t, others, ['--compare'])
  t.match(gone.stdout, `  gone: ${key}`)
  t.equal(gone.status, 1)
})

t.test('a missed target and a row that was not measured fail, and are named', async (t) => {
  const slow = { what: 'bytes', unit: 'MB/s', value: 60, target: 84, met: false }
  const missed = bench(t, [['backup: bytes', slow]], [])
  t.match(missed.stdout, 'targets: 1 of 2 met, 1 missed, 0 groups of rows not measured')
  t.match(missed.stdout, '  missed: backup: bytes: 60.00 MB/s, target >= 84')
  t.equal(missed.status, 1)
  const unmeasured = bench(t, [], [], ['backup: real (S3_BIN is not set)'])
  t.match(unmeasured.stdout, '  not measured: backup: real (S3_BIN is not set)')
  t.equal(unmeasured.status, 1)
  t.equal(bench(t, [], []).status, 0)
})

t.test('--save keeps the ratios of a recorded run, and its time and machine', async (t) => {
  const one: Figure = { what: 'p50', unit: 'ms', value: 3, yardstick: 2 }
  const { status, stdout } = bench(
    t,
    [['clusters: p50', one]],
    ['--baseline', '@none.json', '--save'],
  )
  t.equal(status, 0, stdout)
  const saved = readFileSync(join(t.testdirName, 'none.json'), 'utf8')
  t.strictSame(JSON.parse(saved), { clusters: { measured: 'a day', ratios: { p50: 1.5 } } })
})

t.test('the baseline has ratios only, each of a part that is measured', async (t) => {
  const { stdout } = spawnSync(process.execPath, [BENCH, '--help'], { encoding: 'utf8' })
  for (const [part, { measured, ratios }] of Object.entries(BASELINE)) {
    t.match(stdout, new RegExp(`^ +${part} `, 'm'))
    t.match(measured, /^\d{4}-\d\d-\d\d, commit [0-9a-f]{7,}/)
    for (const [row, ratio] of Object.entries(ratios)) {
      t.ok(ratio > 0 && ratio < 100, row)
      t.notMatch(row, /\bp99\b/)
    }
  }
})
