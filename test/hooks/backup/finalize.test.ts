/** The deletion of a VecBackup: its Job is stopped and its objects are purged. */
import t from 'tap'
import { type BackupStatus } from '../../../crds/backup.ts'
import { KubernetesError, Rejected, StorageError } from '../../../crds/contract/errors.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { backupHooks } from '../../../hooks/backup/index.ts'
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { OWN_HOLDER, backup, bucketKeys, dataJob } from './objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { fakePorts } from './ports.ts'
import { hookRequest } from '../request.ts'
import { rbac, callHook, withProgress } from './call-hook.ts'

/** A backup that was started once and is being deleted. */
function deletedBackup(parts: Parameters<typeof backup>[0] = {}) {
  const status = { phase: 'Completed', startTime: ago(900) } as const
  return backup({ deletionTimestamp: ago(5), status, ...parts })
}

const secretThere = { secret: async () => bucketKeys }

t.test('deletion while running stops the Job first, with its pods, then purges', async (t) => {
  const calls: string[] = []
  const jobs = [dataJob()]
  const asked = hookRequest(withProgress({}, { deletionTimestamp: ago(5) }), [...rbac, ...jobs])
  const purge: BackupPorts['purge'] = async ({ namespace, name, uid, storage }) => {
    calls.push(`${storage.prefix}/${name} ${namespace} ${uid}`)
    return { done: true }
  }
  const running = { ...secretThere, purge, jobsOf: async () => jobs }
  const first = await callHook('finalize', asked, running)
  t.strictSame(first.written, [`stop ${dataJob().metadata.name}`])
  matchWhole(t, first.desired.status.conditions, [
    {
      ...{ type: 'Purged', reason: 'StoppingJob' },
      message: `waiting for Job ${dataJob().metadata.name} to stop`,
    },
  ])
  t.strictSame(calls, [])
  t.equal(first.desired.finalized, undefined)
  const deleting = [dataJob({ deletionTimestamp: ago(1) })]
  const second = await callHook('finalize', asked, { ...running, jobsOf: async () => deleting })
  t.strictSame(second.written, [])
  t.equal(second.desired.resyncAfterSeconds, 2)
  const last = await callHook('finalize', asked, { ...running, jobsOf: async () => [] })
  t.strictSame(calls, ['daily/b ns uid-b'])
  t.equal(last.desired.finalized, true)
})

t.test(
  'a backup that is deleted with its Jobs releases its Lease immediately, and no other',
  async (t) => {
    for (const [holder, written] of [
      [OWN_HOLDER, ['drop vec-a-backup']],
      ['VecBackup/ns/other/uid-other', []],
    ] as const) {
      const lease = async () => leaseOf('backup', holder)
      const { desired, written: found } = await callHook('finalize', hookRequest(deletedBackup()), {
        ...secretThere,
        lease,
      })
      t.equal(desired.finalized, true)
      t.strictSame(found, written)
    }
  },
)

t.test('an unreadable Lease does not block the deletion of a backup', async (t) => {
  const lease = async () => Promise.reject(new KubernetesError('403'))
  const answer = await callHook('finalize', hookRequest(deletedBackup()), { ...secretThere, lease })
  t.equal(answer.desired.finalized, true)
})

t.test(
  'the purge is limited per call, reports what is left and continues with the next call',
  async (t) => {
    const surveys = [
      { left: 20_000, inner: [] },
      { left: 1_000, inner: [] },
    ]
    const known: unknown[] = []
    const purge: BackupPorts['purge'] = async ({ survey: before }) => {
      known.push(before)
      const survey = surveys[known.length - 1]
      return survey === undefined ? { done: true } : { done: false, survey }
    }
    const { ports } = fakePorts({ ...secretThere, purge })
    const hooks = backupHooks(ports)
    for (const left of ['20000', '1000']) {
      const answer = (await hooks.finalize?.(
        hookRequest(deletedBackup()),
        context,
      )) as Desired<BackupStatus>
      t.equal(answer.finalized, undefined)
      t.equal(answer.resyncAfterSeconds, 1)
      t.match(answer.status.conditions?.at(-1), {
        type: 'Purged',
        reason: 'Purging',
        message: `deleting the objects in s3://store/daily/b; ${left} objects remain`,
      })
    }
    t.equal((await hooks.finalize?.(hookRequest(deletedBackup()), context))?.finalized, true)
    t.strictSame(known, [undefined, ...surveys])
  },
)

