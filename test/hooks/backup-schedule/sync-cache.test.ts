/** A VecBackupSchedule among backups that are not its own, or that the cache does not show yet. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { cluster } from '../../builders.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  backup,
  prunedNames,
  createdNames,
  fakePorts,
  schedule,
  tick,
  type ScheduleFixture,
} from './stage.ts'

t.test('a VecBackup of that name which is not ours is not changed and is named', async (t) => {
  const foreign = backup('2026-03-01T03:00:00Z')
  foreign.metadata.uid = 'uid-of-another'
  const stage: ScheduleFixture = { schedule: schedule(), children: [], live: { others: [foreign] } }
  const desired = await tick(stage, '2026-03-01T03:00:00Z')
  t.strictSame(desired.children, [])
  matchWhole(t, desired.status.conditions, [
    { status: 'False', reason: 'NameConflict', message: /^VecBackup nightly-20260301-030000 / },
  ])
  t.equal(desired.status.lastScheduleTime, undefined)
})

t.test('a slot of a clock that was years ahead counts only while its backup exists', async (t) => {
  const status = { lastScheduleTime: '2036-03-01T03:00:00Z' }
  const [yesterday, ahead] = [backup('2026-02-28T03:00:00Z'), backup('2036-03-01T03:00:00Z')]
  const stage: ScheduleFixture = { schedule: schedule({ status }), children: [yesterday, ahead] }
  const hooks = backupScheduleHooks(fakePorts(stage))
  const now = '2026-03-01T03:10:00Z'
  const waits = await tick(stage, now, hooks)
  t.strictSame(createdNames(waits, stage), [])
  matchWhole(t, waits.status.conditions, [
    {
      ...{ status: 'False', reason: 'ClockSkew' },
      message:
        'the last slot 2036-03-01T03:00:00Z is ahead of the clock; no backup is created until then, or until VecBackup nightly-20360301-030000 is deleted',
    },
  ])
  // The cache shows it after the API server.
  const lagging = { ...stage, children: [yesterday] }
  t.strictSame(createdNames(await tick(lagging, now, hooks), lagging), [])
  stage.children.pop()
  const continued = await tick(stage, now, hooks)
  t.strictSame(createdNames(continued, stage), ['nightly-20260301-030000'])
  t.equal(continued.status.lastScheduleTime, '2026-02-28T03:00:00Z')
})

t.test('a slot that is hours ahead of the clock counts without its backup', async (t) => {
  const status = { lastScheduleTime: '2026-03-02T03:00:00Z' }
  const stage = { schedule: schedule({ status }), children: [backup('2026-02-28T03:00:00Z')] }
  const desired = await tick(stage, '2026-03-01T03:10:00Z')
  t.strictSame(createdNames(desired, stage), [])
  t.equal(desired.status.conditions?.[0]?.reason, 'ClockSkew')
  t.equal(desired.status.lastScheduleTime, status.lastScheduleTime)
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
  t.equal(desired.pruned, undefined)
  t.equal(desired.status.recentBackups?.length, 1)
})

t.test(
  'a backup that is being deleted is not active, retained or newest, and stays a child',
  async (t) => {
    const deletionTimestamp = '2026-02-28T05:00:00Z'
    const stage: ScheduleFixture = {
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
    const stage: ScheduleFixture = {
      schedule: schedule({
        spec: { retentionPolicy: { keepLast: 1 } },
        status: { lastScheduleTime: '2026-02-28T03:00:00Z' },
      }),
      children: [older, backup('2026-02-28T03:00:00Z')],
      live: { backups: [older] },
    }
    t.strictSame(prunedNames(await tick(stage, '2026-02-28T06:00:00Z')), [])
    const { live: _, ...there } = stage
    t.strictSame(prunedNames(await tick(there, '2026-02-28T06:00:00Z')), [older.metadata.name])
  },
)

t.test('a backup is pruned only once the observed status has its slot', async (t) => {
  const days = ['2026-02-26', '2026-02-27', '2026-02-28']
  const children = days.map((day) => backup(`${day}T03:00:00Z`))
  const spec = { retentionPolicy: { keepLast: 1 } }
  const call = async (status?: { lastScheduleTime: string }) =>
    tick(
      { schedule: schedule({ spec, ...(status && { status }) }), children },
      '2026-02-28T06:00:00Z',
    )
  const unrecorded = await call()
  t.strictSame(prunedNames(unrecorded), [])
  t.equal(unrecorded.status.lastScheduleTime, '2026-02-28T03:00:00Z')
  t.equal(unrecorded.resyncAfterSeconds, 2)
  const behind = await call({ lastScheduleTime: '2026-02-26T03:00:00Z' })
  t.strictSame(prunedNames(behind), ['nightly-20260226-030000'])
})

t.test('what the cache does not show yet is seen before a backup is created', async (t) => {
  const now = '2026-03-01T03:00:00Z'
  const status = { lastScheduleTime: '2026-02-28T03:00:00Z' }
  const with_ = async (live: ScheduleFixture['live'], policy: 'Forbid' | 'Replace' = 'Forbid') => {
    const spec = { concurrencyPolicy: policy }
    const stage: ScheduleFixture = {
      schedule: schedule({ status, spec }),
      children: [],
      ...(live && { live }),
    }
    const desired = await tick(stage, now)
    return { made: createdNames(desired, stage).length, ...desired }
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
  const deleted = schedule({ status, deletionTimestamp: now })
  t.equal((await with_({ schedule: deleted })).made, 0, 'its deletion')
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
    const stage: ScheduleFixture = {
      schedule: schedule({ spec: { suspend: true } }),
      children: [],
      live: { schedule: schedule({ spec: { suspend: true }, status: { lastScheduleTime } }) },
    }
    t.match((await tick(stage, '2026-02-28T06:00:00Z')).status, { lastScheduleTime })
  },
)

t.test('where no backup is due and none goes, none is read live', async (t) => {
  const stage: ScheduleFixture = {
    schedule: schedule({ status: { lastScheduleTime: '2026-02-28T03:00:00Z' } }),
    children: [backup('2026-02-28T03:00:00Z')],
  }
  let looks = 0
  const ports = fakePorts(stage)
  const counted = {
    ...ports,
    backupsOf: async (owner: Parameters<typeof ports.backupsOf>[0]) => {
      looks += 1
      return ports.backupsOf(owner)
    },
  }
  const hooks = backupScheduleHooks(counted)
  await tick(stage, '2026-02-28T04:00:00Z', hooks)
  t.equal(looks, 0)
  await tick(stage, '2026-03-01T03:00:00Z', hooks)
  t.equal(looks, 1)
})

t.test('the hooks write their Events and read only the cluster of the backups', async (t) => {
  const events: KubernetesEvent[] = []
  const stage: ScheduleFixture = { schedule: schedule(), children: [] }
  const hooks = backupScheduleHooks(fakePorts(stage, events))
  await tick(stage, '2026-03-01T03:00:00Z', hooks)
  matchWhole(t, events, [{ reason: 'BackupCreated' }])
  t.strictSame(hooks.customize(stage.schedule), [
    {
      ...{ apiVersion: 'vec-operator.dev/v1alpha1', resource: 'vecclusters' },
      ...{ namespace: 'ns', names: ['a'] },
    },
  ])
  const kinds = ['VecBackup', 'VecCluster', 'VecRestore']
  t.strictSame(
    hooks.childKinds,
    kinds.map((kind) => `${kind}.vec-operator.dev/v1alpha1`),
  )
})

t.test('the cluster is read from the request, if this namespace may use it', async (t) => {
  const hibernated = (allowed: string) =>
    cluster({
      ...{ namespace: 'other', status: { phase: 'Hibernated' } },
      annotations: { [ANNOTATIONS.allowedNamespaces]: allowed },
    })
  const reasonWith = async (allowed: string) => {
    const clusterRef = { name: 'a', namespace: 'other' }
    const stage: ScheduleFixture = {
      ...{ schedule: schedule({ spec: { clusterRef } }), children: [] },
      related: [hibernated(allowed)],
    }
    const { status, events = [] } = await tick(stage, '2026-03-01T03:00:00Z')
    return [status.conditions?.[0]?.reason, events.map(({ reason }) => reason)]
  }
  t.strictSame(await reasonWith('ns'), ['ClusterHibernated', []])
  t.strictSame(await reasonWith('third'), ['Scheduled', ['BackupCreated']])
})
