import fc from 'fast-check'
import t from 'tap'
import {
  retainedNames,
  type FinishedBackup,
  type RetentionPolicy,
} from '../../../hooks/backup-schedule/retention.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 2000)

/** `2026-03-01T03` completed, `!2026-03-01T03` failed. */
function history(...slots: string[]): FinishedBackup[] {
  return slots.map((text) => ({
    name: text,
    slot: new Date(`${text.replace('!', '')}:00:00Z`),
    phase: text.startsWith('!') ? 'Failed' : 'Completed',
  }))
}

const cases: [
  title: string,
  policy: RetentionPolicy | undefined,
  slots: string[],
  retained: string[],
][] = [
  // prettier-ignore
  ['no policy keeps all', undefined, ['2026-03-01T03', '!2026-03-02T03'], ['2026-03-01T03', '!2026-03-02T03']], // prettier-ignore
  ['an empty policy keeps all', {}, ['2026-03-01T03', '2026-03-02T03'], ['2026-03-01T03', '2026-03-02T03']], // prettier-ignore
  ['keepLast: the newest', { keepLast: 2 }, ['2026-03-01T03', '2026-03-03T03', '2026-03-02T03'], ['2026-03-02T03', '2026-03-03T03']], // prettier-ignore
  ['keepDaily: the newest of each day that has one', { keepDaily: 2 }, ['2026-03-01T03', '2026-03-01T15', '2026-03-05T01', '2026-03-05T23', '2026-02-01T00'], ['2026-03-01T15', '2026-03-05T23']], // prettier-ignore
  ['keepWeekly: 1 January 2027 is in the week of 28 December', { keepWeekly: 2 }, ['2026-12-27T03', '2026-12-28T03', '2027-01-01T03', '2027-01-03T03'], ['2026-12-27T03', '2027-01-03T03']], // prettier-ignore
  ['keepWeekly: 4 January 2027 starts a week', { keepWeekly: 1 }, ['2027-01-03T03', '2027-01-04T03'], ['2027-01-04T03']], // prettier-ignore
  ['keepWeekly: the 53rd week of 2026', { keepWeekly: 3 }, ['2026-12-20T03', '2026-12-31T03', '2027-01-02T03', '2027-01-05T03'], ['2026-12-20T03', '2027-01-02T03', '2027-01-05T03']], // prettier-ignore
  ['keepMonthly: the newest of each month', { keepMonthly: 2 }, ['2026-01-31T23', '2026-02-01T00', '2026-02-28T23', '2026-03-01T00'], ['2026-02-28T23', '2026-03-01T00']], // prettier-ignore
  ['together: what any rule keeps', { keepLast: 1, keepMonthly: 2 }, ['2026-01-31T23', '2026-02-27T00', '2026-02-28T23'], ['2026-01-31T23', '2026-02-28T23']], // prettier-ignore
  ['a week of failed ones does not prune the last good one (H1)', { keepLast: 3 }, ['2026-03-01T03', ...Array.from({ length: 7 }, (_, day) => `!2026-03-0${day + 2}T03`)], ['2026-03-01T03', '!2026-03-06T03', '!2026-03-07T03', '!2026-03-08T03']], // prettier-ignore
  ['a failed one does not push out the completed one of its day', { keepDaily: 1 }, ['2026-03-01T03', '!2026-03-01T15'], ['2026-03-01T03', '!2026-03-01T15']], // prettier-ignore
  ['only failed ones: the rules count them', { keepLast: 1 }, ['!2026-03-01T03', '!2026-03-02T03'], ['!2026-03-02T03']], // prettier-ignore
]

for (const [title, policy, slots, retained] of cases) {
  t.test(`retention: ${title}`, async (t) => {
    t.strictSame([...retainedNames(history(...slots), policy)].toSorted(), retained.toSorted())
  })
}

const count = fc.integer({ min: 1, max: 5 })
const policies: fc.Arbitrary<RetentionPolicy> = fc.record(
  { keepLast: count, keepDaily: count, keepWeekly: count, keepMonthly: count },
  { requiredKeys: [] },
)

