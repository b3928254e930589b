import fc from 'fast-check'
import t from 'tap'
import { Rejected } from '../../../crds/contract/errors.ts'
import { slotOf } from '../../../hooks/backup-schedule/backups.ts'
import { isPastDeadline, dueSlot, parseCron } from '../../../hooks/backup-schedule/slots.ts'
import { backup } from './stage.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 300)

const firing: [title: string, cron: string, from: string, slots: string[]][] = [
  [
    'a leap day',
    '0 3 29 2 *',
    '2026-01-01T00:00:00Z',
    ['2028-02-29T03:00:00Z', '2032-02-29T03:00:00Z'],
  ],
  ['a century without a leap day', '0 0 29 2 *', '2096-03-01T00:00:00Z', ['2104-02-29T00:00:00Z']],
  [
    'month ends',
    '0 0 31 * *',
    '2026-01-31T00:00:00Z',
    ['2026-03-31T00:00:00Z', '2026-05-31T00:00:00Z'],
  ],
  [
    'the end of a year',
    '59 23 31 12 *',
    '2026-12-31T23:58:30Z',
    ['2026-12-31T23:59:00Z', '2027-12-31T23:59:00Z'],
  ],
  [
    'New Year',
    '*/30 * * * *',
    '2026-12-31T23:31:00Z',
    ['2027-01-01T00:00:00Z', '2027-01-01T00:30:00Z'],
  ],
  [
    'the hour that summer time skips or repeats elsewhere',
    '30 2 * * *',
    '2026-03-28T12:00:00Z',
    ['2026-03-29T02:30:00Z', '2026-03-30T02:30:00Z'],
  ],
  [
    'a day of the month or a weekday, when both are given',
    '0 0 13 * 5',
    '2026-02-07T00:00:00Z',
    ['2026-02-13T00:00:00Z', '2026-02-20T00:00:00Z'],
  ],
  [
    '30 February or a Monday: the Mondays',
    '0 0 30 2 1',
    '2026-02-20T00:00:00Z',
    ['2026-02-23T00:00:00Z', '2027-02-01T00:00:00Z'],
  ],
  [
    'every single weekday is no restriction',
    '0 0 1 * */1',
    '2026-03-01T12:00:00Z',
    ['2026-04-01T00:00:00Z', '2026-05-01T00:00:00Z'],
  ],
  [
    'a minute that is named twice',
    '58-59,59,0 * * * *',
    '2026-03-01T12:58:00Z',
    ['2026-03-01T12:59:00Z', '2026-03-01T13:00:00Z', '2026-03-01T13:58:00Z'],
  ],
  [
    'a month by its name and its number',
    '0 0 1 JAN,1,2/11 *',
    '2026-01-01T00:00:00Z',
    ['2026-02-01T00:00:00Z', '2027-01-01T00:00:00Z'],
  ],
  [
    'Sunday as 0, 7 and by its name, and in a range',
    '0 0 * * 0,7,sun,6-7',
    '2026-03-01T00:00:00Z',
    ['2026-03-07T00:00:00Z', '2026-03-08T00:00:00Z', '2026-03-14T00:00:00Z'],
  ],
  [
    'every hour, and one additional time',
    '0 *,3 1 * *',
    '2026-03-01T22:30:00Z',
    ['2026-03-01T23:00:00Z', '2026-04-01T00:00:00Z'],
  ],
  [
    'every second weekday from Monday on ends with Friday',
    '0 0 * * Mon/2',
    '2026-03-05T00:00:00Z',
    ['2026-03-06T00:00:00Z', '2026-03-09T00:00:00Z', '2026-03-11T00:00:00Z'],
  ],
  [
    'every second weekday from 1 on ends with Friday',
    '0 0 * * 1/2',
    '2026-03-05T00:00:00Z',
    ['2026-03-06T00:00:00Z', '2026-03-09T00:00:00Z', '2026-03-11T00:00:00Z'],
  ],
  [
    'every second weekday of a range ends with the range',
    '0 0 * * 1-3/2',
    '2026-03-05T00:00:00Z',
    ['2026-03-09T00:00:00Z', '2026-03-11T00:00:00Z', '2026-03-16T00:00:00Z'],
  ],
  [
    'every second weekday from the second of two on ends with Saturday',
    '0 0 * * 1,4/2',
    '2026-03-05T00:00:00Z',
    ['2026-03-07T00:00:00Z', '2026-03-09T00:00:00Z', '2026-03-12T00:00:00Z'],
  ],
  [
    'Sunday as 7 and as a word',
    '0 0 * * 7,MON',
    '2026-03-01T12:00:00Z',
    ['2026-03-02T00:00:00Z', '2026-03-08T00:00:00Z'],
  ],
]

for (const [title, cron, from, expected] of firing) {
  t.test(`slots in UTC: ${title}`, async (t) => {
    const slots = parseCron(cron)
    let at = new Date(from)
    for (const slot of expected) {
      at = slots.firstAfter(at)
      t.equal(at.getTime(), Date.parse(slot))
      t.equal(slots.latestUntil(at).getTime(), at.getTime(), 'a slot is due in its own second')
      const before = new Date(at.getTime() - 1)
      t.ok(slots.latestUntil(before) < at, 'and not a millisecond earlier')
    }
  })
}

