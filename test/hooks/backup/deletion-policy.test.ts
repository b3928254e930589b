/** The objects of a deleted backup, by who deletes it and by the policies. */
import t, { type Test } from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import {
  deletionActionFor,
  scheduleOf,
  type DeletionAction,
  type SchedulePolicy,
} from '../../../hooks/backup/deletion-policy.ts'
import { ago } from '../../builders.ts'
import { hookRequest } from '../request.ts'
import { callHook } from './call-hook.ts'
import { backup, bucketKeys } from './objects.ts'

type Policy = 'Delete' | 'Retain' | undefined
const RETAIN = { [ANNOTATIONS.retainObjects]: 'true' }

interface Case {
  by: 'user' | 'retention' | 'retentionDays'
  own: Policy
  /** Policy of its schedule; null without a schedule. */
  schedule: Policy | null
  annotated: 'backup' | 'schedule' | 'none'
  isNamespaceTerminating: boolean
}

/** The rule of the documentation, in another order than the code. */
function expected({ by, own, schedule, annotated, isNamespaceTerminating }: Case): DeletionAction {
  const isByUser = by === 'user'
  if (annotated === 'backup' || (annotated === 'schedule' && schedule !== null)) return 'retain'
  if (!isByUser) return 'delete'
  if (own === 'Retain' || schedule === 'Retain') return 'retain'
  if (own === 'Delete' || schedule === 'Delete') return 'delete'
  return isNamespaceTerminating ? 'retain in a deleted namespace' : 'delete'
}

function deleted({ by, own, annotated }: Case): VecBackup {
  const expired = {
    ...{ type: 'Expired', status: 'True' as const, reason: 'RetentionDaysPassed' },
    ...{ message: 'x', lastTransitionTime: ago(5) },
  }
  return backup({
    ...(own !== undefined && { spec: { deletionPolicy: own } }),
    status: { phase: 'Completed', ...(by === 'retentionDays' && { conditions: [expired] }) },
    annotations: {
      ...(by === 'retention' && { [ANNOTATIONS.pruned]: 'no rule keeps it' }),
      ...(annotated === 'backup' && RETAIN),
    },
  })
}

function policyOf({ schedule, annotated }: Case): SchedulePolicy | undefined {
  if (schedule === null) return undefined
  return {
    uid: 'uid-nightly',
    ...(annotated === 'schedule' && { annotations: RETAIN }),
    ...(schedule !== undefined && { deletionPolicy: schedule }),
  }
}

t.test('every combination of deleter, policies, annotations and namespace', async (t) => {
  const policies = [undefined, 'Delete', 'Retain'] as const
  for (const by of ['user', 'retention', 'retentionDays'] as const) {
    for (const own of policies) {
      for (const schedule of [null, ...policies]) {
        for (const annotated of ['none', 'backup', 'schedule'] as const) {
          for (const isNamespaceTerminating of [false, true]) {
            const one: Case = { by, own, schedule, annotated, isNamespaceTerminating }
            const found = deletionActionFor(deleted(one), {
              schedule: policyOf(one),
              isNamespaceTerminating,
            })
            t.equal(found, expected(one), JSON.stringify(one))
          }
        }
      }
    }
  }
})

t.test('a backup is of the schedule that controls it, and of no other owner', async (t) => {
  const { apiVersion, metadata, ...rest } = backup()
  const owner = { apiVersion, kind: 'VecBackupSchedule', name: 'nightly', uid: 'uid-nightly' }
  const controller = { ...owner, controller: true }
  const others = [
    { ...controller, kind: 'VecCluster' },
    { ...owner, uid: 'uid-2' },
    { ...owner, controller: false, uid: 'uid-3' },
  ]
  const scheduleWith = (ownerReferences: typeof others) =>
    scheduleOf({ ...rest, apiVersion, metadata: { ...metadata, ownerReferences } })
  t.strictSame(scheduleWith([...others, controller]), controller)
  t.equal(scheduleWith(others), undefined)
  t.equal(scheduleOf(backup()), undefined)
})

t.test('a backup whose schedule is gone is deleted with its objects', async (t) => {
  const ports = { schedulePolicy: async () => undefined }
  t.equal((await purgesOf(t, madeBySchedule(), ports)).purges, 1)
})

