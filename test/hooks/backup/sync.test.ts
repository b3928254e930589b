import t from 'tap'
import type { BackupStatus } from '../../../crds/backup.ts'
import { BackupPlan, decodePlan } from '../../../crds/command.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import type { Decision } from '../../../hooks/backup/act.ts'
import { backupRights, wantedRun } from '../../../hooks/backup/children.ts'
import type { Observed } from '../../../hooks/backup/observed.ts'
import { sync } from '../../../hooks/backup/sync.ts'
import { kept } from '../../../hooks/job.ts'
import { NOW, ago, cluster, context, secret, settings, statefulSet } from '../../builders.ts'
import {
  MINE,
  backup,
  bucketKeys,
  keySecret,
  ready,
  report,
  result,
  runningCluster,
  transferJob,
} from './objects.ts'
import { leaseOf } from '../transfer.ts'

const rights = backupRights(backup())
const keptRights = rights.map((right) => kept(right as never))

function complete(
  status: 'True' | 'False',
  reason: string,
  message: string,
  since = '2026-03-01T12:00:00Z',
) {
  return [
    { type: 'Complete', status, reason, message, lastTransitionTime: since, observedGeneration: 1 },
  ]
}

function said({ status }: Decision): (string | undefined)[] {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.reason, condition?.message]
}

function jobIn({ children }: Decision) {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

function podOf(decision: Decision) {
  const job = jobIn(decision) as unknown as {
    spec: {
      template: {
        spec: {
          volumes: { name: string; secret?: object }[]
          containers: {
            args: string[]
            resources: object
            env: { name: string; value: string }[]
          }[]
        }
      }
    }
  }
  const { volumes, containers } = job.spec.template.spec
  const [container = { args: [], resources: {}, env: [] }] = containers
  return { volumes, container }
}

const missing: [string, Partial<Observed>, string, string][] = [
  ['cluster', { cluster: undefined as never }, 'ClusterNotFound', 'cluster ns/a not found'],
  [
    'cluster, which is being deleted',
    { cluster: runningCluster({ deletionTimestamp: ago(1) }) },
    'ClusterNotFound',
    'cluster ns/a is being deleted',
  ],
  [
    'running cluster',
    { cluster: cluster() },
    'ClusterNotReady',
    'cluster ns/a is not installed, not Running',
  ],
  [
    'running cluster while it is upgraded',
    { cluster: cluster({ status: { phase: 'Upgrading' } }) },
    'ClusterNotReady',
    'cluster ns/a is Upgrading, not Running',
  ],
  ['credentials', { secrets: {} }, 'SecretNotFound', 'Secret ns/s3 not found'],
  [
    'secret access key',
    { secrets: { bucket: secret({ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: '' }) } },
    'SecretNotUsable',
    'Secret ns/s3 has no value in key CLOUD_SECRET_ACCESS_KEY',
  ],
  [
    "cluster's key",
    { cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }) },
    'SecretNotFound',
    'Secret ns/vec-a-apikey not found',
  ],
  [
    "value of the cluster's key",
    {
      cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }),
      secrets: { bucket: bucketKeys, engine: keySecret('') },
    },
    'SecretNotUsable',
    'Secret ns/vec-a-apikey has no value in key api-key',
  ],
]

for (const [what, parts, reason, message] of missing) {
  t.test(`VecBackup without its ${what} is Pending, to be seen again in 30 s`, async (t) => {
    const leases = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const
    t.strictSame(sync(ready({ leases, children: [], ...parts }), context), {
      status: { phase: 'Pending', conditions: complete('False', reason, message) },
      children: [],
      resyncAfterSeconds: 30,
      events: [],
    })
  })
}

t.test(
  'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are tried where the default names are missing',
  async (t) => {
    const bucket = secret({ AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'key' })
    t.ok(jobIn(sync(ready({ secrets: { bucket } }), context)))
    const s3 = backup().spec.storage.s3
    const credentialsSecretRef = { ...s3.credentialsSecretRef, accessKeyIdKey: 'own' }
    const own = backup({ spec: { storage: { s3: { ...s3, credentialsSecretRef } } } })
    t.strictSame(said(sync(ready({ backup: own, secrets: { bucket } }), context)), [
      'Pending',
      'SecretNotUsable',
      'Secret ns/s3 has no value in key own',
    ])
  },
)

