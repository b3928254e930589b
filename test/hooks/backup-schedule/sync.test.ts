/** Backups that a VecBackupSchedule creates and prunes, and its status. */
import t from 'tap'
import type { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { scheduleStatus } from '../../../hooks/backup-schedule/status.ts'
import { decide } from '../../../hooks/backup-schedule/tick.ts'
import { matchWhole } from '../../match-whole.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { cluster, settings } from '../../builders.ts'
import {
  hookRequest,
  backup,
  createdNames,
  fakePorts,
  prunedNames,
  schedule,
  tick,
  type ScheduleFixture,
} from './stage.ts'

t.test('a created backup has the slot in its name, the label and the copied spec', async (t) => {
  const spec = {
    collections: ['c'],
    clusterRef: { name: 'a', namespace: 'other' },
    method: 'Shard' as const,
    parallelism: 3,
  }
  const stage: ScheduleFixture = { schedule: schedule({ spec }), children: [] }
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
  matchWhole(t, events, [{ reason: 'BackupCreated', message: /nightly-20260301-030000/ }])
})

t.test('retain-objects of the schedule is on every child, from its creation on', async (t) => {
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const stage: ScheduleFixture = {
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
          message: 'backups are created as scheduled',
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

t.test(
  'Suspended: no backup is created, retention continues, lastScheduleTime is frozen',
  async (t) => {
    const stage: ScheduleFixture = {
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
      nextBackupTime: undefined,
    })
    t.strictSame(desired.pruned, [
      {
        kind: 'VecBackup',
        name: 'nightly-20260227-030000',
        reason: 'no rule of spec.retentionPolicy keeps it',
      },
    ])
    t.strictSame(
      desired.children.map(({ metadata }) => metadata.name),
      ['nightly-20260228-030000'],
      'a pruned backup is no child',
    )
    matchWhole(t, desired.events, [{ type: 'Normal', reason: 'BackupDropped' }])
  },
)

t.test('a backup that the API server refuses is reported, and created again', async (t) => {
  const stage = { schedule: schedule(), children: [] }
  const hooks = backupScheduleHooks(fakePorts(stage))
  const readyAt = async (seconds: string) => {
    const desired = await tick(stage, `2026-03-01T03:00:${seconds}Z`, hooks)
    t.strictSame(createdNames(desired, stage), ['nightly-20260301-030000'])
    const [ready] = desired.status.conditions ?? []
    return [ready?.status, ready?.reason, ready?.message]
  }
  const scheduled = ['True', 'Scheduled', 'backups are created as scheduled']
  t.strictSame(await readyAt('00'), scheduled)
  t.strictSame(await readyAt('09'), scheduled, 'Metacontroller may not have created it yet')
  t.strictSame(await readyAt('10'), [
    'False',
    'BackupNotCreated',
    'VecBackup nightly-20260301-030000 could not be created: kubectl describe vecbackupschedule nightly -n ns shows the cause in an Event, such as a quota or an admission webhook',
  ])
})

t.test('a creation that was never answered is not called refused', async (t) => {
  const stage = { schedule: schedule(), children: [] }
  const hooks = backupScheduleHooks(fakePorts(stage))
  // It took longer than a hook may take.
  await hooks.sync(hookRequest(stage), { now: new Date('2026-03-01T03:00:00Z'), settings })
  for (const seconds of ['20', '29', '30']) {
    const { status } = await tick(stage, `2026-03-01T03:00:${seconds}Z`, hooks)
    const expected = seconds === '30' ? 'BackupNotCreated' : 'Scheduled'
    t.equal(status.conditions?.[0]?.reason, expected, seconds)
  }
})

t.test('no next slot is announced while the cluster is hibernated', async (t) => {
  const stage = {
    schedule: schedule(),
    children: [],
    related: [cluster({ status: { phase: 'Hibernated' } })],
  }
  const { status } = await tick(stage, '2026-03-20T12:00:00Z')
  t.equal(status.conditions?.[0]?.reason, 'ClusterHibernated')
  t.equal(status.nextBackupTime, undefined)
})

t.test(
  'no next slot is announced while the schedule is suspended, whatever Ready says',
  async (t) => {
    const requestTime = '2026-03-20T11:59:30Z'
    const name = 'nightly-20260320-115930'
    const hibernationBackup = { scheduleName: 'nightly', name, requestTime, afterRun: 1 }
    const stage: ScheduleFixture = {
      schedule: schedule({ spec: { suspend: true } }),
      children: [],
      live: { others: [backup(requestTime)] },
      related: [
        cluster({ spec: { hibernate: true }, status: { phase: 'Running', hibernationBackup } }),
      ],
    }
    const { status } = await tick(stage, '2026-03-20T12:00:00Z')
    t.equal(status.conditions?.[0]?.reason, 'NameConflict')
    t.equal(status.nextBackupTime, undefined)
  },
)

t.test('a suspended schedule does not call itself scheduled when it is read again', async (t) => {
  const suspended = schedule({
    spec: { suspend: true, retentionPolicy: { keepLast: 1 } },
    status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
  })
  const children = [backup('2026-02-27T03:00:00Z'), backup('2026-02-28T03:00:00Z')]
  const newer = { ...suspended, metadata: { ...suspended.metadata, generation: 2 } }
  const stage: ScheduleFixture = { schedule: suspended, children, live: { schedule: newer } }
  const { status } = await tick(stage, '2026-03-20T12:00:00Z')
  t.equal(status.conditions?.[0]?.reason, 'Suspended')
})

t.test('a backup that an unfinished VecRestore names is deleted once that has ended', async (t) => {
  const children = [25, 26, 27].map((day) => backup(`2026-02-${day}T03:00:00Z`))
  const stage: ScheduleFixture = {
    schedule: schedule({
      spec: { retentionPolicy: { keepLast: 1 }, suspend: true },
      status: { lastScheduleTime: '2026-02-27T03:00:00Z' },
    }),
    children,
    live: { toRestore: new Map([['nightly-20260225-030000', [{ namespace: 'ns', name: 'r' }]]]) },
  }
  const desired = await tick(stage, '2026-02-28T12:00:00Z')
  t.strictSame(prunedNames(desired), ['nightly-20260226-030000'])
  t.strictSame(
    desired.children.map(({ metadata }) => metadata.name),
    ['nightly-20260225-030000', 'nightly-20260227-030000'],
  )
  const left = [children[0], children[2]].filter((one) => one !== undefined)
  const waiting = await tick({ ...stage, children: left }, '2026-02-28T12:01:00Z')
  t.strictSame(prunedNames(waiting), [])
  const ended = { ...stage, children: left, live: {} }
  t.strictSame(prunedNames(await tick(ended, '2026-02-28T12:02:00Z')), ['nightly-20260225-030000'])
})

const NEEDED =
  'no rule of spec.retentionPolicy keeps these backups; they are deleted after the restores that name them: '

/** Backups of these days in February 2026, of which retention keeps the newest. */
function keepLastOf(...days: number[]): ScheduleFixture {
  return {
    schedule: schedule({
      spec: { retentionPolicy: { keepLast: 1 }, suspend: true },
      status: { lastScheduleTime: '2026-02-27T03:00:00Z' },
    }),
    children: days.map((day) => backup(`2026-02-${day}T03:00:00Z`)),
  }
}

t.test('a condition and an Event say which backups are retained for restores', async (t) => {
  const stage = keepLastOf(25, 26, 27)
  const restore = (name: string) => ({ namespace: 'team', name })
  const [first, second] = ['nightly-20260225-030000', 'nightly-20260226-030000'] as const
  const toRestore = new Map([
    [first, [restore('b'), restore('a')]],
    [second, [restore('c')]],
  ])
  const needed = await tick({ ...stage, live: { toRestore } }, '2026-02-28T12:00:00Z')
  const message = `${NEEDED}${second} (VecRestore team/c); ${first} (VecRestore team/a, VecRestore team/b)`
  const condition = {
    type: 'RetentionApplied',
    status: 'False',
    reason: 'NeededByRestore',
    message,
  }
  t.match(needed.status.conditions?.[1], condition)
  const eventsOf = ({ events = [] }: typeof needed) =>
    events
      .filter(({ reason }) => reason === 'NeededByRestore')
      .map(({ type, message: text }) => [type, text])
  t.strictSame(eventsOf(needed), [['Normal', message]])
  const status = needed.status
  const changed = { ...stage, schedule: { ...stage.schedule, status } }
  const again = await tick({ ...changed, live: { toRestore } }, '2026-02-28T12:01:00Z')
  t.strictSame([again.status.conditions, eventsOf(again)], [needed.status.conditions, []], 'once')

  const generation = { ...changed.schedule.metadata, generation: 2 }
  const stale = { toRestore, schedule: { ...changed.schedule, metadata: generation } }
  const unknown = await tick({ ...changed, live: stale }, '2026-02-28T12:02:00Z')
  t.strictSame(
    [unknown.status.conditions?.[1], eventsOf(unknown), prunedNames(unknown)],
    [needed.status.conditions?.[1], [], []],
    'it stays as it is while the schedule in the request is stale',
  )

  toRestore.delete(second)
  const fewer = await tick({ ...changed, live: { toRestore } }, '2026-02-28T12:03:00Z')
  t.strictSame(prunedNames(fewer), [second])
  t.strictSame(eventsOf(fewer), [
    ['Normal', `${NEEDED}${first} (VecRestore team/a, VecRestore team/b)`],
  ])
  const ended = await tick(changed, '2026-02-28T12:04:00Z')
  t.equal(ended.status.conditions?.length, 1)
})

t.test(
  'a backup that a restore drill reads is named without the VecRestore of the drill',
  async (t) => {
    const drill = {
      backupName: 'nightly-20260225-030000',
      ...{ slot: '2026-02-26T00:00:00Z', startTime: '2026-02-26T00:00:00Z' },
    }
    const stage = keepLastOf(25, 27)
    const status = { ...stage.schedule.status, drill }
    const toRestore = new Map([[drill.backupName, [{ namespace: 'ns', name: 'nightly-drill' }]]])
    const found = decide(
      {
        ...{
          schedule: { ...stage.schedule, status } as VecBackupSchedule,
          children: stage.children,
        },
        live: { schedule: stage.schedule, backups: stage.children, toRestore },
      },
      new Date('2026-02-28T12:00:00Z'),
    )
    t.strictSame(found.prune, [])
    t.strictSame(found.retained?.needed, [
      { name: drill.backupName, neededBy: 'the restore drill' },
    ])
  },
)

t.test('a rule that becomes stricter drops many backups, and that is one Event', async (t) => {
  const days = Array.from({ length: 9 }, (_, day) => backup(`2026-02-2${day}T03:00:00Z`))
  const stage: ScheduleFixture = {
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

t.test(
  'an invalid expression is a condition with the parser’s message, and retention continues',
  async (t) => {
    const stage: ScheduleFixture = {
      schedule: schedule({
        spec: { schedule: '0 0 30 2 *', retentionPolicy: { keepLast: 1 } },
        status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
      }),
      children: [backup('2026-02-27T03:00:00Z'), backup('2026-02-28T03:00:00Z')],
    }
    const desired = await tick(stage, '2026-03-20T12:00:00Z')
    matchWhole(t, desired.status.conditions, [
      {
        status: 'False',
        reason: 'InvalidSchedule',
        message: 'spec.schedule: Invalid explicit day of month definition',
      },
    ])
    t.equal(desired.status.nextBackupTime, undefined)
    t.strictSame(prunedNames(desired), ['nightly-20260227-030000'])
    t.equal(desired.resyncAfterSeconds, 60)
  },
)

t.test('a condition shows no more than 1024 characters', async (t) => {
  const message = `${'a'.repeat(1024)}b`
  const ready = { type: 'Ready', status: 'False', reason: 'InvalidSchedule', message } as const
  const request = { schedule: schedule(), children: [] }
  const { conditions } = scheduleStatus(request, { ready }, new Date('2026-03-20T12:00:00Z'))
  t.strictSame(
    conditions?.map((condition) => condition.message),
    ['a'.repeat(1024)],
  )
})

t.test('a blocker is an Event, once', async (t) => {
  const stage: ScheduleFixture = {
    schedule: schedule({ spec: { schedule: '0 0 30 2 *' } }),
    children: [],
  }
  const first = await tick(stage, '2026-03-20T12:00:00Z')
  matchWhole(t, first.events, [{ type: 'Warning', reason: 'InvalidSchedule' }])
  const again = { ...stage, schedule: { ...stage.schedule, status: first.status } }
  t.strictSame((await tick(again, '2026-03-20T12:01:00Z')).events, [])
})

t.test('the next sync is at the next slot, at the latest in 60 s', async (t) => {
  const stage: ScheduleFixture = {
    schedule: schedule({ status: { lastScheduleTime: '2026-02-28T03:00:00Z' } }),
    children: [],
  }
  const at = async (now: string) => (await tick(stage, now)).resyncAfterSeconds
  t.equal(await at('2026-03-01T02:59:47.700Z'), 12.3)
  t.equal(await at('2026-03-01T02:59:59.990Z'), 0.1)
  t.equal(await at('2026-03-01T02:00:00Z'), 60)
})
