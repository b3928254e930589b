/** deletionPolicy of a schedule: its backups get it, and retention deletes objects whatever it says. */
import t from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, prunedNames, createdNames, schedule, tick, type ScheduleFixture } from './stage.ts'

const OLD = '2026-02-27T03:00:00Z'
const NEW = '2026-02-28T03:00:00Z'
const status = { lastScheduleTime: NEW }
const NOON = '2026-02-28T12:00:00Z'

function withPolicy(original: VecBackup, deletionPolicy: 'Delete' | 'Retain'): VecBackup {
  return { ...original, spec: { ...original.spec, deletionPolicy } }
}

function pruned(original: VecBackup): VecBackup {
  const annotations = { [ANNOTATIONS.pruned]: 'no rule of spec.retentionPolicy keeps it' }
  return { ...original, metadata: { ...original.metadata, annotations } }
}

for (const deletionPolicy of ['Delete', 'Retain'] as const) {
  t.test(
    `deletionPolicy ${deletionPolicy} is on new backups and on those that are there`,
    async (t) => {
      const parent = schedule({ spec: { deletionPolicy }, status })
      const children = [backup(OLD), withPolicy(backup(NEW), 'Retain')]
      const stage: ScheduleFixture = { schedule: parent, children }
      const desired = await tick(stage, '2026-03-01T03:00:00Z')
      t.equal(createdNames(desired, stage).length, 1)
      t.strictSame(
        desired.children.map(({ spec }) => (spec as VecBackup['spec']).deletionPolicy),
        [deletionPolicy, deletionPolicy, deletionPolicy],
      )
    },
  )
}

t.test('without one, what a user set on a backup is none of the answer: so it stays', async (t) => {
  const children = [withPolicy(backup(NEW), 'Retain')]
  const desired = await tick({ schedule: schedule({ status }), children }, NOON)
  t.strictSame(
    desired.children.map(({ metadata: { name } }) => name),
    children.map(({ metadata: { name } }) => name),
  )
  const { deletionPolicy: _, ...spec } = children[0]?.spec ?? {}
  t.strictSame(desired.children[0]?.['spec'], spec)
})

t.test('retention marks a backup that retains before it deletes it', async (t) => {
  const spec = { deletionPolicy: 'Retain', retentionPolicy: { keepLast: 1 } } as const
  const parent = schedule({ spec, status })
  const [old, latest] = [withPolicy(backup(OLD), 'Retain'), withPolicy(backup(NEW), 'Retain')]
  const first = await tick({ schedule: parent, children: [old, latest] }, NOON)
  t.strictSame(prunedNames(first), [])
  t.strictSame(
    first.children.map(({ metadata }) => metadata.annotations),
    [{ [ANNOTATIONS.pruned]: 'no rule of spec.retentionPolicy keeps it' }, undefined],
  )
  t.equal(first.resyncAfterSeconds, 2)
  t.strictSame(first.events, [])
  const second = await tick({ schedule: parent, children: [pruned(old), latest] }, NOON)
  t.strictSame(prunedNames(second), [old.metadata.name])
  matchWhole(t, second.events, [{ reason: 'BackupDropped' }])
})

t.test(
  'a mark that only the cache shows, or only the live backup, deletes as it lives',
  async (t) => {
    const spec = { deletionPolicy: 'Retain', retentionPolicy: { keepLast: 1 } } as const
    const parent = schedule({ spec, status })
    const [old, latest] = [withPolicy(backup(OLD), 'Retain'), withPolicy(backup(NEW), 'Retain')]
    const late = {
      schedule: parent,
      children: [old, latest],
      live: { backups: [pruned(old), latest] },
    }
    t.strictSame(prunedNames(await tick(late, NOON)), [old.metadata.name])
    const gone = {
      schedule: parent,
      children: [pruned(old), latest],
      live: { backups: [old, latest] },
    }
    t.strictSame(prunedNames(await tick(gone, NOON)), [])
  },
)

t.test('a backup that is kept again loses its mark', async (t) => {
  const parent = schedule({ spec: { deletionPolicy: 'Retain' }, status })
  const children = [pruned(withPolicy(backup(OLD), 'Retain')), withPolicy(backup(NEW), 'Retain')]
  const { children: answered } = await tick({ schedule: parent, children }, NOON)
  t.strictSame(
    answered.map(({ metadata }) => metadata.annotations),
    [undefined, undefined],
  )
})

t.test(
  'Replace marks the one that runs first, and makes the next once that is there',
  async (t) => {
    const spec = { deletionPolicy: 'Retain', concurrencyPolicy: 'Replace' } as const
    const parent = schedule({ spec, status })
    const running = withPolicy(backup(NEW, { phase: 'InProgress' }), 'Retain')
    const stage: ScheduleFixture = { schedule: parent, children: [running] }
    const first = await tick(stage, '2026-03-01T03:00:00Z')
    t.strictSame([createdNames(first, stage), prunedNames(first)], [[], []])
    t.ok(first.children[0]?.metadata.annotations?.[ANNOTATIONS.pruned])
    const again: ScheduleFixture = { schedule: parent, children: [pruned(running)] }
    const second = await tick(again, '2026-03-01T03:00:02Z')
    t.strictSame(prunedNames(second), [running.metadata.name])
    t.equal(createdNames(second, again).length, 1)
  },
)
