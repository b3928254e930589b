/** The decision of a schedule with its messages, case by case. */
import t from 'tap'
import {
  decide,
  existingBackups,
  isActive,
  type Decision,
  type Observed,
} from '../../../hooks/backup-schedule/tick.ts'
import type { VecBackup } from '../../../crds/backup.ts'
import type { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import { MAX_HISTORY_BYTES } from '../../../crds/contract/limits.ts'
import { eventsOf } from '../../../hooks/backup-schedule/status.ts'
import { cluster } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, schedule, type ScheduleOverrides } from './stage.ts'

const NOON = new Date('2026-03-01T12:00:00Z')
const hourly = { schedule: '0 * * * *' }
const SCHEDULED = {
  ...{ type: 'Ready', status: 'True', reason: 'Scheduled' },
  message: 'backups are created as scheduled',
} as const

function observed(parts: ScheduleOverrides, more: Partial<Observed> = {}): Observed {
  const { spec, ...rest } = parts
  return { schedule: schedule({ spec: { ...hourly, ...spec }, ...rest }), children: [], ...more }
}

function ready({ ready: { status, reason, message } }: Decision): string[] {
  return [status, reason, message]
}

t.test(
  'what Metacontroller shows of a schedule that has changed since is not acted on',
  async (t) => {
    const observation = observed({}, { children: [backup('2026-03-01T10:00:00Z')] })
    const { schedule: before } = observation
    const changed = { ...before, metadata: { ...before.metadata, generation: 2 } }
    const deleted = schedule({ spec: hourly, deletionTimestamp: '2026-03-01T11:00:00Z' })
    const made = { ...before, metadata: { ...before.metadata, uid: 'uid-of-another' } }
    for (const now of [changed, deleted, made, undefined]) {
      const live = { backups: [], ...(now !== undefined && { schedule: now }) }
      const nothing = { prune: [], annotate: [] }
      t.strictSame(decide({ ...observation, live }, NOON), {
        ...nothing,
        requeueSoon: true,
        ready: SCHEDULED,
      })
    }
  },
)

t.test(
  'the next slot is the one after the last that was done, also where the clock is behind',
  async (t) => {
    const next = (lastSlot: string) =>
      decide(observed({}, { lastSlot: new Date(lastSlot) }), NOON).nextSlot?.toISOString()
    t.equal(next('2026-03-01T11:00:00Z'), '2026-03-01T13:00:00.000Z')
    t.equal(next('2026-03-01T12:00:00Z'), '2026-03-01T13:00:00.000Z')
    t.equal(next('2026-03-01T14:00:00Z'), '2026-03-01T15:00:00.000Z')
    t.equal(decide(observed({}), NOON).nextSlot?.toISOString(), '2026-03-01T13:00:00.000Z')
  },
)

t.test('a clock that is behind the last slot by more than a minute is reported', async (t) => {
  const at = (lastSlot: string) =>
    ready(decide(observed({}, { lastSlot: new Date(lastSlot) }), NOON))
  t.strictSame(at('2026-03-01T12:01:00Z')[1], 'Scheduled')
  t.strictSame(at('2026-03-01T12:01:01Z'), [
    ...['False', 'ClockSkew'],
    'the last slot 2026-03-01T12:01:01Z is ahead of the clock; no backup is created until then',
  ])
})

t.test('every reason not to create a backup has a message', async (t) => {
  const last = { lastSlot: new Date('2026-03-01T11:00:00Z') }
  const running = backup('2026-03-01T11:00:00Z', { phase: 'InProgress' })
  const taken = backup('2026-03-01T12:00:00Z')
  const suspended = decide(observed({ spec: { suspend: true } }, last), NOON)
  t.strictSame(ready(suspended), [
    ...['True', 'Suspended', 'no backup is created while spec.suspend is true'],
  ])
  const late = new Date('2026-03-01T12:10:01Z')
  t.strictSame(ready(decide(observed({ spec: { startingDeadlineSeconds: 600 } }, last), late)), [
    ...['True', 'SlotMissed'],
    'the slot 2026-03-01T12:00:00Z was skipped: it was missed by more than spec.startingDeadlineSeconds',
  ])
  const waits = decide(observed({}, { ...last, children: [running] }), NOON)
  t.strictSame(ready(waits), [
    ...['True', 'BackupAlreadyActive'],
    `the slot 2026-03-01T12:00:00Z waits for backup ${running.metadata.name}: concurrencyPolicy is Forbid`,
  ])
  const { schedule: same } = observed({})
  const live = { schedule: same, backups: [], conflictingBackup: taken }
  t.strictSame(ready(decide(observed({}, { ...last, live }), NOON)), [
    ...['False', 'NameConflict'],
    `VecBackup ${taken.metadata.name} already exists and does not belong to this schedule`,
  ])
})