t.test('a cluster that does not allow the namespace is refused with that reason', async (t) => {
  const annotations = { [ANNOTATIONS.allowFrom]: 'apps, other' }
  const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })
  const observed = ready({ backup: far, children: [], cluster: runningCluster({ annotations }) })
  const decision = sync(observed, context)
  const error = `cluster ns/a does not allow namespace far: its annotation ${ANNOTATIONS.allowFrom}`
  t.strictSame(decision.status, {
    phase: 'Failed',
    completionTime: '2026-03-01T12:00:00Z',
    error,
    conditions: complete('False', 'BackupFailed', 'Backed up 0/0 collections'),
  })
  t.match(decision.events, [
    { type: 'Warning', reason: 'BackupFailed', message: `Backed up 0/0 collections: ${error}` },
  ])
  for (const list of ['*', 'apps,far', ' far ']) {
    const allowed = runningCluster({ annotations: { [ANNOTATIONS.allowFrom]: list } })
    t.not(sync({ ...observed, cluster: allowed }, context).status.phase, 'Failed')
  }
})

t.test('a Job must not start before it may report: the rights come first', async (t) => {
  t.strictSame(sync(ready({ children: [] }), context), {
    status: {
      phase: 'Pending',
      conditions: complete('False', 'BackupStarting', 'the rights of the Job are being made'),
    },
    children: rights,
    resyncAfterSeconds: 2,
    events: [],
  })
})

t.test('the Lease is taken last, and no Job is made in that pass', async (t) => {
  const leases = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const
  const decision = sync(ready({ leases }), context)
  t.strictSame(decision.children, keptRights)
  t.match(decision.leases, [
    { act: 'take', lease: { metadata: { name: 'vec-a-backup' }, spec: { holderIdentity: MINE } } },
  ])
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('the Job is made in the next sync that sees the Lease held', async (t) => {
  const decision = sync(ready({ statefulSet: statefulSet(3) }), context)
  t.equal(decision.leases, undefined)
  t.match(jobIn(decision), {
    metadata: {
      name: transferJob().metadata.name,
      labels: { 'app.kubernetes.io/component': 'transfer', 'vec-operator.dev/parent': 'uid-b' },
    },
  })
  const { container, volumes } = podOf(decision)
  t.strictSame(container.args, ['jobs/cli.js', 'backup', 'run', 'ns/b'])
  t.strictSame(container.resources, settings.jobResources.data)
  t.strictSame(volumes, [
    { name: 'tmp', emptyDir: {} },
    { name: 'bucket', secret: { secretName: 's3', optional: true } },
  ])
  const plan = container.env.find(({ name }) => name === 'PLAN')
  t.match(decodePlan(BackupPlan, plan?.value ?? ''), {
    resource: 'vecbackups',
    namespace: 'ns',
    name: 'b',
    uid: 'uid-b',
    run: 1,
    cluster: { namespace: 'ns', name: 'a', replicas: 3, tls: false },
    storage: backup().spec.storage.s3,
    ...{ method: 'Node', parallelism: 2 },
  })
})

const secured = {
  apiKey: { autoGenerate: true, jwtRbac: false },
  tls: { enabled: true, secretRef: { name: 'cert' } },
}
const credentials = {
  bucket: bucketKeys,
  engine: keySecret(),
  tls: secret({ 'tls.crt': 'c', 'tls.key': 'k', 'ca.crt': 'authority' }),
}

t.test('the key and the authority of the cluster are mounted where they stand', async (t) => {
  const decision = sync(
    ready({ cluster: runningCluster({ spec: secured }), secrets: credentials }),
    context,
  )
  t.strictSame(podOf(decision).volumes.slice(1), [
    { name: 'bucket', secret: { secretName: 's3', optional: true } },
    { name: 'engine', secret: { secretName: 'vec-a-apikey', optional: true } },
    { name: 'tls', secret: { secretName: 'cert', optional: true } },
  ])
})

const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })

t.test(
  'a Secret of another namespace reaches a Job only as a copy, which its pods wait for',
  async (t) => {
    const lease = leaseOf('backup', 'VecBackup/far/b/uid-b')
    const decision = sync(
      ready({
        backup: far,
        cluster: runningCluster({ spec: secured }),
        secrets: credentials,
        leases: { write: { kind: 'write' }, backup: { kind: 'backup', lease, jobs: [] } },
      }),
      context,
    )
    const job = transferJob().metadata.name
    t.strictSame(podOf(decision).volumes.slice(1), [
      { name: 'bucket', secret: { secretName: 's3', optional: true } },
      { name: 'engine', secret: { secretName: `${job}-engine` } },
      { name: 'tls', secret: { secretName: `${job}-tls` } },
    ])
    t.equal(decision.writeCopies, undefined, 'once the Job exists')
  },
)

t.test(
  'the copies are made once the Job exists, owned by it, and hold the one key that is needed',
  async (t) => {
    const plan = wantedRun(far, runningCluster({ spec: secured }), undefined).hash
    const job = transferJob({ namespace: 'far', plan })
    const { name } = job.metadata
    const running = ready({
      backup: far,
      cluster: runningCluster({ spec: secured }),
      secrets: credentials,
      jobs: [job],
      copies: {},
      progress: report(),
    })
    const copy = (credential: string, data: Record<string, string>) => ({
      apiVersion: 'v1' as const,
      kind: 'Secret' as const,
      metadata: {
        name: `${name}-${credential}`,
        namespace: 'far',
        labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
        ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid: 'job-1' }],
      },
      type: 'Opaque',
      data,
    })
    const engine = copy('engine', { 'api-key': 'aw==' })
    const tls = copy('tls', { 'ca.crt': 'YXV0aG9yaXR5' })
    t.strictSame(sync(running, context).writeCopies, [engine, tls])
    t.equal(sync({ ...running, copies: { engine, tls } }, context).writeCopies, undefined)
    const starting = { ...running }
    delete starting.progress
    delete starting.leases
    t.equal(sync(starting, context).writeCopies?.length, 2)
    t.equal(sync(starting, context).resyncAfterSeconds, 2, 'its pods wait for them')
    delete starting.cluster
    t.equal(sync(starting, context).writeCopies, undefined)
    const rotated = { ...credentials, engine: keySecret('new') }
    const later = sync({ ...running, copies: { engine, tls }, secrets: rotated }, context)
    t.match(later.writeCopies, [{ data: { 'api-key': 'bmV3' } }], 'kept equal while it runs')
    const done = report({ state: 'Done', backup: result() })
    t.strictSame(
      sync({ ...running, progress: done }, context).deleteCopies,
      ['engine', 'tls'].map((one) => ({
        namespace: 'far',
        name: `${name}-${one}`,
        ownerUid: 'job-1',
      })),
      'deleted when it has ended',
    )
  },
)

t.test('who waits for a Lease says for whom', async (t) => {
  const lease = leaseOf('backup', 'VecBackup/ns/other/uid-other')
  const decision = sync(
    ready({ leases: { write: { kind: 'write' }, backup: { kind: 'backup', lease, jobs: [] } } }),
    context,
  )
  t.strictSame(said(decision), ['Pending', 'WaitingForTurn', 'waits for VecBackup ns/other'])
  t.equal(decision.resyncAfterSeconds, 30)
  t.equal(decision.leases, undefined)
})

t.test(
  'while -write is held no backup starts, and its own Lease is given back in that pass',
  async (t) => {
    const write = leaseOf('write', 'VecRestore/far/r/uid-r')
    const own = leaseOf('backup', MINE)
    const decision = sync(
      ready({
        leases: {
          write: { kind: 'write', lease: write, jobs: [] },
          backup: { kind: 'backup', lease: own, jobs: [] },
        },
      }),
      context,
    )
    t.strictSame(said(decision), ['Pending', 'WaitingForTurn', 'waits for VecRestore far/r'])
    t.strictSame(decision.leases, [{ act: 'drop', lease: own }])
  },
)