const rejected: [cron: string, words: RegExp][] = [
  ['0 0 30 2 *', /Invalid explicit day of month definition/],
  ['0 0 31 4,6,9,11 *', /Invalid explicit day of month definition/],
  ['0 0 * * 5-1', /Invalid range: 5-1/],
  ['0 0 * * 5-1,0', /Invalid range: 5-1/],
  ['0 0 0 1 1 *', /five fields/],
  ['0 0 * *', /five fields/],
  ['@daily', /five fields/],
  ['H 3 * * *', /five fields/],
  ['0 0 L * *', /five fields/],
  ['0 0 * * 5#3', /five fields/],
  ['60 * * * *', /five fields/],
  ['', /five fields/],
]

for (const [cron, words] of rejected) {
  t.test(`the expression "${cron}" is rejected in words, not a crash`, async (t) => {
    t.throws(() => parseCron(cron), words)
    t.throws(() => parseCron(cron), { code: 'Rejected', message: /^spec\.schedule: / })
  })
}

t.test('the parser’s error is the cause of the rejection', async (t) => {
  t.throws(() => parseCron('0 0 * * 5-1'), { cause: { message: /Invalid range/ } })
})

t.test('slots are those of UTC wherever the machine stands', async (t) => {
  const zone = process.env['TZ']
  t.teardown(() => {
    if (zone === undefined) delete process.env['TZ']
    else process.env['TZ'] = zone
  })
  process.env['TZ'] = 'Asia/Kolkata'
  const noon = new Date('2026-03-01T12:00:00Z')
  t.not(noon.getTimezoneOffset(), 0, 'the machine stands elsewhere')
  t.strictSame(parseCron('0 3 * * *').firstAfter(noon), new Date('2026-03-02T03:00:00Z'))
})

/** Any of `*`, a step, a value, a range or two values of one field. */
function field(min: number, max: number) {
  const value = fc.integer({ min, max })
  return fc.oneof(
    fc.constant('*'),
    fc.integer({ min: 1, max: 20 }).map((step) => `*/${step}`),
    value.map(String),
    fc.tuple(value, value).map(([one, other]) => `${Math.min(one, other)}-${Math.max(one, other)}`),
    fc.tuple(value, fc.integer({ min: 1, max: 20 })).map(([one, step]) => `${one}/${step}`),
    fc.uniqueArray(value, { minLength: 2, maxLength: 2 }).map((values) => values.join(',')),
  )
}

