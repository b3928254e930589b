import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { RestorePlan } from '../../../crds/contract/restore-job.ts'
import { restoreRbac } from '../../../hooks/restore/job.ts'
import type { Observed } from '../../../hooks/restore/observe.ts'
import { sync } from '../../../hooks/restore/sync.ts'
import { ago, cluster, context, secret, statefulSet } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, bucketKeys, keySecret, runningCluster } from '../backup/objects.ts'
import { createdJob, jobPlan, statusSummary } from '../decisions.ts'
import { HALF_UPDATED, leaseOf } from '../data-job/fixtures.ts'
import {
  OWN_HOLDER,
  completedBackup,
  directRestore,
  heldLeases,
  ready,
  report,
  restore,
  restoreJob,
} from './objects.ts'

const rbac = restoreRbac(restore())
/** What a Lease of another says while the restore waits for it. */
const WAITING = {
  [ANNOTATIONS.waiters]: JSON.stringify([{ holder: OWN_HOLDER, seen: context.now.toISOString() }]),
}
const free = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const

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
  [
    'target has pods of two versions',
    { cluster: cluster({ status: HALF_UPDATED }) },
    'ClusterNotReady',
    'cluster ns/a: the pods have the versions 1.16.3, 1.17.1; docs/2 is Active only on node 1',
  ],
  ['Secret of the bucket is missing', { secrets: {} }, 'SecretNotFound', 'Secret ns/s3 not found'],
  [
    'Secret of the bucket without a key',
    { secrets: { bucket: secret({ CLOUD_ACCESS_KEY_ID: 'id' }) } },
    'InvalidSecret',
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
    t.strictSame(statusSummary(decision), ['Pending', reason, message])
    t.strictSame(decision.children, [])
    t.equal(decision.resyncAfterSeconds, 30)
    t.equal(decision.status.sourceBackup, 'b')
    t.strictSame(Object.keys(decision.status), ['phase', 'sourceBackup', 'conditions'])
    t.notOk('leases' in decision)
  })
}

t.test('single shards are restored while the pods have two versions', async (t) => {
  const one = { cluster: cluster({ status: HALF_UPDATED }) }
  const shards = [{ collection: 'docs', ids: [2] }]
  t.equal(createdJob(sync(ready(one), context)), undefined)
  t.ok(createdJob(sync(ready({ ...one, restore: restore({ spec: { shards } }) }), context)))
})

const permissions: [string, Partial<Observed>, RegExp][] = [
  [
    'a backup of another namespace is read only where its allowed-namespaces names ours',
    {
      restore: restore({ spec: { backupRef: { name: 'b', namespace: 'other' } } }),
      backup: completedBackup({ namespace: 'other' }),
    },
    /^backup other\/b does not allow namespace ns: add it to the annotation .*allowed-namespaces of the backup$/,
  ],
  [
    'a cluster of another namespace is written to only where its allowed-namespaces names ours',
    {
      restore: restore({
        namespace: 'mine',
        spec: {
          targetClusterRef: { name: 'a', namespace: 'ns' },
          backupRef: { name: 'b', namespace: 'ns' },
        },
      }),
      backup: completedBackup({ annotations: { [ANNOTATIONS.allowedNamespaces]: 'mine' } }),
      cluster: runningCluster({ annotations: { [ANNOTATIONS.allowedNamespaces]: 'ns' } }),
    },
    /^cluster ns\/a does not allow namespace mine/,
  ],
]

for (const [title, parts, message] of permissions) {
  t.test(`${title}, and the restore waits for that`, async (t) => {
    const decision = sync(ready(parts), context)
    matchWhole(t, decision.status, {
      phase: 'Pending',
      conditions: [{ reason: 'RefNotPermitted', message }],
    })
    t.notOk('completionTime' in decision.status)
    t.equal(createdJob(decision), undefined)
    t.equal(decision.resyncAfterSeconds, 30)
  })
}

const rejections: [string, Partial<Observed>, RegExp][] = [
  [
    'a backup that Failed is final',
    { backup: backup({ status: { phase: 'Failed' } }) },
    /^backup is Failed, not Completed: ns\/b$/,
  ],
]

for (const [title, parts, error] of rejections) {
  t.test(title, async (t) => {
    const decision = sync(ready(parts), context)
    t.equal(decision.status.phase, 'Failed')
    t.match(decision.status.error, error)
    t.strictSame(statusSummary(decision).slice(1), ['RestoreFailed', 'Restored 0/0'])
    t.equal(createdJob(decision), undefined)
    matchWhole(t, decision.events, [{ type: 'Warning', reason: 'RestoreFailed' }])
    t.equal(decision.leases?.length, 2, 'both are released')
  })
}

