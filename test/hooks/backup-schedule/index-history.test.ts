import fc from 'fast-check'
import t from 'tap'
import type { BackupScheduleSpec } from '../../../crds/backup-schedule.ts'
import { retainedNames, type FinishedBackup } from '../../../hooks/backup-schedule/retention.ts'
import { parseCron } from '../../../hooks/backup-schedule/slots.ts'
import { ScheduleModel, type Step } from './model.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 100)
const CREATED = '2027-12-30T22:30:00Z'

const rule = fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined })
const specs = fc
  .record({
    schedule: fc.constantFrom('0 * * * *', '*/20 3-9 * * *', '0 3 * * *', '30 23 28-31 * *'),
    concurrencyPolicy: fc.constantFrom('Allow' as const, 'Forbid' as const, 'Replace' as const),
    keepLast: rule,
    keepDaily: rule,
    keepWeekly: rule,
    keepMonthly: rule,
  })
  .map(({ schedule, concurrencyPolicy, ...rules }): Partial<BackupScheduleSpec> => {
    const given = Object.entries(rules).filter(([, count]) => count !== undefined)
    return { schedule, concurrencyPolicy, retentionPolicy: Object.fromEntries(given) }
  })

const calm: Step = { do: 'pass', seconds: 0, isLate: false, isStatusLost: false, isRefused: false }

const HOUR = 3600
const later = (seconds: number, rest: object = {}): Step => ({ ...calm, ...rest, seconds })
const ended = (phase: 'Completed' | 'Failed'): Step => ({ do: 'end', which: 0, phase })
const daily = { schedule: '0 3 * * *', retentionPolicy: { keepLast: 1 } }

const stories: [
  title: string,
  spec: Partial<BackupScheduleSpec>,
  taken: Step[],
  made: string[],
  left: string[],
][] = [
  [
    'a backup that was deleted by hand after a lost status write is not recreated',
    { schedule: '0 * * * *' },
    [later(HOUR), later(0, { isStatusLost: true }), { do: 'delete', which: 0 }, calm, later(60)],
    ['20271230-230000'],
    [],
  ],
  [
    'the service restarts in the middle of a slot',
    { schedule: '0 * * * *' },
    [later(HOUR), { do: 'restart' }, calm, { do: 'restart' }, later(60)],
    ['20271230-230000'],
    ['20271230-230000'],
  ],
  [
    'a backup is refused: it is made at the next pass',
    { schedule: '0 * * * *' },
    [later(HOUR, { isRefused: true }), later(60)],
    ['20271230-230000'],
    ['20271230-230000'],
  ],
  [
    'the clock jumps ahead over a year end and back: no slot twice, then on from there',
    { schedule: '0 * * * *', concurrencyPolicy: 'Allow' },
    [later(30 * HOUR), calm, later(-29 * HOUR), calm, later(29 * HOUR), later(HOUR)],
    ['20280101-040000', '20280101-050000'],
    ['20280101-040000', '20280101-050000'],
  ],
  [
    'a week of failed backups never prunes the last good one (H1)',
    daily,
    [
      later(5 * HOUR),
      calm,
      ended('Completed'),
      ...Array.from({ length: 7 }, () => [later(24 * HOUR), calm, ended('Failed'), calm]).flat(),
    ],
    [31, 1, 2, 3, 4, 5, 6, 7].map((day) =>
      day === 31 ? '20271231-030000' : `2028010${day}-030000`,
    ),
    ['20271231-030000', '20280107-030000'],
  ],
]

for (const [title, spec, taken, made, left] of stories) {
  t.test(title, async (t) => {
    const model = await run(spec, taken)
    const short = (name: string) => name.replace('nightly-', '')
    t.strictSame(model.created.map(short), made)
    t.strictSame(
      model.backups.map(({ metadata }) => short(metadata.name)),
      left,
    )
    t.strictSame(model.violations, [])
  })
}

interface Weather {
  isLate?: boolean
  isStatusLost?: boolean
  isRefused?: boolean
  jumps?: boolean
}

