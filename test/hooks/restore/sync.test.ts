import t from 'tap'
import { decodePlan } from '../../../crds/command.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { RestorePlan } from '../../../crds/restore-command.ts'
import { kept } from '../../../hooks/job.ts'
import type { Decision } from '../../../hooks/restore/sync.ts'
import { restoreRights } from '../../../hooks/restore/children.ts'
import type { Observed } from '../../../hooks/restore/observed.ts'
import { sync } from '../../../hooks/restore/sync.ts'
import { NOW, ago, cluster, context, secret, statefulSet } from '../../builders.ts'
import { backup, bucketKeys, keySecret, runningCluster } from '../backup/objects.ts'
import { leaseOf } from '../transfer.ts'
import {
  MINE,
  completedBackup,
  direct,
  leasesOf,
  ready,
  report,
  restore,
  restoreJob,
  result,
} from './objects.ts'

const rights = restoreRights(restore())
const keptRights = rights.map((right) => kept(right as never))
const free = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const

function said({ status }: Decision): (string | undefined)[] {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.reason, condition?.message]
}

function jobIn({ children }: Decision) {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

function planIn(decision: Decision): RestorePlan {
  const job = jobIn(decision) as unknown as {
    spec: { template: { spec: { containers: { env: { name: string; value: string }[] }[] } } }
  }
  const [container] = job.spec.template.spec.containers
  const text = container?.env.find(({ name }) => name === 'PLAN')?.value ?? ''
  return decodePlan(RestorePlan, text)
}

const waits: [string, Partial<Observed>, string, string][] = [
  [
    'backup is not there',
    { backup: undefined as never },
    'BackupNotFound',
    'backup ns/b not found',
  ],
  [
    'backup is being deleted',
    { backup: completedBackup({ deletionTimestamp: ago(1) }) },
    'BackupNotFound',
    'backup ns/b is being deleted',
  ],
  [
    'backup is InProgress',
    { backup: backup({ status: { phase: 'InProgress' } }) },
    'BackupNotCompleted',
    'backup is InProgress, not Completed: ns/b',
  ],
  [
    'backup has not begun',
    { backup: backup() },
    'BackupNotCompleted',
    'backup is Pending, not Completed: ns/b',
  ],
  [
    'target is not there',
    { cluster: undefined as never },
    'ClusterNotFound',
    'cluster ns/a not found',
  ],
  [
    'target is not Running',
    { cluster: cluster({ status: { phase: 'Upgrading' } }) },
    'ClusterNotReady',
    'cluster ns/a is Upgrading, not Running',
  ],
  ['Secret of the bucket is missing', { secrets: {} }, 'SecretNotFound', 'Secret ns/s3 not found'],
  [
    'Secret of the bucket lacks a key',
    { secrets: { bucket: secret({ CLOUD_ACCESS_KEY_ID: 'id' }) } },
    'SecretNotUsable',
    'Secret ns/s3 has no value in key CLOUD_SECRET_ACCESS_KEY',
  ],
  [
    'key of the target is missing',
    { cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }) },
    'SecretNotFound',
    'Secret ns/vec-a-apikey not found',
  ],
]

for (const [what, parts, reason, message] of waits) {
  t.test(`a VecRestore whose ${what} is Pending, and asked again after 30 s`, async (t) => {
    const decision = sync(ready({ leases: free, children: [], ...parts }), context)
    t.strictSame(said(decision), ['Pending', reason, message])
    t.strictSame(decision.children, [])
    t.equal(decision.resyncAfterSeconds, 30)
    t.equal(decision.status.sourceBackup, 'b')
    t.notHas(decision, { leases: [] })
  })
}

const refusals: [string, Partial<Observed>, RegExp][] = [
  [
    'a backup that Failed is final',
    { backup: backup({ status: { phase: 'Failed' } }) },
    /^backup is Failed, not Completed: ns\/b$/,
  ],
  [
    'a backup of another namespace is read only where its allow-from names ours',
    {
      restore: restore({ spec: { backupRef: { name: 'b', namespace: 'other' } } }),
      backup: completedBackup({ namespace: 'other' }),
    },
    /^backup other\/b does not allow namespace ns: its annotation .*allow-from$/,
  ],
  [
    'a cluster of another namespace is written to only where its allow-from names ours',
    {
      restore: restore({
        namespace: 'mine',
        spec: {
          targetClusterRef: { name: 'a', namespace: 'ns' },
          backupRef: { name: 'b', namespace: 'ns' },
        },
      }),
      backup: completedBackup({ annotations: { [ANNOTATIONS.allowFrom]: 'mine' } }),
      cluster: runningCluster({ annotations: { [ANNOTATIONS.allowFrom]: 'ns' } }),
    },
    /^cluster ns\/a does not allow namespace mine/,
  ],
]