t.test('an expression that never fires is reported, and retention still prunes', async (t) => {
  const backups = ['09', '10'].map((hour) => backup(`2026-03-01T${hour}:00:00Z`))
  const status = { lastScheduleTime: '2026-03-01T11:00:00Z' }
  const spec = { schedule: '0 0 30 2 *', retentionPolicy: { keepLast: 1 } }
  const decision = decide(observed({ spec, status }, { children: backups }), NOON)
  t.strictSame(ready(decision).slice(0, 2), ['False', 'InvalidSchedule'])
  t.match(decision.ready.message, /^spec\.schedule: ./)
  t.strictSame(
    decision.prune.map(({ name }) => name),
    [backups[0]?.metadata.name],
  )
})

t.test('Replace says for which slot the running backup is deleted', async (t) => {
  const running = backup('2026-03-01T11:00:00Z', { phase: 'InProgress' })
  const status = { lastScheduleTime: '2026-03-01T11:00:00Z' }
  const parts = { spec: { concurrencyPolicy: 'Replace' as const }, status }
  const done = { lastSlot: new Date('2026-03-01T11:00:00Z'), children: [running] }
  const { create, prune: drop } = decide(observed(parts, done), NOON)
  t.equal(create?.toISOString(), NOON.toISOString())
  t.strictSame(drop, [
    {
      ...{ kind: 'VecBackup', name: running.metadata.name },
      reason: 'replaced at the slot 2026-03-01T12:00:00Z',
    },
  ])
})

t.test(
  'a backup with another name does not belong to the schedule, whatever its owner',
  async (t) => {
    const own = [backup('2026-03-01T10:00:00Z'), backup('2026-03-01T11:00:00Z')]
    const stranger = { ...backup('2026-03-01T09:00:00Z') }
    stranger.metadata = { ...stranger.metadata, name: 'by-hand' }
    for (const observation of [own, own.toReversed()]) {
      const all = existingBackups(observed({}), [...observation, stranger])
      t.strictSame(
        all.map(({ metadata }) => metadata.name),
        own.map(({ metadata }) => metadata.name).toReversed(),
        'the newest first, in whatever order they are shown',
      )
    }
    const status = { lastScheduleTime: '2026-03-01T11:00:00Z' }
    const spec = { retentionPolicy: { keepLast: 1 } }
    const { prune: drop } = decide(
      observed({ spec, status }, { children: [...own, stranger] }),
      NOON,
    )
    t.strictSame(drop, [
      {
        ...{ kind: 'VecBackup', name: own[0]?.metadata.name },
        reason: 'no rule of spec.retentionPolicy keeps it',
      },
    ])
  },
)

t.test('a backup that runs is left alone by retention, however old it is', async (t) => {
  const [running, ...finished] = [
    backup('2026-03-01T09:00:00Z', { phase: 'InProgress' }),
    backup('2026-03-01T10:00:00Z'),
    backup('2026-03-01T11:00:00Z'),
  ]
  const status = { lastScheduleTime: '2026-03-01T11:00:00Z' }
  const spec = { retentionPolicy: { keepLast: 1 } }
  const { prune: drop } = decide(
    observed({ spec, status }, { children: [running, ...finished] }),
    NOON,
  )
  t.strictSame(
    drop.map(({ name }) => name),
    ['nightly-20260301-100000'],
  )
})