for (const error of [
  new StorageError('access denied'),
  new Rejected('owner.json does not read'),
  new KubernetesError('GET secrets/s3 answered 403'),
]) {
  t.test(`an error of the purge is reported and retried: ${error.message}`, async (t) => {
    const purge = async () => Promise.reject(error)
    const first = await callHook('finalize', hookRequest(deletedBackup()), {
      ...secretThere,
      purge,
    })
    const { status } = first.desired
    const condition = status.conditions?.at(-1)
    t.match(condition, {
      reason: 'PurgeFailed',
      message: `s3://store/daily/b: ${error.message} (set the annotation ${ANNOTATIONS.retainObjects}: "true" to retain the objects)`,
    })
    t.equal(first.desired.resyncAfterSeconds, 30)
    t.strictSame(first.written, ['event PurgeFailed'])
    const again = await callHook('finalize', hookRequest(deletedBackup({ status })), {
      ...secretThere,
      purge,
    })
    t.strictSame(again.written, [])
    t.equal(again.desired.status.conditions?.length, 1)
  })
}

t.test('a purge that throws an unexpected error does not finalize the backup', async (t) => {
  const error = new TypeError('a secret')
  const purge = async () => Promise.reject(error)
  const { desired, written } = await callHook('finalize', hookRequest(deletedBackup()), {
    ...secretThere,
    purge,
  })
  t.equal(desired.finalized, undefined)
  t.strictSame(desired.failures, [{ error }], 'for the log')
  t.equal(desired.resyncAfterSeconds, 30)
  t.match(desired.status.conditions?.at(-1), {
    reason: 'PurgeFailed',
    message: /^s3:.*: internal error: TypeError; see the log of the service \(/,
  })
  t.strictSame(written, ['event PurgeFailed'])
})

t.test('a long purge continues after the answer', async (t) => {
  let finish: () => void = () => undefined
  const slow = new Promise<void>((resolve) => (finish = resolve))
  const purge: BackupPorts['purge'] = async () => slow.then(() => ({ done: true }))
  const hooks = backupHooks(fakePorts({ ...secretThere, purge }).ports)
  const first = await hooks.finalize?.(hookRequest(deletedBackup()), context)
  t.equal(first?.finalized, undefined)
  t.equal(first?.resyncAfterSeconds, 2)
  const { conditions } = first?.status as BackupStatus
  t.match(conditions?.[0], { message: /^deleting the objects in s3:\/\/store\/daily\/b$/ })
  finish()
  t.equal((await hooks.finalize?.(hookRequest(deletedBackup()), context))?.finalized, true)
})

t.test(
  'before the backup is finalized Jobs are read again: a Job that was created during the purge is stopped',
  async (t) => {
    const lists = [[], [dataJob()]]
    const jobsOf = async () => lists.shift() ?? []
    const { desired, written } = await callHook('finalize', hookRequest(deletedBackup()), {
      ...secretThere,
      jobsOf,
    })
    t.equal(desired.finalized, undefined)
    t.strictSame(written, [`stop ${dataJob().metadata.name}`])
  },
)

t.test('a missing credentials Secret: a warning and an Event, and the objects stay', async (t) => {
  const purge = async () => t.fail('asked without credentials') as never
  const { desired, written } = await callHook('finalize', hookRequest(deletedBackup()), { purge })
  t.equal(desired.finalized, true)
  t.strictSame(written, [
    'event CredentialsMissing',
    'warn Secret ns/s3 not found; the objects in s3://store/daily/b were not deleted',
  ])
  const events: KubernetesEvent[] = []
  const writeEvent = async (event: KubernetesEvent) => void events.push(event)
  await callHook('finalize', hookRequest(deletedBackup()), { purge, writeEvent })
  matchWhole(t, events, [
    {
      involvedObject: { kind: 'VecBackup', namespace: 'ns', name: 'b' },
      ...{ type: 'Warning', reason: 'CredentialsMissing' },
      message: 'Secret ns/s3 not found; the objects in s3://store/daily/b were not deleted',
    },
  ])
})

t.test('the Secret of a terminating namespace may go first: the deletion ends', async (t) => {
  const doomed = deletedBackup({ spec: { deletionPolicy: 'Delete' } })
  const events: KubernetesEvent[] = []
  const { desired, written } = await callHook('finalize', hookRequest(doomed), {
    purge: async () => t.fail('asked without credentials') as never,
    isNamespaceTerminating: async () => true,
    writeEvent: async (event) => void events.push(event),
  })
  t.equal(desired.finalized, true)
  t.strictSame(written, [
    'warn namespace ns is being deleted and its Secret s3 was deleted first; the remaining objects in s3://store/daily/b were not deleted',
  ])
  matchWhole(t, events, [
    {
      metadata: { name: /^ns\.[0-9a-f]+$/, namespace: 'default' },
      involvedObject: { apiVersion: 'v1', kind: 'Namespace', name: 'ns', uid: 'ns' },
      ...{ type: 'Warning', reason: 'CredentialsMissing', at: '2026-03-01T12:00:00Z' },
      message:
        'VecBackup b was deleted with its namespace, and objects of it remain in its bucket; the log of the operator says where',
    },
  ])
  t.equal(events.length, 1)
  t.notOk(Object.hasOwn(events[0]?.involvedObject ?? {}, 'namespace'), 'a namespace is in none')
})

t.test('an observed Job may have written: its objects are purged', async (t) => {
  const ended = [dataJob({ ended: ['Failed', 600] })]
  const deleted = backup({ deletionTimestamp: ago(1) })
  for (const [inRequest, there] of [
    [ended, []],
    [[], ended],
    [ended, ended],
  ] as const) {
    let purges = 0
    const { desired } = await callHook('finalize', hookRequest(deleted, inRequest), {
      ...secretThere,
      jobsOf: async () => [...there],
      async purge() {
        purges += 1
        return { done: true }
      },
    })
    t.equal(purges, 1)
    t.equal(desired.finalized, true)
  }
})

t.test('during the purge the Jobs are read once per call', async (t) => {
  let looks = 0
  const { desired } = await callHook('finalize', hookRequest(deletedBackup()), {
    ...secretThere,
    purge: async () => ({ done: false }),
    async jobsOf() {
      looks += 1
      return []
    },
  })
  t.equal(looks, 1)
  t.equal(
    desired.status.conditions?.at(-1)?.message,
    'deleting the objects in s3://store/daily/b',
    'without a count of the store the message has no number',
  )
})

t.test('the rest of the status is unchanged while its objects are purged', async (t) => {
  const words = { reason: 'x', message: 'y', lastTransitionTime: ago(60), observedGeneration: 1 }
  const conditions = [
    { type: 'Purged', status: 'False' as const, ...words },
    { type: 'Complete', status: 'True' as const, ...words },
  ]
  const status = { phase: 'Completed', startTime: ago(900), conditions } as const
  const { desired } = await callHook(
    'finalize',
    hookRequest(deletedBackup({ status: { ...status, conditions: [...conditions] } })),
    { ...secretThere, purge: async () => ({ done: false }) },
  )
  t.match(desired.status, { phase: 'Completed', startTime: ago(900) })
  t.strictSame(
    desired.status.conditions?.map(({ type, reason }) => [type, reason]),
    [
      ['Complete', 'x'],
      ['Purged', 'Purging'],
    ],
  )
})

t.test('the annotation retain-objects releases at once', async (t) => {
  const purge = async () => Promise.reject(new Error('never called'))
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const { desired, written } = await callHook(
    'finalize',
    hookRequest(deletedBackup({ annotations }), rbac),
    {
      ...secretThere,
      purge,
    },
  )
  t.equal(desired.finalized, true)
  t.equal(desired.children.length, rbac.length)
  t.strictSame(written, [])
})

t.test('a backup that never started has no objects and needs no credentials', async (t) => {
  const never = backup({ deletionTimestamp: ago(1) })
  const { desired, written } = await callHook('finalize', hookRequest(never))
  t.equal(desired.finalized, true)
  t.strictSame(written, [])
})

t.test('a Job whose start report is newer than the cache may have written', async (t) => {
  const started = { ...secretThere, backup: async () => withProgress({ state: 'Started' }) }
  const { desired } = await callHook(
    'finalize',
    hookRequest(backup({ deletionTimestamp: ago(1) })),
    {
      ...started,
      purge: async () => ({ done: false }),
    },
  )
  t.equal(desired.finalized, undefined)
  matchWhole(t, desired.status, { conditions: [{ type: 'Purged', reason: 'Purging' }] })
})

t.test('deleting a Failed backup still removes uploaded objects', async (t) => {
  const calls: string[] = []
  const purge: BackupPorts['purge'] = async ({ name }) => {
    calls.push(name)
    return { done: true }
  }
  const failed = withProgress(
    { state: 'Failed' },
    { deletionTimestamp: ago(1), status: { phase: 'Failed' } },
  )
  await callHook('finalize', hookRequest(failed), { ...secretThere, purge })
  t.strictSame(calls, ['b'])
})

t.test(
  'in a terminating namespace the purge ends after 10 minutes, and the log says so',
  async (t) => {
    const purge = async () => Promise.reject(new StorageError('access denied'))
    const ends = { ...secretThere, purge, isNamespaceTerminating: async () => true }
    const spec = { deletionPolicy: 'Delete' } as const
    const young = deletedBackup({ deletionTimestamp: ago(599), spec })
    t.equal((await callHook('finalize', hookRequest(young), ends)).desired.finalized, undefined)
    const late = hookRequest(deletedBackup({ deletionTimestamp: ago(600), spec }))
    const given = await callHook('finalize', late, ends)
    t.equal(given.desired.finalized, true)
    t.strictSame(given.written, [
      'event PurgeTimedOut',
      'warn namespace ns is terminating and s3://store/daily/b could not be emptied within 600 s; the remaining objects were not deleted',
    ])
    const alive = await callHook('finalize', late, {
      ...ends,
      isNamespaceTerminating: async () => false,
    })
    t.equal(alive.desired.finalized, undefined)
  },
)

t.test('a purge waits while a restore naming that backup has an unfinished Job', async (t) => {
  const restores = [
    { namespace: 'far', name: 'over', uid: 'uid-over', by: 'name' as const },
    { namespace: 'far', name: 'new', uid: 'uid-new', by: 'name' as const },
    { namespace: 'far', name: 'busy', uid: 'uid-busy', by: 'name' as const },
  ]
  const jobsOf: BackupPorts['jobsOf'] = async (_, uid) =>
    uid === 'uid-busy'
      ? [dataJob({ run: 2 }), dataJob({ ended: ['Complete', 9] })]
      : uid === 'uid-over'
        ? [dataJob({ ended: ['Complete', 9] })]
        : []
  const restoresReading: BackupPorts['restoresReading'] = async ({ namespace, name }) =>
    namespace === 'ns' && name === 'b' ? restores : []
  const answers = { ...secretThere, jobsOf, restoresReading }
  const { desired } = await callHook('finalize', hookRequest(deletedBackup()), answers)
  t.equal(desired.finalized, undefined)
  t.equal(desired.resyncAfterSeconds, 30)
  t.match(desired.status.conditions?.at(-1), {
    type: 'Purged',
    reason: 'WaitingForRestore',
    message: 'waiting for VecRestore far/busy',
  })
  const over = { ...answers, restoresReading: async () => restores.slice(0, 2) }
  t.equal((await callHook('finalize', hookRequest(deletedBackup()), over)).desired.finalized, true)
})

t.test(
  'restores are searched by the name of the backup and by its location in the bucket',
  async (t) => {
    const asked: unknown[] = []
    const restoresReading: BackupPorts['restoresReading'] = async (of) => {
      asked.push(of)
      return []
    }
    const parent = deletedBackup()
    await callHook('finalize', hookRequest(parent), { ...secretThere, restoresReading })
    t.strictSame(asked, [{ namespace: 'ns', name: 'b', storage: parent.spec.storage.s3 }])
  },
)

t.test('a purge waits for a restore that recorded itself in the bucket', async (t) => {
  const reader = { namespace: 'far', name: 'drill', until: '2026-03-01T12:30:00.000Z' }
  const { desired } = await callHook('finalize', hookRequest(deletedBackup()), {
    ...secretThere,
    purge: async () => ({ done: false, reader }),
  })
  t.equal(desired.finalized, undefined)
  t.equal(desired.resyncAfterSeconds, 30)
  t.match(desired.status.conditions?.at(-1), {
    type: 'Purged',
    reason: 'WaitingForRestore',
    message:
      'waiting for VecRestore far/drill, which recorded in the bucket that it reads s3://store/daily/b; the record expires at 2026-03-01T12:30:00.000Z unless the restore renews it',
  })
})

t.test('objects that this backup did not write stay, and an Event says where', async (t) => {
  const others = { count: 3, example: 'daily/b/nightly/owner.json' }
  const { desired, written } = await callHook('finalize', hookRequest(deletedBackup()), {
    ...secretThere,
    purge: async () => ({ done: true, others }),
  })
  t.equal(desired.finalized, true)
  t.strictSame(written, [
    'event OtherObjectsKept',
    'warn s3://store/daily/b: 3 objects that this backup did not write were not deleted, such as s3://store/daily/b/nightly/owner.json',
  ])
})

t.test('a backup that ended without a final status is purged like any other', async (t) => {
  const { desired } = await callHook(
    'finalize',
    hookRequest(withProgress({ state: 'Done' }, { deletionTimestamp: ago(1) })),
    secretThere,
  )
  t.equal(desired.finalized, true)
  t.strictSame(desired.status, {})
})
