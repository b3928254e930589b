import t from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { backupScheduleRoom } from '../../../hooks/backup-schedule/index.ts'
import {
  backup,
  droppedNames,
  made,
  portsOf,
  schedule,
  tick,
  type ScheduleParts,
  type Stage,
} from './stage.ts'

const CREATED = '2026-03-01T00:00:30Z'
const hourly = { schedule: '0 * * * *' }

/**
 * What a CronJob does, by its documentation and by its controller (v1): concurrencyPolicy, suspend,
 * startingDeadlineSeconds, the latest missed time only, after the last one or the creation.
 */
interface Row {
  title: string
  spec?: ScheduleParts['spec']
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
    title: 'Forbid: one that nobody has looked at yet runs too',
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
    title: 'Forbid: one on its way out is not active',
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
    reason: 'ClockBehind',
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
    const stage: Stage = {
      schedule: schedule({
        spec: { ...hourly, ...spec },
        createdAt: CREATED,
        ...(lastScheduleTime !== undefined && { status: { lastScheduleTime } }),
      }),
      children,
    }
    const desired = await tick(stage, now)
    const day = now.slice(0, 10).replaceAll('-', '')
    t.strictSame(made(desired, stage), makes === undefined ? [] : [`nightly-${day}-${makes}`])
    t.strictSame(droppedNames(desired), drops === undefined ? [] : [`nightly-20260301-${drops}`])
    t.equal(desired.status.conditions?.[0]?.reason, reason ?? 'Scheduled')
    t.equal(desired.status.lastScheduleTime, lastScheduleTime, 'told by backups, not by the clock')
  })
}

t.test('a created backup has the slot in its name, the label and the copied spec', async (t) => {
  const spec = {
    collections: ['c'],
    clusterRef: { name: 'a', namespace: 'other' },
    method: 'Shard' as const,
    parallelism: 3,
  }
  const stage: Stage = { schedule: schedule({ spec }), children: [] }
  const { storage } = stage.schedule.spec
  const { children, resyncAfterSeconds, events } = await tick(stage, '2026-03-01T03:00:00Z')
  t.strictSame(children, [
    {
      apiVersion: 'vec-operator.dev/v1alpha1',
      kind: 'VecBackup',
      metadata: {
        name: 'nightly-20260301-030000',
        labels: { 'vec-operator.dev/schedule': 'nightly' },
      },
      spec: { ...spec, storage },
    },
  ])
  t.equal(resyncAfterSeconds, 2)
  t.match(events, [{ reason: 'BackupCreated', message: /nightly-20260301-030000/ }])
})

t.test('retain-objects of the schedule is on every child, from its creation on', async (t) => {
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const stage: Stage = {
    schedule: schedule({ annotations, status: { lastScheduleTime: '2026-02-28T03:00:00Z' } }),
    children: [
      backup('2026-02-27T03:00:00Z'),
      backup('2026-02-28T03:00:00Z', { phase: 'Completed', retain: 'false' }),
    ],
  }
  const { children } = await tick(stage, '2026-03-01T03:00:00Z')
  t.strictSame(
    children.map(({ metadata }) => metadata.annotations),
    [annotations, annotations, annotations],
  )
})

t.test(
  'a backup that stays is answered with its own spec, without status or version',
  async (t) => {
    const old = backup('2026-02-28T03:00:00Z')
    old.spec = { ...old.spec, clusterRef: { name: 'former' } }
    const status = { lastScheduleTime: '2026-02-28T03:00:00Z' }
    const { children } = await tick({ schedule: schedule({ status }), children: [old] }, '2026-02-28T04:00:00Z') // prettier-ignore
    t.strictSame(children, [
      {
        apiVersion: old.apiVersion,
        kind: 'VecBackup',
        metadata: { name: old.metadata.name, labels: { 'vec-operator.dev/schedule': 'nightly' } },
        spec: old.spec,
      },
    ])
  },
)

