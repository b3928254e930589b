import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { observeDeletion } from '../../../hooks/backup-schedule/finalize.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, fakePorts, hookRequest, schedule, type ScheduleFixture } from './stage.ts'

const SLOT = '2026-02-28T03:00:00Z'
const deletionTimestamp = '2026-03-01T11:00:00Z'
const retained = schedule({
  annotations: { [ANNOTATIONS.retainObjects]: 'true' },
  status: { phase: 'Active', lastScheduleTime: SLOT },
  deletionTimestamp,
})

async function finalized(
  stage: ScheduleFixture,
): Promise<Desired<NonNullable<VecBackupSchedule['status']>>> {
  const hooks = backupScheduleHooks(fakePorts(stage))
  const request = hookRequest(stage)
  const desired = await hooks.finalize?.(request, context)
  if (desired === undefined) throw new Error('the hooks have no finalize')
  answerValidator(hooks)(request, desired, 'finalize')
  return desired as Desired<NonNullable<VecBackupSchedule['status']>>
}

t.test(
  'backups are deleted with their schedule, without a wait and without new backups',
  async (t) => {
    const children = [backup(SLOT), backup('2026-03-01T03:00:00Z', { phase: 'InProgress' })]
    const desired = await finalized({ schedule: schedule({ deletionTimestamp }), children })
    t.equal(desired.finalized, true)
    t.equal(desired.children.length, 2)
  },
)

t.test('retain-objects: waits until every backup carries it (H2)', async (t) => {
  const children = [backup('2026-02-27T03:00:00Z', { phase: 'Completed', retain: 'true' }), backup(SLOT)] // prettier-ignore
  const desired = await finalized({ schedule: retained, children })
  t.equal(desired.finalized, undefined)
  t.equal(desired.resyncAfterSeconds, 2)
  matchWhole(t, desired.status, {
    phase: 'Active',
    lastScheduleTime: SLOT,
    conditions: [{ reason: 'Deleting', message: /nightly-20260228-030000 has vec-operator.dev\/retain-objects or is deleted$/ }], // prettier-ignore
  })
  t.strictSame(
    desired.children.map(({ metadata }) => metadata.annotations?.[ANNOTATIONS.retainObjects]),
    ['true', 'true'],
  )
})

t.test('retain-objects: a backup that is being deleted gets it too, in any spelling', async (t) => {
  const misspelt = schedule({
    annotations: { [ANNOTATIONS.retainObjects]: 'True' },
    deletionTimestamp,
  })
  const children = [backup(SLOT, { phase: 'Completed', deletionTimestamp })]
  t.equal((await finalized({ schedule: misspelt, children })).finalized, undefined)
})

t.test('retain-objects: done once they do', async (t) => {
  const children = [backup(SLOT, { phase: 'Completed', retain: 'true' })]
  t.equal((await finalized({ schedule: retained, children })).finalized, true)
})

t.test(
  'one that is deleted already asks the schedule, which is there until it is gone',
  async (t) => {
    const children = [backup(SLOT, { phase: 'Completed', deletionTimestamp })]
    t.equal((await finalized({ schedule: retained, children })).finalized, undefined)
    const retaining = schedule({ spec: { deletionPolicy: 'Retain' }, deletionTimestamp })
    t.equal((await finalized({ schedule: retaining, children })).finalized, undefined)
    t.equal((await finalized({ schedule: retaining, children: [] })).finalized, true)
    const deleting = schedule({ spec: { deletionPolicy: 'Delete' }, deletionTimestamp })
    t.equal((await finalized({ schedule: deleting, children })).finalized, true)
  },
)

t.test('deletionPolicy: waits until every backup carries it', async (t) => {
  for (const deletionPolicy of ['Retain', 'Delete'] as const) {
    const parent = schedule({ spec: { deletionPolicy }, deletionTimestamp })
    const bare = backup(SLOT)
    const waiting = await finalized({ schedule: parent, children: [bare] })
    t.equal(waiting.finalized, undefined)
    matchWhole(t, waiting.status.conditions, [
      {
        reason: 'Deleting',
        message: `waiting until backup nightly-20260228-030000 has spec.deletionPolicy ${deletionPolicy} or is deleted`,
      },
    ])
    matchWhole(t, waiting.children, [{ spec: { deletionPolicy } }])
    const carrying = { ...bare, spec: { ...bare.spec, deletionPolicy } }
    t.equal((await finalized({ schedule: parent, children: [carrying] })).finalized, true)
  }
})

t.test('retain-objects: waits for one that the cache does not show yet', async (t) => {
  const stage: ScheduleFixture = {
    schedule: retained,
    children: [],
    live: { backups: [backup(SLOT)] },
  }
  const waiting = await finalized(stage)
  t.equal(waiting.finalized, undefined)
  matchWhole(t, waiting.status.conditions, [
    {
      reason: 'Deleting',
      message: /nightly-20260228-030000 has vec-operator.dev\/retain-objects or is deleted$/,
    },
  ])
  t.equal((await finalized({ ...stage, live: { backups: [] } })).finalized, true)
})

t.test('retain-objects on a single backup does not delay the deletion', async (t) => {
  const children = [backup(SLOT, { phase: 'Completed', retain: 'true' })]
  const desired = await finalized({ schedule: schedule({ deletionTimestamp }), children })
  t.equal(desired.finalized, true)
})

t.test('the cache of a deleted schedule is dropped, and no other', async (t) => {
  const stage: ScheduleFixture = { schedule: retained, children: [] }
  const marks = new Map([
    [retained.metadata.uid, new Date(SLOT)],
    ['uid-of-another', new Date(SLOT)],
  ])
  const requested = new Map([
    [retained.metadata.uid, { name: 'a', since: new Date(SLOT) }],
    ['uid-of-another', { name: 'b', since: new Date(SLOT) }],
  ])
  const dependencies = { ports: fakePorts(stage), lastSlots: marks, requested }
  await observeDeletion(hookRequest(stage), dependencies)
  t.strictSame([...marks.keys()], ['uid-of-another'])
  t.strictSame([...requested.keys()], ['uid-of-another'])
})

t.test('a schedule without backups is finalized immediately', async (t) => {
  const desired = await finalized({ schedule: schedule({ deletionTimestamp }), children: [] })
  t.strictSame(desired, { status: {}, children: [], finalized: true })
})