for (const [title, parts, error] of refusals) {
  t.test(title, async (t) => {
    const decision = sync(ready(parts), context)
    t.equal(decision.status.phase, 'Failed')
    t.match(decision.status.error, error)
    t.strictSame(said(decision).slice(1), ['RestoreFailed', 'Restored 0/0'])
    t.equal(jobIn(decision), undefined)
    t.match(decision.events, [{ type: 'Warning', reason: 'RestoreFailed' }])
    t.equal(decision.leases?.length, 2, 'nobody is held up by it')
  })
}

t.test('the rights of the Job are seen before anything is taken', async (t) => {
  const decision = sync(ready({ children: [], leases: free }), context)
  t.strictSame(decision.children, rights)
  t.equal(decision.leases, undefined)
  t.equal(decision.resyncAfterSeconds, 2)
  t.equal(said(decision)[2], 'the rights of the Job are being made')
})

t.test('a restore takes both Leases of its target, that of writing first', async (t) => {
  const decision = sync(ready({ leases: free }), context)
  t.match(decision.leases, [
    { act: 'take', lease: { metadata: { name: 'vec-a-write' }, spec: { holderIdentity: MINE } } },
    { act: 'take', lease: { metadata: { name: 'vec-a-backup' } } },
  ])
  t.strictSame(said(decision), [
    'Pending',
    'RestoreStarting',
    'the Leases of the cluster are being taken',
  ])
  t.equal(jobIn(decision), undefined)
})

t.test('a restore has both Leases or none, and says for whom it waits', async (t) => {
  const other = 'VecBackup/ns/other/uid-o'
  const leases = {
    write: { kind: 'write', lease: leaseOf('write', MINE), jobs: [] },
    backup: { kind: 'backup', lease: leaseOf('backup', other), jobs: [] },
  } as const
  const decision = sync(
    ready({
      leases: {
        ...leases,
        write: { ...leases.write, jobs: [] },
        backup: { ...leases.backup, jobs: [] },
      },
    }),
    context,
  )
  t.strictSame(said(decision), ['Pending', 'WaitingForTurn', 'waits for VecBackup ns/other'])
  t.match(decision.leases, [{ act: 'drop', lease: { metadata: { name: 'vec-a-write' } } }])
})

t.test('who works on the target without a Lease is waited for, and both go back', async (t) => {
  const decision = sync(ready({ others: ['VecMigration ns/m'] }), context)
  t.strictSame(said(decision), ['Pending', 'WaitingForTurn', 'waits for VecMigration ns/m'])
  t.match(decision.leases, [{ act: 'drop' }, { act: 'drop' }])
})

t.test('15 s after the Leases were taken it looks once more, and then makes the Job', async (t) => {
  const early = sync(ready({ leases: leasesOf(MINE, 4) }), context)
  t.equal(jobIn(early), undefined)
  t.equal(early.resyncAfterSeconds, 11)
  t.equal(early.leases, undefined, 'they are held')
  t.strictSame(said(early), [
    'Pending',
    'RestoreStarting',
    'the Leases of the cluster are held: looks once more who is at work there',
  ])
  t.ok(jobIn(sync(ready({ leases: leasesOf(MINE, 15) }), context)))
})

t.test(
  'the Job knows its target, its bucket and its backup, and mounts their Secrets',
  async (t) => {
    const secured = runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } })
    const secrets = { bucket: bucketKeys, engine: keySecret() }
    const decision = sync(
      ready({ cluster: secured, secrets, statefulSet: statefulSet(3) }),
      context,
    )
    t.equal(said(decision)[2], `Job ${restoreJob().metadata.name} was started`)
    t.match(jobIn(decision), {
      spec: { template: { spec: { containers: [{ args: ['jobs/cli.js', 'restore', 'run', 'ns/r'] }] } } }, // prettier-ignore
    })
    t.match(planIn(decision), {
      resource: 'vecrestores',
      name: 'r',
      uid: 'uid-r',
      run: 1,
      cluster: { name: 'a', replicas: 3 },
      source: { bucket: 'store', path: 'daily/b', credentialsSecretRef: { name: 's3' } },
      backup: { name: 'b', uid: 'uid-b' },
    })
    t.match(jobIn(decision), {
      spec: {
        template: {
          spec: {
            volumes: [
              { name: 'tmp' },
              { name: 'bucket', secret: { secretName: 's3', optional: true } },
              { name: 'engine', secret: { secretName: 'vec-a-apikey' } },
            ],
          },
        },
      },
    })
  },
)

t.test('a bucket may be named directly, without a VecBackup', async (t) => {
  const observed = ready({ restore: direct() })
  delete observed.backup
  const decision = sync(observed, context)
  t.match(planIn(decision), { source: { bucket: 'store', path: '/daily/b/' } })
  t.notHas(planIn(decision), { backup: {} })
  t.equal(decision.status.sourceBackup, 's3://store/daily/b')
})

