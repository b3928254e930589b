/** A VecBackupSchedule makes backups as a CronJob makes Jobs. */
import t from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import {
  backup,
  prunedNames,
  createdNames,
  schedule,
  tick,
  type ScheduleOverrides,
  type ScheduleFixture,
} from './stage.ts'

const CREATED = '2026-03-01T00:00:30Z'

const hourly = { schedule: '0 * * * *' }

/**
 * What a CronJob does, by its documentation and by its controller (v1): concurrencyPolicy, suspend,
 * startingDeadlineSeconds, the latest missed time only, after the last one or the creation.
 */
interface Row {
  title: string
  spec?: ScheduleOverrides['spec']
  last?: string
  children?: VecBackup[]
  now: string
  makes?: string
  drops?: string
  reason?: string
}

const running = backup('2026-03-01T11:00:00Z', { phase: 'InProgress' })

const done = backup('2026-03-01T11:00:00Z')

const last = '2026-03-01T11:00:00Z'

const table: Row[] = [
  { title: 'the first slot after the creation', now: '2026-03-01T01:00:00Z', makes: '010000' },
  { title: 'no slot since the creation', now: '2026-03-01T00:59:59Z' },
  { title: 'the slot was done', last, children: [done], now: '2026-03-01T11:59:59Z' },
  {
    title: 'the slot was done, its backup is gone, the status knows',
    last,
    now: '2026-03-01T11:30:00Z',
  },
  { title: 'the next slot', last, children: [done], now: '2026-03-01T12:00:00Z', makes: '120000' },
  {
    title: 'many slots missed: the latest only',
    last,
    children: [done],
    now: '2026-03-03T12:34:00Z',
    makes: '120000',
  },
  {
    title: 'Forbid: skipped while one runs',
    last,
    children: [running],
    now: '2026-03-01T12:00:00Z',
    reason: 'BackupAlreadyActive',
  },
  {
    title: 'Forbid: a backup without a status is active',
    last,
    children: [backup('2026-03-01T11:00:00Z', {})],
    now: '2026-03-01T12:00:00Z',
    reason: 'BackupAlreadyActive',
  },
  {
    title: 'Forbid: once it ended, the slot is made up for',
    last,
    children: [done],
    now: '2026-03-01T12:20:00Z',
    makes: '120000',
  },
  {
    title: 'Forbid: once it ended, but the deadline is over',
    spec: { startingDeadlineSeconds: 600 },
    last,
    children: [done],
    now: '2026-03-01T12:20:00Z',
    reason: 'SlotMissed',
  },
  {
    title: 'Forbid: a backup that is being deleted is not active',
    last,
    children: [
      backup('2026-03-01T11:00:00Z', {
        phase: 'InProgress',
        deletionTimestamp: '2026-03-01T11:30:00Z',
      }),
    ],
    now: '2026-03-01T12:00:00Z',
    makes: '120000',
  },
  {
    title: 'Allow: made beside the one that runs',
    spec: { concurrencyPolicy: 'Allow' },
    last,
    children: [running],
    now: '2026-03-01T12:00:00Z',
    makes: '120000',
  },
  {
    title: 'Replace: made instead of the one that runs',
    spec: { concurrencyPolicy: 'Replace' },
    last,
    children: [running],
    now: '2026-03-01T12:00:00Z',
    makes: '120000',
    drops: '110000',
  },
  {
    title: 'Replace: one that ended stays',
    spec: { concurrencyPolicy: 'Replace' },
    last,
    children: [done],
    now: '2026-03-01T12:00:00Z',
    makes: '120000',
  },
  {
    title: 'within the deadline',
    spec: { startingDeadlineSeconds: 600 },
    last,
    children: [done],
    now: '2026-03-01T12:10:00Z',
    makes: '120000',
  },
  {
    title: 'past the deadline',
    spec: { startingDeadlineSeconds: 600 },
    last,
    children: [done],
    now: '2026-03-01T12:10:01Z',
    reason: 'SlotMissed',
  },
  {
    title: 'suspended',
    spec: { suspend: true },
    last,
    children: [done],
    now: '2026-03-01T14:00:00Z',
    reason: 'Suspended',
  },
  {
    title: 'resumed: one catch-up',
    last,
    children: [done],
    now: '2026-03-05T14:10:00Z',
    makes: '140000',
  },
  {
    title: 'resumed: none when the deadline excludes it',
    spec: { startingDeadlineSeconds: 60 },
    last,
    children: [done],
    now: '2026-03-05T14:10:00Z',
    reason: 'SlotMissed',
  },
  {
    title: 'the clock went back by hours',
    last,
    children: [done],
    now: '2026-03-01T08:00:00Z',
    reason: 'ClockSkew',
  },
  {
    title: 'the clock went back by seconds',
    last,
    children: [done],
    now: '2026-03-01T10:59:58Z',
  },
]

for (const {
  title,
  spec,
  last: lastScheduleTime,
  children = [],
  now,
  makes,
  drops,
  reason,
} of table) {
  t.test(`as a CronJob: ${title}`, async (t) => {
    const stage: ScheduleFixture = {
      schedule: schedule({
        spec: { ...hourly, ...spec },
        createdAt: CREATED,
        ...(lastScheduleTime !== undefined && { status: { lastScheduleTime } }),
      }),
      children,
    }
    const desired = await tick(stage, now)
    const day = now.slice(0, 10).replaceAll('-', '')
    t.strictSame(
      createdNames(desired, stage),
      makes === undefined ? [] : [`nightly-${day}-${makes}`],
    )
    t.strictSame(prunedNames(desired), drops === undefined ? [] : [`nightly-20260301-${drops}`])
    t.equal(desired.status.conditions?.[0]?.reason, reason ?? 'Scheduled')
    t.equal(
      desired.status.lastScheduleTime,
      lastScheduleTime,
      'from the backups, not from the clock',
    )
  })
}