t.test(
  'status whole: ten recent backups, newest first, the last, the active and the next',
  async (t) => {
    const days = Array.from(
      { length: 12 },
      (_, day) => `2026-03-${String(day + 1).padStart(2, '0')}`,
    )
    const children = days.map((day) => backup(`${day}T03:00:00Z`))
    children[10] = backup('2026-03-11T03:00:00Z', { phase: 'Failed' })
    children[11] = backup('2026-03-12T03:00:00Z', { phase: 'InProgress' })
    const status = { lastScheduleTime: '2026-03-12T03:00:00Z' }
    const desired = await tick({ schedule: schedule({ status }), children }, '2026-03-12T03:10:00Z')
    const { recentBackups = [], ...rest } = desired.status
    t.strictSame(rest, {
      phase: 'Active',
      lastScheduleTime: '2026-03-12T03:00:00Z',
      lastBackupName: 'nightly-20260311-030000',
      lastBackupTime: '2026-03-11T03:00:00Z',
      lastBackupStatus: 'Failed',
      nextBackupTime: '2026-03-13T03:00:00Z',
      activeBackup: 'nightly-20260312-030000',
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Scheduled',
          message: 'backups are made as scheduled',
          lastTransitionTime: '2026-03-12T03:10:00Z',
          observedGeneration: 1,
        },
      ],
    })
    t.equal(recentBackups.length, 10)
    t.strictSame(recentBackups.slice(0, 2), [
      {
        name: 'nightly-20260312-030000',
        creationTime: '2026-03-12T03:00:00Z',
        status: 'InProgress',
      },
      {
        name: 'nightly-20260311-030000',
        creationTime: '2026-03-11T03:00:00Z',
        completionTime: '2026-03-11T03:00:00Z',
        status: 'Failed',
        size: '1.4 GiB',
      },
    ])
    t.equal(desired.resyncAfterSeconds, 60, 'a tick every 60 s')
  },
)

t.test('Suspended: no backup is made, retention goes on, lastScheduleTime is frozen', async (t) => {
  const stage: Stage = {
    schedule: schedule({
      spec: { suspend: true, retentionPolicy: { keepLast: 1 } },
      status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
    }),
    children: [backup('2026-02-27T03:00:00Z'), backup('2026-02-28T03:00:00Z')],
  }
  const desired = await tick(stage, '2026-03-20T12:00:00Z')
  t.match(desired.status, {
    phase: 'Suspended',
    lastScheduleTime: '2026-02-28T03:00:00Z',
    lastBackupName: 'nightly-20260228-030000',
  })
  t.strictSame(desired.dropped, [
    {
      kind: 'VecBackup',
      name: 'nightly-20260227-030000',
      reason: 'no rule of spec.retentionPolicy keeps it',
    },
  ])
  t.match(desired.events, [{ type: 'Normal', reason: 'BackupDropped' }])
})

t.test('a rule that becomes stricter drops many backups, and that is one Event', async (t) => {
  const days = Array.from({ length: 9 }, (_, day) => backup(`2026-02-2${day}T03:00:00Z`))
  const stage: Stage = {
    schedule: schedule({
      spec: { retentionPolicy: { keepLast: 1 } },
      status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
    }),
    children: days,
  }
  const { events = [] } = await tick(stage, '2026-02-28T12:00:00Z')
  const dropped = events.filter(({ reason }) => reason === 'BackupDropped')
  t.strictSame(
    dropped.map(({ message }) => message),
    [
      `8 backups are deleted, ${['20', '21', '22', '23', '24']
        .map((day) => `nightly-202602${day}-030000`)
        .join(', ')} and 3 more: no rule of spec.retentionPolicy keeps it`,
    ],
  )
})