const expressions = fc
  .tuple(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
  .map((fields) => fields.join(' '))

const FIELDS = [[0, 59], [0, 23], [1, 31], [1, 12], [0, 6]] as const // prettier-ignore

/** Whether an instant is a slot, minute for minute, as a CronJob reads the expression. */
function fires(expression: string, at: Date): boolean {
  const given = [
    at.getUTCMinutes(),
    at.getUTCHours(),
    at.getUTCDate(),
    at.getUTCMonth() + 1,
    at.getUTCDay(),
  ]
  const texts = expression.split(' ')
  const [minute, hour, day, month, weekday] = texts.map((text, index) => {
    const [min, max] = FIELDS[index] ?? [0, 0]
    return text.split(',').some((item) => {
      const [range = '', step = '1'] = item.split('/')
      const [from = '', to = item.includes('/') ? String(max) : from] = range.split('-')
      const [first, last] = range === '*' ? [min, max] : [Number(from), Number(to)]
      const value = given[index] ?? -1
      return value >= first && value <= last && (value - first) % Number(step) === 0
    })
  })
  const isOpen = (text = '') => text === '*' || text === '*/1'
  const isDay =
    isOpen(texts[2]) || isOpen(texts[4])
      ? day === true && weekday === true
      : day === true || weekday === true
  return minute === true && hour === true && month === true && isDay
}

t.test('an expression is rejected or fires as a CronJob would, minute for minute', async (t) => {
  let compared = 0
  const start = fc.date({
    min: new Date('2024-02-20T00:00:00Z'),
    max: new Date('2030-01-05T00:00:00Z'),
    noInvalidDate: true,
  })
  fc.assert(
    fc.property(expressions, start, (expression, from) => {
      let slots
      try {
        slots = parseCron(expression)
      } catch (error) {
        return error instanceof Rejected
      }
      const next = slots.firstAfter(from)
      if (!fires(expression, next) || next <= from) return false
      compared += 1
      // Nothing between is skipped, as far as there is time to look.
      const first = Math.floor(from.getTime() / 60_000) * 60_000 + 60_000
      const last = Math.min(next.getTime(), first + 3 * 86_400_000)
      for (let at = first; at < last; at += 60_000) {
        if (fires(expression, new Date(at))) return false
      }
      return slots.latestUntil(new Date(next.getTime() + 59_999)).getTime() === next.getTime()
    }),
    { numRuns: RUNS },
  )
  t.ok(compared > RUNS / 2, `${compared} expressions compared`)
})

t.test('only the latest missed slot is made up for', async (t) => {
  const slot = dueSlot(parseCron('0 * * * *'), {
    createdAt: new Date('2026-02-01T00:00:00Z'),
    lastSlot: new Date('2026-03-01T01:00:00Z'),
    now: new Date('2026-03-01T12:34:56Z'),
  })
  t.strictSame(slot, new Date('2026-03-01T12:00:00Z'))
})

t.test(
  'no slot is due at or before the creation, nor twice, wherever the clock jumps',
  async (t) => {
    const slots = parseCron('*/10 * * * *')
    const createdAt = new Date('2026-03-01T12:00:00Z')
    const due = (now: string, lastSlot?: string) =>
      dueSlot(slots, {
        createdAt,
        lastSlot: lastSlot === undefined ? undefined : new Date(lastSlot),
        now: new Date(now),
      })
    t.equal(due('2026-03-01T12:09:59Z'), undefined)
    t.equal(due('2026-03-01T09:00:00Z'), undefined)
    t.strictSame(due('2026-03-01T12:10:00Z'), new Date('2026-03-01T12:10:00Z'))
    t.equal(due('2026-03-01T12:19:59Z', '2026-03-01T12:10:00Z'), undefined)
    t.equal(due('2026-03-01T12:25:00Z', '2026-03-01T17:20:00Z'), undefined)
    // A resource that was put back with its old status.
    t.equal(due('2026-03-01T12:05:00Z', '2026-02-20T17:20:00Z'), undefined)
  },
)

t.test('a slot older than the deadline is skipped, one of just that age is not', async (t) => {
  const slot = new Date('2026-03-01T12:00:00Z')
  const after = (seconds: number) => new Date(slot.getTime() + seconds * 1000)
  t.equal(isPastDeadline(slot, 100, after(100)), false)
  t.equal(isPastDeadline(slot, 100, after(100.001)), true)
  t.equal(isPastDeadline(slot, undefined, after(10 ** 9)), false)
})

t.test(
  'where the clock skips or repeats an hour, the latest slot is the last one fired',
  async (t) => {
    // In the first four zones the clock skips the hour after midnight.
    const changes = [
      ['Africa/Cairo', '0 0 * * *', '2026-04-24T00:00:00Z'],
      ['Africa/Cairo', '0 0 * * 5', '2026-04-24T00:00:00Z'],
      ['America/Santiago', '15 0 6 9 *', '2026-09-06T00:00:00Z'],
      ['Asia/Beirut', '*/20 0 * * *', '2026-03-29T00:00:00Z'],
      ['Europe/Berlin', '30 2 * * *', '2026-03-29T00:00:00Z'],
      ['Europe/Berlin', '*/30 * * * *', '2026-10-25T00:00:00Z'],
      ['Asia/Tokyo', '59 23 31 12 *', '2026-01-01T00:00:00Z'],
    ] as const
    for (const [timeZone, cron, day] of changes) {
      const slots = parseCron(cron, { timeZone })
      const start = Date.parse(day) - 86_400_000
      let latest = slots.latestUntil(new Date(start))
      t.ok(latest.getTime() <= start, `${timeZone} ${cron}`)
      t.ok(slots.firstAfter(latest).getTime() > start, `${timeZone} ${cron}`)
      const wrong: string[] = []
      for (let minutes = 0; minutes <= 3 * 1440; minutes += 45) {
        const instant = new Date(start + minutes * 60_000)
        for (let next = slots.firstAfter(latest); next <= instant; next = slots.firstAfter(next)) {
          latest = next
        }
        const found = slots.latestUntil(instant)
        if (found.getTime() !== latest.getTime()) wrong.push(instant.toISOString())
      }
      t.strictSame(wrong, [], `${timeZone} ${cron}`)
    }
  },
)

t.test('the slot of a backup is in its name, after that of its schedule', async (t) => {
  const made = backup('2026-01-01T00:00:00Z')
  const slotIn = (name: string) =>
    slotOf('nightly', { ...made, metadata: { ...made.metadata, name } })
  t.strictSame(slotIn('nightly-20260228-030000'), new Date('2026-02-28T03:00:00Z'))
  for (const name of [
    ...['nightly', 'nightly-', 'nightly-extra', 'nightly-20260228', 'nightly-20260228-0300'],
    ...['weekly2-20260228-030000', 'nightly2-20260228-030000', 'nightly-x-20260228-030000'],
    ...['nightly-20260228-030000-x', 'nightly-20260230-030000', 'nightly-20260228-250000'],
    ...['nightly-20260200-030000', 'nightly-20261301-030000', 'nightly-20260001-030000'],
    ...['nightly-20260228-036000', 'nightly-20260228-030060', 'nightly-00260228-030000'],
  ])
    t.equal(slotIn(name), undefined, name)
})