t.test(
  'credentials of other namespaces reach the Job as copies, and no more than it needs',
  async (t) => {
    const foreign = restore({
      namespace: 'mine',
      spec: {
        backupRef: { name: 'b', namespace: 'ns' },
        targetClusterRef: { name: 'a', namespace: 'ns' },
      },
    })
    const parts = {
      restore: foreign,
      backup: completedBackup({ annotations: { [ANNOTATIONS.allowFrom]: 'mine, x' } }),
      cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }),
      secrets: { bucket: secret({ ...bucketKeysText, other: 'x' }), engine: keySecret() },
      children: restoreRights(foreign),
      leases: leasesOf('VecRestore/mine/r/uid-r'),
    }
    const made = sync(ready(parts), context)
    t.match(jobIn(made), {
      spec: {
        template: {
          spec: {
            volumes: [
              { name: 'tmp' },
              { name: 'bucket', secret: { secretName: /-bucket$/ } },
              { name: 'engine', secret: { secretName: /-engine$/ } },
            ],
          },
        },
      },
    })
    const job = restoreJob()
    const running = sync(ready({ ...parts, jobs: [job], copies: {}, progress: report() }), context)
    t.match(
      running.writeCopies?.map(({ metadata, data }) => [metadata.name, Object.keys(data ?? {})]),
      [
        [`${job.metadata.name}-engine`, ['api-key']],
        [`${job.metadata.name}-bucket`, ['CLOUD_ACCESS_KEY_ID', 'CLOUD_SECRET_ACCESS_KEY']],
      ],
    )
    const ended = sync(
      ready({ ...parts, jobs: [job], progress: report({ state: 'Done' }) }),
      context,
    )
    t.equal(ended.deleteCopies?.length, 3)
  },
)

const bucketKeysText = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'key' }

t.test('Downloading until the manifest was read, then Restoring, with what is done', async (t) => {
  const jobs = [restoreJob()]
  const begun = sync(ready({ jobs, progress: report() }), context)
  t.match(begun.status, { phase: 'Downloading', startTime: '2026-03-01T11:56:40Z' })
  t.match(begun.events, [{ reason: 'RestoreStarted' }])
  const current = {
    collection: 'new',
    number: 2,
    nodesDone: 0,
    nodes: 3,
    isOurs: true,
    step: 'node 1: takes 1 KiB',
  }
  const message = 'collection 2 of 2 (new)'
  const progress = report({ message, restore: result({ current }) })
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(decision.status.restoredCollections, [
    { name: 'docs', status: 'Completed', size: '512 B', pointsCount: 7 },
    { name: 'new', originalName: 'old', status: 'Restoring' },
  ])
  t.strictSame(decision.status.progress, {
    collectionsTotal: 2,
    collectionsCompleted: 1,
    currentCollection: 'new',
    percentage: 25,
  })
  t.strictSame(said(decision), ['Restoring', 'RestoreRunning', message])
  t.equal(decision.resyncAfterSeconds, 30)
  t.strictSame(decision.children, [...keptRights, kept(jobs[0] as never)])
})

t.test('before the Job says what it does, the restore has started', async (t) => {
  const jobs = [restoreJob()]
  const started = ['Downloading', 'RestoreRunning', 'the restore has started']
  t.strictSame(said(sync(ready({ jobs, progress: report() }), context)), started)
})

t.test('what is known of the progress stays when somebody removes the report', async (t) => {
  const status = {
    phase: 'Restoring' as const,
    sourceBackup: 'b',
    startTime: ago(900),
    restoredCollections: [{ name: 'docs', status: 'Completed' as const }],
    progress: { collectionsTotal: 2, collectionsCompleted: 1, percentage: 25 },
  }
  const observed = ready({ restore: restore({ status }), jobs: [restoreJob()] })
  const { conditions, ...left } = sync(observed, context).status
  t.strictSame(left, status)
  const first = sync({ ...observed, restore: restore(), progress: report() }, context).status
  t.notHas(first, 'restoredCollections')
  t.notHas(first, 'progress')
  t.equal(conditions?.length, 1)
})

t.test('what failed of a collection is told with it', async (t) => {
  const collections = [{ name: 'docs', status: 'Failed' as const, error: 'is red' }]
  const progress = report({ restore: result({ collections }) })
  const { status } = sync(ready({ jobs: [restoreJob()], progress }), context)
  t.strictSame(status.restoredCollections, collections)
})

t.test('a pod that begins anew does not bring back an earlier phase', async (t) => {
  const status = { phase: 'Restoring', startTime: ago(300) } as const
  const observed = ready({ restore: restore({ status }), jobs: [restoreJob()], progress: report() })
  t.equal(sync(observed, context).status.phase, 'Restoring')
})