t.test(
  'who must wait without a Job gives its Lease back, but not while a Job was just made',
  async (t) => {
    const lacking = ready({ secrets: {} })
    t.equal(sync(lacking, context).leases?.[0]?.act, 'drop')
    const just = sync({ ...lacking, liveJobs: [transferJob()] }, context)
    t.equal(just.leases, undefined)
    t.equal(just.resyncAfterSeconds, 2)
  },
)

t.test('a Job that only the live list shows is waited for', async (t) => {
  const decision = sync(ready({ liveJobs: [transferJob({ ended: ['Complete', 1] })] }), context)
  t.equal(jobIn(decision), undefined)
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('by shard the status names the shard of each snapshot', async (t) => {
  const key = 'daily/b/books/shard-4/books-4.snapshot'
  const snapshots = [{ node: 1, shard: 4, snapshotName: 'books-4.snapshot', key }]
  const collections = [{ name: 'books', status: 'Completed' as const, bytes: 1024, snapshots }]
  const current = {
    collection: 'docs',
    number: 2,
    shards: 6,
    shardsDone: 2,
    bytes: 1,
    bytesTotal: 3,
  }
  const progress = report({ backup: { ...result({ collections }), current } })
  const { status } = sync(ready({ jobs: [transferJob()], progress }), context)
  t.strictSame(status.collections, [
    { name: 'books', status: 'Completed', size: '1 KiB', snapshots },
  ])
})

t.test('while the Job runs the status tells how far it is', async (t) => {
  const message = 'collection 2 of 2 (docs), node 1 of 3: 1.2 GiB of 3.4 GiB, 85 MB/s, 25 s left'
  const snapshots = [{ node: 0, snapshotName: 's', key: 'daily/b/books/node-0/s' }]
  const collections = [
    { name: 'books', status: 'Completed' as const, bytes: 1_503_238_553, snapshots },
    { name: 'docs', status: 'InProgress' as const },
  ]
  const progress = report({ message, backup: result({ collections }) })
  const jobs = [transferJob()]
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(decision.status, {
    phase: 'InProgress',
    startTime: '2026-03-01T11:55:00Z',
    s3Path: 's3://store/daily/b',
    totalSize: '1.4 GiB',
    collections: [
      { name: 'books', status: 'Completed', size: '1.4 GiB', snapshots },
      { name: 'docs', status: 'InProgress' },
    ],
    conditions: complete('False', 'BackupRunning', message),
  })
  t.strictSame(decision.children, [...keptRights, ...jobs.map(kept)])
  t.match(decision.events, [{ type: 'Normal', reason: 'BackupStarted' }])
  const later = sync(
    ready({ jobs, progress, backup: backup({ status: decision.status }) }),
    context,
  )
  t.strictSame(later.events, [])
  t.equal(later.resyncAfterSeconds, 30)
})

t.test('startTime stays that of the first attempt', async (t) => {
  const status = { phase: 'InProgress', startTime: ago(900) } as const
  const progress = report({ run: 2, startedAt: ago(10) })
  const jobs = [transferJob({ run: 2 })]
  const decision = sync(ready({ backup: backup({ status }), jobs, progress }), context)
  t.equal(decision.status.startTime, ago(900))
})

t.test('a report that was removed takes nothing from the status', async (t) => {
  const status: BackupStatus = {
    phase: 'InProgress',
    startTime: ago(900),
    totalSize: '3 B',
    collections: [{ name: 'books', status: 'Completed' }],
  }
  const decision = sync(ready({ backup: backup({ status }), jobs: [transferJob()] }), context)
  t.match(decision.status, status)
})

t.test('every collection succeeded: Completed, with expiresAt from retentionDays', async (t) => {
  const progress = report({ state: 'Done', backup: result({ completed: 2 }) })
  const jobs = [transferJob()]
  const kept30 = backup({ spec: { retentionDays: 30 } })
  const decision = sync(ready({ backup: kept30, jobs, progress }), context)
  t.strictSame(decision.status, {
    phase: 'Completed',
    startTime: '2026-03-01T11:55:00Z',
    s3Path: 's3://store/daily/b',
    totalSize: '1.4 GiB',
    collections: [],
    completionTime: '2026-03-01T11:59:30Z',
    expiresAt: '2026-03-31T11:59:30Z',
    conditions: complete('True', 'BackupCompleted', 'Backed up 2/2 collections'),
  })
  t.match(decision.events, [
    {
      type: 'Normal',
      reason: 'BackupCompleted',
      message: 'Backed up 2/2 collections, 1.4 GiB in s3://store/daily/b',
    },
  ])
  t.strictSame(decision.children, [...keptRights, ...jobs.map(kept)])
})

for (const state of ['Failed', 'Refused'] as const) {
  t.test(
    `any collection failed: Failed with the error of the first failure (${state})`,
    async (t) => {
      const found = result({ failed: 1, error: 'books: node 1: no space left on device' })
      const progress = report({ state, message: 'over', backup: found })
      const decision = sync(
        ready({ backup: backup({ spec: { retentionDays: 1 } }), jobs: [transferJob()], progress }),
        context,
      )
      t.equal(decision.status.error, 'books: node 1: no space left on device')
      t.equal(decision.status.expiresAt, undefined)
      t.strictSame(
        decision.status.conditions,
        complete('False', 'BackupFailed', 'Backed up 1/2 collections'),
      )
      t.match(decision.events, [{ type: 'Warning', reason: 'BackupFailed' }])
    },
  )
}

t.test('a failure that tells no collection tells what the Job said', async (t) => {
  const refused = report({ state: 'Refused', message: 'prefix holds another backup' })
  t.equal(sync(ready({ progress: refused }), context).status.error, 'prefix holds another backup')
  t.equal(
    sync(ready({ progress: report({ state: 'Failed' }) }), context).status.error,
    'run 1 failed',
  )
})

t.test('ended by its report, a backup is never made again, whatever is missing', async (t) => {
  const progress = report({ state: 'Done', backup: result() })
  const decision = sync({ ...ready({ progress }), cluster: undefined as never }, context)
  t.equal(decision.status.phase, 'Completed')
  t.equal(jobIn(decision), undefined)
})

t.test('a Job that ended without an end report is looked at again in 2 s', async (t) => {
  const jobs = [transferJob({ ended: ['Failed', 29] })]
  const decision = sync(ready({ jobs, progress: report() }), context)
  t.equal(decision.status.phase, 'InProgress')
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('after 30 s it is Failed: Job crashed n times', async (t) => {
  const jobs = [transferJob({ ended: ['Failed', 30], failed: 7 })]
  const decision = sync(ready({ jobs, progress: report() }), context)
  t.match(decision.status, {
    phase: 'Failed',
    error: 'Job crashed 7 times',
    completionTime: '2026-03-01T11:59:30Z',
  })
  const silent = sync(ready({ jobs: [transferJob({ ended: ['Failed', 30] })] }), context)
  t.equal(silent.status.error, 'Job crashed 1 times')
  t.equal(silent.status.startTime, undefined)
})

t.test('a Job that was deleted is made again and goes on where it stood', async (t) => {
  const decision = sync(ready({ progress: report({ run: 3 }) }), context)
  t.match(jobIn(decision)?.metadata.name, /-4$/)
  t.equal(decision.status.phase, 'InProgress')
})

const stuck: [string, Partial<Observed>, string][] = [
  [
    'silent for 10 minutes',
    { jobs: [transferJob({ createdAgo: 600 })] },
    'reported nothing for 600 s',
  ],
  [
    'silent while another image is wanted',
    { jobs: [transferJob({ image: 'old' })] },
    'runs another image',
  ],
  [
    'silent while another plan is wanted',
    { jobs: [transferJob({ plan: 'old' })] },
    'has another plan than is wanted now',
  ],
  [
    'that appeared after its Lease went to another',
    {
      jobs: [transferJob()],
      leases: {
        write: { kind: 'write' },
        backup: { kind: 'backup', lease: leaseOf('backup', 'VecBackup/ns/c/uid-c'), jobs: [] },
      },
    },
    'missed its turn',
  ],
]

for (const [what, parts, why] of stuck) {
  t.test(`a Job ${what} is deleted: JobNotStarted`, async (t) => {
    const decision = sync(ready(parts), context)
    const { name } = transferJob().metadata
    t.strictSame(decision.stop, [{ namespace: 'ns', name, uid: 'job-1' }])
    t.strictSame(said(decision), [
      'Pending',
      'JobNotStarted',
      `Job ${name} ${why}: it is made again`,
    ])
    t.match(decision.events, [{ type: 'Warning', reason: 'JobNotStarted' }])
    t.equal(sync(ready({ ...parts, progress: report() }), context).stop, undefined, 'frozen')
    const [job] = parts.jobs ?? []
    const deleting = { ...job, metadata: { ...job?.metadata, deletionTimestamp: ago(1) } }
    t.equal(sync(ready({ ...parts, jobs: [deleting as never] }), context).stop, undefined)
  })
}

t.test('a Job that is starting is left alone, also while its cluster is gone', async (t) => {
  const decision = sync(ready({ jobs: [transferJob({ createdAgo: 599 })] }), context)
  t.equal(decision.stop, undefined)
  t.equal(said(decision)[1], 'BackupStarting')
  const alone = ready({ jobs: [transferJob()] })
  delete alone.cluster
  delete alone.leases
  t.equal(sync(alone, context).stop, undefined)
})

const ENDED: BackupStatus = { phase: 'Completed', completionTime: ago(600) }

t.test('a backup that has ended outlives its cluster; its Job is kept for the log', async (t) => {
  const jobs = [transferJob({ ended: ['Complete', 600] })]
  const decision = sync(
    {
      backup: backup({ status: ENDED }),
      jobs,
      children: [...rights, ...jobs] as never,
      secrets: {},
    },
    context,
  )
  t.strictSame(decision, {
    status: ENDED,
    children: jobs.map(kept),
    dropped: rights.map(({ kind, metadata }) => ({
      kind,
      name: metadata.name,
      reason: 'the backup has ended',
    })),
  })
})

t.test(
  'the rights stay until the last pod has ended, the Job until its history time is over',
  async (t) => {
    const still = ready({ backup: backup({ status: ENDED }), jobs: [transferJob()] })
    t.equal(sync(still, context).dropped, undefined)
    const old = [transferJob({ ended: ['Complete', 90_000] })]
    t.match(sync(ready({ backup: backup({ status: ENDED }), jobs: old }), context).dropped?.[0], {
      kind: 'Job',
      reason: 'its history time is over',
    })
  },
)

t.test(
  'Completed, expiresAt passed (looked at every 300 s): the resource deletes itself',
  async (t) => {
    const expiring = (expiresAt: string) =>
      sync(ready({ backup: backup({ status: { ...ENDED, expiresAt } }) }), context)
    const before = expiring(ago(-1))
    t.equal(before.expire, undefined)
    t.equal(before.resyncAfterSeconds, 300)
    t.strictSame(expiring(ago(0)).expire, { namespace: 'ns', name: 'b', uid: 'uid-b' })
  },
)

t.test('the same pass twice gives the same answer', async (t) => {
  t.strictSame(sync(ready(), context), sync(ready(), context))
  const progress = report({ message: 'collection 1 of 1' })
  const first = sync(ready({ jobs: [transferJob()], progress }), context)
  const again = ready({ backup: backup({ status: first.status }), jobs: [transferJob()], progress })
  const later = { ...context, now: new Date(NOW.getTime() + 60_000) }
  t.strictSame(sync(again, later).status, first.status)
})