t.test('a failed backup is not kept as if it had completed', async (t) => {
  const failed = backup('2026-03-01T11:00:00Z', { phase: 'Failed' })
  const done = backup('2026-03-01T10:00:00Z')
  const status = { lastScheduleTime: '2026-03-01T11:00:00Z' }
  const spec = { retentionPolicy: { keepLast: 1 } }
  const { prune: drop } = decide(observed({ spec, status }, { children: [failed, done] }), NOON)
  t.strictSame(drop, [], 'the newest completed one stays')
  const older = backup('2026-03-01T09:00:00Z')
  const { prune } = decide(observed({ spec, status }, { children: [failed, done, older] }), NOON)
  t.strictSame(
    prune.map(({ name }) => name),
    [older.metadata.name],
  )
})

t.test('a backup is active until it is Completed or Failed', async (t) => {
  const phases = ['Pending', 'InProgress', 'Completed', 'Failed'] as const
  t.strictSame(
    phases.map((phase) => isActive(backup('2026-03-01T11:00:00Z', { phase }))),
    [true, true, false, false],
  )
  t.ok(isActive(backup('2026-03-01T11:00:00Z', {})), 'it has no status yet')
})

t.test('no backup is created for a hibernated cluster; retention continues', async (t) => {
  const hibernated = cluster({ status: { phase: 'Hibernated' } })
  const decision = decide(observed({}, { cluster: hibernated }), NOON)
  t.equal(decision.create, undefined)
  t.strictSame(ready(decision), [
    ...['True', 'ClusterHibernated'],
    'no backup is created: cluster ns/a is hibernated: no pods run until its spec.hibernate is false',
  ])
  const [older, newer] = [backup('2026-03-01T10:00:00Z'), backup('2026-03-01T11:00:00Z')]
  const parts = {
    spec: { retentionPolicy: { keepLast: 1 } },
    status: { lastScheduleTime: '2026-03-01T11:00:00Z' },
  }
  const { prune } = decide(observed(parts, { children: [older, newer], cluster: hibernated }), NOON)
  t.equal(prune.length, 1)
  const running = cluster({ status: { phase: 'Running' } })
  t.strictSame(decide(observed({}, { cluster: running }), NOON).create, NOON, 'the missed slot')
  const suspended = decide(observed({ spec: { suspend: true } }, { cluster: hibernated }), NOON)
  t.equal(suspended.ready.reason, 'Suspended')
})

t.test('a cluster that waits for a backup before it hibernates gets one', async (t) => {
  const requestTime = '2026-03-01T11:59:30Z'
  const request = {
    scheduleName: 'nightly',
    name: 'nightly-20260301-115930',
    requestTime,
    afterRun: 1,
  }
  const asking = (hibernationBackup: object, spec = { hibernate: true }) =>
    cluster({
      spec,
      status: { phase: 'Running', hibernationBackup: { ...request, ...hibernationBackup } },
    })
  const createdFor = (
    found: VecCluster,
    parts: ScheduleOverrides = {},
    more: Partial<Observed> = {},
  ) => decide(observed(parts, { cluster: found, ...more }), NOON)
  const earlier = { lastSlot: new Date('2026-03-01T11:00:00Z') }
  const created = createdFor(asking({}), {}, earlier)
  t.equal(created.create?.toISOString(), '2026-03-01T11:59:30.000Z', 'before the slot that is due')
  t.equal(created.isBeforeHibernation, true)
  const events = eventsOf(observed({}, earlier), created, NOON)
  matchWhole(t, events, [
    {
      reason: 'BackupCreated',
      message: 'backup nightly-20260301-115930 is created before cluster a hibernates',
    },
  ])
  const suspended = createdFor(asking({}), { spec: { suspend: true } }, earlier)
  t.equal(suspended.create?.toISOString(), '2026-03-01T11:59:30.000Z', 'also while it is suspended')
  const running = [backup('2026-03-01T11:00:00Z', { phase: 'InProgress' })]
  const replaced = createdFor(
    asking({}),
    {
      spec: { concurrencyPolicy: 'Replace' },
      status: { lastScheduleTime: '2026-03-01T11:00:00Z' },
    },
    { ...earlier, children: running },
  )
  t.equal(replaced.create?.toISOString(), '2026-03-01T11:59:30.000Z')
  t.strictSame(replaced.prune, [], 'no backup is deleted for it')

  const done = { spec: { suspend: true }, status: {} }
  const none = (found: VecCluster, more: Partial<Observed> = earlier) =>
    t.equal(createdFor(found, done, more).create, undefined)
  none(asking({}), { lastSlot: new Date(requestTime) })
  none(asking({ completionTime: requestTime }))
  none(asking({ scheduleName: 'weekly' }))
  none(asking({}, { hibernate: false }))
  const elsewhere = asking({})
  none({ ...elsewhere, metadata: { ...elsewhere.metadata, namespace: 'other' } })

  const taken = backup(requestTime)
  const conflict = createdFor(
    asking({}),
    {},
    {
      ...earlier,
      live: { schedule: schedule({ spec: hourly }), backups: [], conflictingBackup: taken },
    },
  )
  t.strictSame(ready(conflict).slice(0, 2), ['False', 'NameConflict'])
  t.equal(conflict.create, undefined)
  const full = createdFor(asking({}), {}, { ...earlier, bytes: MAX_HISTORY_BYTES + 1 })
  t.strictSame(ready(full).slice(0, 2), ['False', 'HistoryTooLarge'])
})