t.test('all collections done: Completed, with `Restored n/m`', async (t) => {
  const done = result({
    completed: 2,
    bytes: 2048,
    notes: ['alias x points to y and was left as it is'],
  })
  const progress = report({ state: 'Done', restore: done })
  const decision = sync(
    ready({ jobs: [restoreJob({ ended: ['Complete', 5] })], progress }),
    context,
  )
  t.match(decision.status, {
    phase: 'Completed',
    completionTime: '2026-03-01T11:59:30Z',
    progress: { collectionsTotal: 2, collectionsCompleted: 2, percentage: 100 },
    conditions: [
      { type: 'Complete', status: 'True', reason: 'RestoreCompleted', message: 'Restored 2/2' },
    ],
  })
  t.match(decision.events?.at(-1), {
    reason: 'RestoreCompleted',
    message: 'Restored 2/2, 2 KiB; alias x points to y and was left as it is',
  })
})

t.test('any collection failed: Failed, and error is the first failure', async (t) => {
  const failed = result({ failed: 1, error: 'docs is red: no space left' })
  const progress = report({ state: 'Failed', message: 'Restored 1/2', restore: failed })
  const decision = sync(ready({ jobs: [restoreJob({ ended: ['Failed', 5] })], progress }), context)
  t.strictSame(said(decision), ['Failed', 'RestoreFailed', 'Restored 1/2'])
  t.equal(decision.status.error, 'docs is red: no space left')
})

t.test('a Job that ended without a word: once more in 2 s, after 30 s Failed', async (t) => {
  const ended = (seconds: number) =>
    sync(
      ready({ jobs: [restoreJob({ ended: ['Failed', seconds], failed: 7 })], progress: report() }),
      context,
    )
  t.equal(ended(10).resyncAfterSeconds, 2)
  t.not(ended(10).status.phase, 'Failed')
  t.equal(ended(31).status.error, 'Job crashed 7 times')
})

t.test('a Job that never told of itself is made again, with the next number', async (t) => {
  const silent = restoreJob({ createdAgo: 601 })
  const decision = sync(ready({ jobs: [silent] }), context)
  t.strictSame(decision.stop, [{ namespace: 'ns', name: silent.metadata.name, uid: 'job-1' }])
  t.equal(said(decision)[1], 'JobNotStarted')
  const next = sync(ready({ progress: report() }), context)
  t.equal(planIn(next).run, 2)
})

t.test('a Job that appeared after its turn was over is stopped', async (t) => {
  const [mine, others] = [leasesOf(MINE), leasesOf('VecBackup/ns/other/uid-o')]
  for (const leases of [
    others,
    { ...mine, write: others.write },
    { ...others, write: mine.write },
  ]) {
    const decision = sync(ready({ jobs: [restoreJob()], leases }), context)
    t.match(decision.stop, [{ uid: 'job-1' }])
    t.match(said(decision)[2], /missed its turn/)
  }
})

t.test('a Job that has not told of itself is left alone while its plan is wanted', async (t) => {
  const job = restoreJob()
  const started = sync(ready({ jobs: [job] }), context)
  t.equal(started.stop, undefined)
  t.strictSame(said(started), [
    'Pending',
    'RestoreStarting',
    `Job ${job.metadata.name} is starting`,
  ])
  const changed = sync(ready({ jobs: [restoreJob({ plan: 'other' })] }), context)
  t.match(said(changed)[2], /has another plan than is wanted now/)
  for (const gone of ['cluster', 'backup', 'leases'] as const) {
    const unseen = { ...ready({ jobs: [job] }), [gone]: undefined }
    t.equal(sync(unseen, context).stop, undefined, `its ${gone} cannot be seen`)
  }
})

t.test('a Job that was just made is not made twice, nor are its Leases given back', async (t) => {
  const decision = sync(ready({ liveJobs: [restoreJob()], backup: backup() }), context)
  t.equal(jobIn(decision), undefined)
  t.equal(decision.leases, undefined)
})

t.test('a restore that has ended stays as it is, whatever is missing by now', async (t) => {
  const status = { phase: 'Completed', sourceBackup: 'b', completionTime: ago(50) } as const
  const job = restoreJob({ ended: ['Complete', 50] })
  const observed = {
    restore: restore({ status }),
    children: [...(rights as AnyObject[]), job],
    jobs: [job],
    secrets: {},
  }
  const decision = sync(observed, context)
  t.strictSame(decision.status, status)
  t.strictSame(decision.children, [kept(job)], 'the Job stays for its log')
  t.match(decision.dropped, [
    { kind: 'ServiceAccount', reason: 'the restore has ended' },
    { kind: 'Role' },
    { kind: 'RoleBinding' },
  ])
  const later = { ...context, now: new Date(NOW.getTime() + 86_400_000) }
  t.match(sync(observed, later).dropped?.at(0), { kind: 'Job' })
})