t.test('a bad expression is a condition with the words, retention goes on', async (t) => {
  const stage: Stage = {
    schedule: schedule({
      spec: { schedule: '0 0 30 2 *', retentionPolicy: { keepLast: 1 } },
      status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
    }),
    children: [backup('2026-02-27T03:00:00Z'), backup('2026-02-28T03:00:00Z')],
  }
  const desired = await tick(stage, '2026-03-20T12:00:00Z')
  t.match(desired.status.conditions, [
    {
      status: 'False',
      reason: 'InvalidSchedule',
      message: 'spec.schedule: Invalid explicit day of month definition',
    },
  ])
  t.equal(desired.status.nextBackupTime, undefined)
  t.strictSame(droppedNames(desired), ['nightly-20260227-030000'])
  t.equal(desired.resyncAfterSeconds, 60)
})

t.test('what hinders is an Event, once', async (t) => {
  const stage: Stage = { schedule: schedule({ spec: { schedule: '0 0 30 2 *' } }), children: [] }
  const first = await tick(stage, '2026-03-20T12:00:00Z')
  t.match(first.events, [{ type: 'Warning', reason: 'InvalidSchedule' }])
  const again = { ...stage, schedule: { ...stage.schedule, status: first.status } }
  t.strictSame((await tick(again, '2026-03-20T12:01:00Z')).events, [])
})

t.test('the next look is at the next slot, at the latest in 60 s', async (t) => {
  const stage: Stage = {
    schedule: schedule({ status: { lastScheduleTime: '2026-02-28T03:00:00Z' } }),
    children: [],
  }
  const at = async (now: string) => (await tick(stage, now)).resyncAfterSeconds
  t.equal(await at('2026-03-01T02:59:47.700Z'), 12.3)
  t.equal(await at('2026-03-01T02:59:59.990Z'), 0.1)
  t.equal(await at('2026-03-01T02:00:00Z'), 60)
})

t.test('a VecBackup of that name which is not ours stays untouched and is named', async (t) => {
  const foreign = backup('2026-03-01T03:00:00Z')
  foreign.metadata.uid = 'uid-of-somebody'
  const stage: Stage = { schedule: schedule(), children: [], live: { others: [foreign] } }
  const desired = await tick(stage, '2026-03-01T03:00:00Z')
  t.strictSame(desired.children, [])
  t.match(desired.status.conditions, [
    { status: 'False', reason: 'BackupNameTaken', message: /^VecBackup nightly-20260301-030000 / },
  ])
  t.equal(desired.status.lastScheduleTime, undefined)
})

t.test('a child with a name that no schedule gives is kept and never pruned', async (t) => {
  const odd = backup('2026-02-01T03:00:00Z')
  odd.metadata.name = 'nightly-by-hand'
  const impossible = backup('2026-02-01T03:00:00Z')
  impossible.metadata.name = 'nightly-20260230-030000'
  const status = { lastScheduleTime: '2026-02-28T03:00:00Z' }
  const spec = { retentionPolicy: { keepLast: 1 } }
  const children = [odd, impossible, backup('2026-02-28T03:00:00Z')]
  const desired = await tick({ schedule: schedule({ spec, status }), children }, '2026-02-28T04:00:00Z') // prettier-ignore
  t.equal(desired.children.length, 3)
  t.equal(desired.dropped, undefined)
  t.equal(desired.status.recentBackups?.length, 1)
})

t.test(
  'a backup on its way out is neither active, kept nor newest, and stays among the children',
  async (t) => {
    const deletionTimestamp = '2026-02-28T05:00:00Z'
    const stage: Stage = {
      schedule: schedule({
        spec: { retentionPolicy: { keepLast: 1 } },
        status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
      }),
      children: [
        backup('2026-02-27T03:00:00Z'),
        backup('2026-02-28T03:00:00Z', { phase: 'Completed', deletionTimestamp }),
      ],
    }
    const desired = await tick(stage, '2026-02-28T06:00:00Z')
    t.equal(desired.children.length, 2)
    t.equal(desired.status.lastBackupName, 'nightly-20260227-030000')
  },
)

t.test(
  'a backup that is gone, though the cache shows it, saves nothing from pruning',
  async (t) => {
    const older = backup('2026-02-27T03:00:00Z')
    const stage: Stage = {
      schedule: schedule({
        spec: { retentionPolicy: { keepLast: 1 } },
        status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
      }),
      children: [older, backup('2026-02-28T03:00:00Z')],
      live: { backups: [older] },
    }
    t.strictSame(droppedNames(await tick(stage, '2026-02-28T06:00:00Z')), [])
  },
)