t.test(
  'retain-objects retains with each value but false: a misspelt one deletes nothing',
  async (t) => {
    for (const [value, action] of [
      ['true', 'retain'],
      ['True', 'retain'],
      ['yes', 'retain'],
      ['', 'retain'],
      ['false', 'delete'],
      ['False', 'delete'],
    ] as const) {
      const annotations = { [ANNOTATIONS.retainObjects]: value }
      const found = deletionActionFor(backup({ annotations }), { isNamespaceTerminating: false })
      t.equal(found, action, value)
    }
  },
)

/** A backup that was started and is being deleted. */
function deletedBackup(parts: Parameters<typeof backup>[0] = {}) {
  const status = { phase: 'Completed', startTime: ago(900) } as const
  return backup({ deletionTimestamp: ago(5), status, ...parts })
}

function madeBySchedule(uid = 'uid-nightly'): VecBackup {
  const made = deletedBackup()
  const owner = { apiVersion: made.apiVersion, kind: 'VecBackupSchedule', name: 'nightly', uid }
  made.metadata.ownerReferences = [{ ...owner, controller: true }]
  return made
}

async function purgesOf(t: Test, parent: VecBackup, answers: Parameters<typeof callHook>[2] = {}) {
  let purges = 0
  const { desired, written } = await callHook('finalize', hookRequest(parent), {
    secret: async () => bucketKeys,
    async purge() {
      purges += 1
      return { done: true }
    },
    ...answers,
  })
  t.equal(desired.finalized, true)
  return { purges, written }
}

t.test(
  'deletionPolicy Retain: the resource is deleted without an Event and its objects stay',
  async (t) => {
    const retained = deletedBackup({ spec: { deletionPolicy: 'Retain' } })
    t.strictSame(await purgesOf(t, retained), { purges: 0, written: [] })
    t.equal((await purgesOf(t, deletedBackup({ spec: { deletionPolicy: 'Delete' } }))).purges, 1)
    t.equal((await purgesOf(t, deletedBackup())).purges, 1, 'absent means Delete')
  },
)

t.test('the policy of the schedule counts for a backup without it (M8)', async (t) => {
  const asked: string[] = []
  const says = (policy: Omit<SchedulePolicy, 'uid'>) => ({
    async schedulePolicy(namespace: string, name: string) {
      asked.push(`${namespace}/${name}`)
      return { uid: 'uid-nightly', ...policy }
    },
  })
  t.equal((await purgesOf(t, madeBySchedule(), says({ annotations: RETAIN }))).purges, 0)
  t.equal((await purgesOf(t, madeBySchedule(), says({ deletionPolicy: 'Retain' }))).purges, 0)
  t.equal((await purgesOf(t, madeBySchedule(), says({}))).purges, 1)
  t.strictSame(asked, ['ns/nightly', 'ns/nightly', 'ns/nightly'])
  const other = madeBySchedule('uid-former')
  t.equal(
    (await purgesOf(t, other, says({ deletionPolicy: 'Retain' }))).purges,
    1,
    'another schedule of that name',
  )
  t.equal(
    (await purgesOf(t, deletedBackup(), says({ deletionPolicy: 'Retain' }))).purges,
    1,
    'by hand',
  )
})

t.test('an unreadable schedule does not delete objects', async (t) => {
  const purge = async () => t.fail('purged') as never
  const schedulePolicy = async () => Promise.reject(new Error('no answer'))
  const answers = { secret: async () => bucketKeys, purge, schedulePolicy }
  await t.rejects(callHook('finalize', hookRequest(madeBySchedule()), answers), {
    message: 'no answer',
  })
})

t.test('the deletion of a namespace deletes objects only with deletionPolicy Delete', async (t) => {
  const isNamespaceTerminating = async () => true
  const stays =
    'namespace ns is being deleted and spec.deletionPolicy is not Delete; the objects in s3://store/daily/b are retained'
  t.strictSame(await purgesOf(t, deletedBackup(), { isNamespaceTerminating }), {
    purges: 0,
    written: ['event ObjectsRetained', `warn ${stays}`],
  })
  const asked = deletedBackup({ spec: { deletionPolicy: 'Delete' } })
  t.equal((await purgesOf(t, asked, { isNamespaceTerminating })).purges, 1)
})