interface Hibernation {
  hibernate?: boolean
  policy?: VecBackupSchedule['spec']['concurrencyPolicy']
  completionTime?: string
}

t.test('no slot overtakes a hibernation that waits for its backup, for an hour', async (t) => {
  const requestTime = '2026-03-01T11:30:00Z'
  const name = 'nightly-20260301-113000'
  const request = { scheduleName: 'nightly', name, requestTime, afterRun: 1 }
  const decideFor = (
    own: VecBackup['status'],
    { hibernate = true, policy = 'Forbid', ...recorded }: Hibernation = {},
  ) =>
    decide(
      observed(
        { spec: { concurrencyPolicy: policy }, status: { lastScheduleTime: requestTime } },
        {
          lastSlot: new Date(requestTime),
          children: own === undefined ? [] : [{ ...backup(requestTime), status: own }],
          cluster: cluster({
            spec: { hibernate },
            status: { phase: 'Running', hibernationBackup: { ...request, ...recorded } },
          }),
        },
      ),
      NOON,
    )
  const active = [
    ...['True', 'BackupAlreadyActive'],
    `the slot 2026-03-01T12:00:00Z waits for backup ${name}: cluster a waits for it before it hibernates`,
  ]
  for (const policy of ['Forbid', 'Allow', 'Replace'] as const) {
    const decision = decideFor({ phase: 'InProgress' }, { policy })
    t.equal(decision.create, undefined, policy)
    t.strictSame(decision.prune, [], policy)
    t.strictSame(ready(decision), active, policy)
  }
  // The cluster has not seen its end yet, or has, and waits for the Lease.
  const done = { phase: 'Completed', completionTime: '2026-03-01T11:59:58Z' } as const
  const { completionTime } = done
  for (const decision of [decideFor(done), decideFor(undefined, { completionTime })]) {
    t.equal(decision.create, undefined)
    t.strictSame(ready(decision), [
      ...['True', 'ClusterHibernated'],
      `no backup is created: cluster ns/a hibernates after backup ${name}`,
    ])
  }
  const created = (decision: Decision) => t.strictSame(decision.create, NOON)
  created(decideFor({ phase: 'Completed', completionTime: '2026-03-01T10:59:59Z' }))
  created(decideFor(undefined, { completionTime: '2026-03-01T10:59:59Z' }))
  created(decideFor({ phase: 'Failed', completionTime }))
  created(decideFor(done, { hibernate: false }))
  created(decideFor(undefined))
  t.equal(
    decideFor({ phase: 'InProgress' }, { hibernate: false, policy: 'Replace' }).prune.length,
    1,
  )
})