t.test('RBAC of the Job is observed before any Lease is acquired', async (t) => {
  const decision = sync(ready({ children: [], leases: free }), context)
  t.strictSame(decision.children, rbac)
  t.equal(decision.leases, undefined)
  t.equal(decision.resyncAfterSeconds, 2)
  t.equal(statusSummary(decision)[2], 'creating ServiceAccount, Role and RoleBinding for the Job')
})

t.test('a restore takes both Leases of its target, the one that all need first', async (t) => {
  const decision = sync(ready({ leases: free }), context)
  matchWhole(t, decision.leases, [
    {
      action: 'take',
      lease: { metadata: { name: 'vec-a-backup' }, spec: { holderIdentity: OWN_HOLDER } },
    },
    { action: 'take', lease: { metadata: { name: 'vec-a-write' } } },
  ])
  t.strictSame(statusSummary(decision), [
    'Pending',
    'RestoreStarting',
    'acquiring the Leases of the cluster',
  ])
  t.equal(createdJob(decision), undefined)
})

t.test('a restore has both Leases or none, and says for whom it waits', async (t) => {
  const other = 'VecBackup/ns/other/uid-o'
  const leases = {
    write: { kind: 'write', lease: leaseOf('write', OWN_HOLDER), jobs: [] },
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
  t.strictSame(statusSummary(decision), [
    'Pending',
    'ClusterBusy',
    'waiting for VecBackup ns/other',
  ])
  matchWhole(t, decision.leases, [
    { action: 'drop', lease: { metadata: { name: 'vec-a-write' } } },
    {
      action: 'take',
      lease: {
        metadata: { name: 'vec-a-backup', annotations: WAITING },
        spec: { holderIdentity: other },
      },
    },
  ])
})

t.test('a restore waits for work without a Lease, and releases both Leases', async (t) => {
  const decision = sync(ready({ conflictingWork: ['VecMigration ns/m'] }), context)
  t.strictSame(statusSummary(decision), ['Pending', 'ClusterBusy', 'waiting for VecMigration ns/m'])
  matchWhole(t, decision.leases, [{ action: 'drop' }, { action: 'drop' }])
})

t.test('15 s after it acquired the Leases it checks again, and then creates the Job', async (t) => {
  const early = sync(ready({ leases: heldLeases(OWN_HOLDER, 4) }), context)
  t.equal(createdJob(early), undefined)
  t.equal(early.resyncAfterSeconds, 11)
  t.equal(early.leases, undefined, 'they are held')
  t.strictSame(statusSummary(early), [
    'Pending',
    'RestoreStarting',
    'the Leases of the cluster are acquired; checking once more for other work on it',
  ])
  t.ok(createdJob(sync(ready({ leases: heldLeases(OWN_HOLDER, 15) }), context)))
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
    t.equal(statusSummary(decision)[2], `creating Job ${restoreJob().metadata.name}`)
    matchWhole(t, createdJob(decision), {
      spec: { template: { spec: { containers: [{ args: ['jobs/main.js', 'restore', 'run', 'ns/r'] }] } } }, // prettier-ignore
    })
    t.match(jobPlan(decision, RestorePlan), {
      resource: 'vecrestores',
      name: 'r',
      uid: 'uid-r',
      run: 1,
      cluster: { name: 'a', replicas: 3 },
      source: { bucket: 'store', path: 'daily/b', credentialsSecretRef: { name: 's3' } },
      backup: { name: 'b', uid: 'uid-b' },
    })
    matchWhole(t, createdJob(decision), {
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
  const observed = ready({ restore: directRestore() })
  delete observed.backup
  const decision = sync(observed, context)
  t.match(jobPlan(decision, RestorePlan), { source: { bucket: 'store', path: '/daily/b/' } })
  t.notOk('backup' in jobPlan(decision, RestorePlan))
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
      backup: completedBackup({ annotations: { [ANNOTATIONS.allowedNamespaces]: 'mine, x' } }),
      cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }),
      secrets: { bucket: secret({ ...bucketKeysText, other: 'x' }), engine: keySecret() },
      children: restoreRbac(foreign),
      leases: heldLeases('VecRestore/mine/r/uid-r'),
    }
    const made = sync(ready(parts), context)
    matchWhole(t, createdJob(made), {
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
    const running = sync(
      ready({ ...parts, jobs: [job], secretCopies: {}, progress: report() }),
      context,
    )
    matchWhole(
      t,
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
    t.equal(ended.deleteCopies?.length, 4)
  },
)

const bucketKeysText = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'key' }
