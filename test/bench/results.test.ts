import t from 'tap'
import { matchWhole } from '../match-whole.ts'
import { compareRatios, judgeTargets, measurePart, withRatios, type Measured } from './results.ts'
import type { Figure } from './table.ts'

const rate = (what: string, value: number, yardstick: number): Figure => ({
  ...{ what, unit: '/s', value, yardstick },
})
const time = (what: string, value: number, yardstick: number): Figure => ({
  ...{ what, unit: 'ms', value, yardstick },
})
const measured = (...rows: Figure[]): Measured => ({
  figures: new Map(rows.map((row) => [`part: ${row.what}`, row])),
  unmeasured: [],
})

t.test('a missed target fails the run and is counted and named', async (t) => {
  const met = { what: 'RSS', unit: 'MiB', value: 150, target: 190, met: true }
  const missed = { what: 'bytes', unit: 'MB/s', value: 69.58, target: 84, met: false }
  t.strictSame(judgeTargets(measured(met, time('p50', 1, 1))), {
    holds: true,
    lines: ['targets: 1 of 1 met, 0 missed, 0 groups of rows not measured'],
  })
  t.strictSame(judgeTargets(measured(met, missed)), {
    holds: false,
    lines: [
      'targets: 1 of 2 met, 1 missed, 0 groups of rows not measured',
      '  missed: part: bytes: 69.58 MB/s, target >= 84',
    ],
  })
  t.equal(judgeTargets(measured({ ...met, met: undefined } as unknown as Figure)).holds, false)
  t.equal(judgeTargets(measured()).holds, false, 'nothing was measured')
})

t.test('a row that could not be measured fails the run and is counted and named', async (t) => {
  const row = rate('points', 2, 1)
  const part = {
    name: 'migration',
    needs: [{ variable: 'TOOL', rows: 'ratios to the tool' }],
    expected: [],
    measure: async () => [row],
  }
  const complete = await measurePart(part, { TOOL: '/bin/tool' })
  t.strictSame(complete, {
    rows: [row],
    figures: new Map([['migration: points', row]]),
    unmeasured: [],
  })
  const without = await measurePart(part, {})
  t.strictSame(without.unmeasured, ['migration: ratios to the tool (TOOL is not set)'])
  matchWhole(t, judgeTargets(without), {
    holds: false,
    lines: [/1 groups of rows not measured/, /not measured: migration: ratios to the tool/],
  })
  const failed = await measurePart(
    { ...part, measure: () => Promise.reject(new Error('no disk')) },
    { TOOL: '/bin/tool' },
  )
  t.strictSame(failed.unmeasured, ['migration: every row (no disk)'])
  const nothing = await measurePart(
    { ...part, measure: async () => [rate('points', NaN, 1)] },
    { TOOL: '/bin/tool' },
  )
  t.strictSame(nothing.unmeasured, ['migration: points (not a number)'])
})

t.test('a row that must have a target, and is missing or has none, is named', async (t) => {
  const rows: Figure[] = [
    { ...rate('points', 2, 1), target: 1, met: true },
    { ...rate('bytes', 2, 1) },
  ]
  const part = {
    ...{ name: 'migration', expected: ['points', 'bytes', 'RSS'] },
    measure: async () => rows,
  }
  const { unmeasured } = await measurePart(part, {})
  t.strictSame(unmeasured, [
    'migration: bytes (no row with a target)',
    'migration: RSS (no row with a target)',
  ])
  const needs = [{ variable: 'TOOL', rows: 'ratios to the tool' }]
  const without = await measurePart({ ...part, needs }, {})
  t.strictSame(without.unmeasured, ['migration: ratios to the tool (TOOL is not set)'])
})

t.test('a comparison says how many ratios it compared, and fails on none', async (t) => {
  const { figures } = measured(rate('answers', 900, 1000), time('p50', 20, 10))
  const baseline = withRatios({}, figures, ['part'], 'a day, a commit, a machine')
  t.strictSame(baseline, {
    part: { measured: 'a day, a commit, a machine', ratios: { answers: 0.9, p50: 2 } },
  })
  t.strictSame(compareRatios(figures, ['part'], baseline), {
    holds: true,
    lines: [
      'compared 2 ratios: 0 worse by more than a tenth, 0 new, 0 gone',
      '  part: with a day, a commit, a machine',
    ],
  })
  t.strictSame(compareRatios(figures, ['part'], {}), {
    holds: false,
    lines: [
      'compared 0 ratios: 0 worse by more than a tenth, 2 new, 0 gone',
      '  FAILED: nothing was compared',
    ],
  })
  // The machine is half as fast, and so is the yardstick.
  const slower = measured(rate('answers', 450, 500), time('p50', 40, 20)).figures
  t.equal(compareRatios(slower, ['part'], baseline).holds, true)
})

t.test('a ratio that is worse by more than a tenth, or gone, fails the comparison', async (t) => {
  const before = measured(rate('answers', 1000, 1000), time('p50', 10, 10)).figures
  const baseline = withRatios({}, before, ['part'], 'before')
  const after = measured(rate('answers', 880, 1000), time('p50', 10.9, 10)).figures
  matchWhole(t, compareRatios(after, ['part'], baseline), {
    holds: false,
    lines: [/1 worse/, /before/, '  worse: part: answers: 1.00 -> 0.88, by 12 %'],
  })
  const longer = measured(rate('answers', 1200, 1000), time('p50', 11.2, 10)).figures
  matchWhole(t, compareRatios(longer, ['part'], baseline), {
    holds: false,
    lines: [/1 worse/, /before/, '  worse: part: p50: 1.00 -> 1.12, by 12 %'],
  })
  const renamed = measured(rate('answers per second', 1000, 1000), time('p50', 10, 10)).figures
  matchWhole(t, compareRatios(renamed, ['part'], baseline), {
    holds: false,
    lines: [
      'compared 1 ratios: 0 worse by more than a tenth, 1 new, 1 gone',
      /before/,
      /gone: part: answers/,
    ],
  })
  t.match(
    compareRatios(before, ['other'], { ...baseline, other: { measured: 'then', ratios: {} } }),
    { holds: false },
    'figures of parts that did not run are not compared',
  )
})