const HOUR = 3_600_000
const FIRST = Date.parse('2026-12-01T00:00:00Z')
const finished = fc.record({ hour: fc.nat(24 * 60), isFailed: fc.boolean() })
const histories = fc
  .uniqueArray(finished, { maxLength: 40, selector: ({ hour }) => hour })
  .map((backups) =>
    backups.map(({ hour, isFailed }): FinishedBackup => {
      const slot = new Date(FIRST + hour * HOUR)
      return { name: slot.toISOString(), slot, phase: isFailed ? 'Failed' : 'Completed' }
    }),
  )

/** The number of an ISO week and its year, counted from its Thursday. */
function isoWeek(at: Date): string {
  const thursday = new Date(at.getTime() + (4 - (at.getUTCDay() || 7)) * 24 * HOUR)
  const year = thursday.getUTCFullYear()
  const day = Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / (24 * HOUR))
  return `${year}-W${Math.floor(day / 7) + 1}`
}

/** Asked of one backup: how many periods newer than its own have one, and is it the newest of its own. */
function isNamed(
  backup: FinishedBackup,
  among: FinishedBackup[],
  count: number,
  period: (at: Date) => string,
) {
  const newer = among.filter(({ slot }) => slot > backup.slot).map(({ slot }) => period(slot))
  return !newer.includes(period(backup.slot)) && new Set(newer).size < count
}

function isRetainedByOracle(
  backup: FinishedBackup,
  all: FinishedBackup[],
  policy: RetentionPolicy,
): boolean {
  if (Object.keys(policy).length === 0) return true
  const among = backup.phase === 'Failed' ? all : all.filter(({ phase }) => phase === 'Completed')
  const { keepLast = 0, keepDaily = 0, keepWeekly = 0, keepMonthly = 0 } = policy
  return (
    isNamed(backup, among, keepLast, (at) => at.toISOString()) ||
    isNamed(backup, among, keepDaily, (at) => at.toISOString().slice(0, 10)) ||
    isNamed(backup, among, keepWeekly, isoWeek) ||
    isNamed(backup, among, keepMonthly, (at) => at.toISOString().slice(0, 7))
  )
}

t.test(
  'for any history and policy the retained backups equal those of a naive implementation',
  async () => {
    fc.assert(
      fc.property(histories, policies, (all, policy) => {
        const retained = retainedNames(all, policy)
        return all.every(
          (backup) => retained.has(backup.name) === isRetainedByOracle(backup, all, policy),
        )
      }),
      { numRuns: RUNS },
    )
  },
)

t.test('every policy retains the newest completed backup', async () => {
  fc.assert(
    fc.property(histories, policies, (all, policy) => {
      const [newest] = all
        .filter(({ phase }) => phase === 'Completed')
        .toSorted((one, other) => other.slot.getTime() - one.slot.getTime())
      return newest === undefined || retainedNames(all, policy).has(newest.name)
    }),
    { numRuns: RUNS },
  )
})

t.test('failed backups, however many, change nothing about completed ones', async () => {
  fc.assert(
    fc.property(histories, policies, (all, policy) => {
      const completed = all.filter(({ phase }) => phase === 'Completed')
      const [retained, alone] = [retainedNames(all, policy), retainedNames(completed, policy)]
      return completed.every(({ name }) => retained.has(name) === alone.has(name))
    }),
    { numRuns: RUNS },
  )
})

t.test('pruning in one go or after each backup ends with the same', async () => {
  fc.assert(
    fc.property(histories, policies, (all, policy) => {
      const inOrder = all.toSorted((one, other) => one.slot.getTime() - other.slot.getTime())
      let left: FinishedBackup[] = []
      for (const backup of inOrder) {
        const now = [...left, backup]
        const retained = retainedNames(now, policy)
        left = now.filter(({ name }) => retained.has(name))
      }
      const atOnce = retainedNames(all, policy)
      return left.length === atOnce.size && left.every(({ name }) => atOnce.has(name))
    }),
    { numRuns: RUNS },
  )
})