t.test('a backup is pruned only once the status that is shown tells of its slot', async (t) => {
  const days = ['2026-02-26', '2026-02-27', '2026-02-28']
  const children = days.map((day) => backup(`${day}T03:00:00Z`))
  const spec = { retentionPolicy: { keepLast: 1 } }
  const shown = async (status?: { lastScheduleTime: string }) =>
    tick(
      { schedule: schedule({ spec, ...(status && { status }) }), children },
      '2026-02-28T06:00:00Z',
    )
  const unrecorded = await shown()
  t.strictSame(droppedNames(unrecorded), [])
  t.equal(unrecorded.status.lastScheduleTime, '2026-02-28T03:00:00Z')
  t.equal(unrecorded.resyncAfterSeconds, 2)
  const behind = await shown({ lastScheduleTime: '2026-02-26T03:00:00Z' })
  t.strictSame(droppedNames(behind), ['nightly-20260226-030000'])
})

t.test('what the cache does not show yet is seen before a backup is made', async (t) => {
  const now = '2026-03-01T03:00:00Z'
  const status = { lastScheduleTime: '2026-02-28T03:00:00Z' }
  const with_ = async (live: Stage['live'], policy: 'Forbid' | 'Replace' = 'Forbid') => {
    const spec = { concurrencyPolicy: policy }
    const stage: Stage = {
      schedule: schedule({ status, spec }),
      children: [],
      ...(live && { live }),
    }
    const desired = await tick(stage, now)
    return { made: made(desired, stage).length, ...desired }
  }
  const runs = backup('2026-02-28T03:00:00Z', { phase: 'InProgress' })
  t.equal((await with_(undefined)).made, 1)
  t.equal((await with_({ backups: [backup(now)] })).made, 0, 'its backup')
  t.equal((await with_({ backups: [runs] })).made, 0, 'Forbid: one that runs')
  const replaced = await with_({ backups: [runs] }, 'Replace')
  t.equal(replaced.made, 0, 'Replace: one that runs and cannot be dropped yet')
  t.equal(replaced.resyncAfterSeconds, 2)

  const changed = schedule({ status })
  changed.metadata.generation = 2
  t.equal((await with_({ schedule: changed })).made, 0, 'another spec')
  const ending = schedule({ status, deletionTimestamp: now })
  t.equal((await with_({ schedule: ending })).made, 0, 'its deletion')
  t.equal((await with_({ schedule: undefined })).made, 0, 'its end')
  const namesake = schedule({ status })
  namesake.metadata.uid = 'uid-other'
  t.equal((await with_({ schedule: namesake })).made, 0, 'a namesake made later')
  const ahead = schedule({ status: { lastScheduleTime: now } })
  t.equal((await with_({ schedule: ahead })).made, 0, 'its status')
})

t.test(
  'lastScheduleTime never goes back when the schedule is shown late after a restart',
  async (t) => {
    const lastScheduleTime = '2026-02-28T03:00:00Z'
    const stage: Stage = {
      schedule: schedule({ spec: { suspend: true } }),
      children: [],
      live: { schedule: schedule({ spec: { suspend: true }, status: { lastScheduleTime } }) },
    }
    t.match((await tick(stage, '2026-02-28T06:00:00Z')).status, { lastScheduleTime })
  },
)

t.test('the room writes its Events and needs no related objects', async (t) => {
  const events: KubernetesEvent[] = []
  const stage: Stage = { schedule: schedule(), children: [] }
  const room = backupScheduleRoom(portsOf(stage, events))
  await tick(stage, '2026-03-01T03:00:00Z', room)
  t.match(events, [{ reason: 'BackupCreated' }])
  t.strictSame(room.customize(stage.schedule), [])
  t.strictSame(room.childKinds, ['VecBackup.vec-operator.dev/v1alpha1'])
})