function pass({ isLate, isStatusLost, isRefused, jumps }: Weather): fc.Arbitrary<Step> {
  const maybe = (allowed = false) =>
    allowed ? fc.constantFrom(true, false, false, false) : fc.constant(false)
  const ahead = fc.integer({ min: 0, max: 30 * 3600 })
  return fc.record({
    do: fc.constant('pass' as const),
    seconds:
      jumps === true
        ? fc.oneof(ahead, ahead, ahead, ahead, fc.integer({ min: -9 * 3600, max: 60 }))
        : ahead,
    isLate: maybe(isLate),
    isStatusLost: maybe(isStatusLost),
    isRefused: maybe(isRefused),
  })
}

const end: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('end' as const),
  which: fc.nat(9),
  phase: fc.constantFrom('Completed' as const, 'Failed' as const),
})
const remove: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('delete' as const),
  which: fc.nat(9),
})
const suspend: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('suspend' as const),
  suspend: fc.constantFrom(true, false, false),
})
const restart: fc.Arbitrary<Step> = fc.constant({ do: 'restart' })

function steps(...kinds: fc.Arbitrary<Step>[]): fc.Arbitrary<Step[]> {
  return fc.array(fc.oneof(...kinds), { minLength: 20, maxLength: 60, size: 'max' })
}

async function run(spec: Partial<BackupScheduleSpec>, taken: Step[]): Promise<ScheduleModel> {
  const model = new ScheduleModel(spec, CREATED)
  for (const step of taken) await model.apply(step)
  return model
}

const all: Weather = { isLate: true, isStatusLost: true, isRefused: true, jumps: true }
const written: Weather = { ...all, isStatusLost: false }
const histories: [title: string, taken: fc.Arbitrary<Step[]>][] = [
  ['whatever gets lost or comes late', steps(pass(all), pass(all), end, end, remove, suspend)],
  [
    'whenever the service restarts',
    steps(pass(written), pass(written), end, end, remove, suspend, restart),
  ],
]

for (const [title, taken] of histories) {
  t.test(`no two backups for one slot and never the last good one pruned, ${title}`, async (t) => {
    let made = 0
    await fc.assert(
      fc.asyncProperty(specs, taken, async (spec, steps) => {
        const model = await run(spec, steps)
        made += model.created.length
        const twice = model.created.filter((name, index) => model.created.indexOf(name) !== index)
        const problems = [...model.violations, ...twice.map((name) => `${name} was made twice`)]
        if (problems.length > 0) throw new Error(problems.join('; '))
      }),
      { numRuns: RUNS },
    )
    t.ok(made > RUNS, `${made} backups made`)
  })
}

t.test('no slot is lost: whatever failed, the latest one has its backup in the end', async () => {
  const taken = steps(pass({ isLate: true, isStatusLost: true, isRefused: true }), end, restart)
  await fc.assert(
    fc.asyncProperty(specs, taken, async (spec, steps) => {
      const model = await run({ ...spec, concurrencyPolicy: 'Allow' }, [...steps, calm, calm])
      const slots = parseCron(spec.schedule ?? '')
      const latest = slots.latestUntil(model.now)
      if (latest <= new Date(CREATED)) return model.created.length === 0
      const digits = latest.toISOString().slice(0, 16).replaceAll(/[-:]/g, '').replace('T', '-')
      return model.created.at(-1) === `nightly-${digits}00`
    }),
    { numRuns: RUNS },
  )
})

t.test(
  'for any history, policy and order of ticks, what is kept is what the rules keep of all',
  async () => {
    const taken = steps(
      pass({ isLate: true, isStatusLost: true, isRefused: true }),
      end,
      end,
      restart,
    )
    await fc.assert(
      fc.asyncProperty(specs, taken, async (spec, steps) => {
        const model = new ScheduleModel({ ...spec, concurrencyPolicy: 'Allow' }, CREATED)
        const ended = new Map<string, FinishedBackup>()
        for (const step of [...steps, calm, calm, calm]) {
          await model.apply(step)
          for (const { metadata, status } of model.backups) {
            const { name, creationTimestamp } = metadata
            if (status?.phase === 'Completed' || status?.phase === 'Failed') {
              ended.set(name, { name, slot: new Date(creationTimestamp), phase: status.phase })
            }
          }
        }
        const expected = retainedNames([...ended.values()], spec.retentionPolicy)
        const left = model.backups.filter(({ status }) => status?.phase !== 'InProgress')
        return (
          left.length === expected.size && left.every(({ metadata }) => expected.has(metadata.name))
        )
      }),
      { numRuns: RUNS },
    )
  },
)
