/** What a VecBackup waits for before its Job is created, and each step to it. */
import t from 'tap'
import { BackupPlan, decodePlan } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Observed } from '../../../hooks/backup/observe.ts'
import { sync } from '../../../hooks/backup/sync.ts'
import { ago, cluster, context, secret, settings, statefulSet } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  BUCKET_SECRET,
  OWN_HOLDER,
  backup,
  bucketKeys,
  keySecret,
  ready,
  runningCluster,
  dataJob,
} from './objects.ts'
import { HALF_UPDATED, leaseOf } from '../data-job/fixtures.ts'
import { createdJob, jobPod, statusSummary } from '../decisions.ts'
import { complete, unchangedRbac, rbac } from './decisions.ts'

const bare = secret({})
delete bare.data

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
  [
    'cluster of one version',
    { cluster: cluster({ status: HALF_UPDATED }) },
    'ClusterNotReady',
    'cluster ns/a: the pods have the versions 1.16.3, 1.17.1; docs/2 is Active only on node 1',
  ],
  [
    'cluster with pods',
    { cluster: cluster({ status: { phase: 'Hibernated' } }) },
    'ClusterHibernated',
    'cluster ns/a is hibernated: no pods run until its spec.hibernate is false',
  ],
  ['credentials', { secrets: {} }, 'SecretNotFound', 'Secret ns/s3 not found'],
  [
    'secret access key',
    { secrets: { bucket: secret({ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: '' }) } },
    'InvalidSecret',
    'Secret ns/s3 has no value in key CLOUD_SECRET_ACCESS_KEY',
  ],
  ...['kubernetes.io/service-account-token', 'kubernetes.io/tls', 'helm.sh/release.v1'].map(
    (type): [string, Partial<Observed>, string, string] => [
      `credentials, for the Secret is of type ${type}`,
      { secrets: { bucket: { ...bucketKeys, type } } },
      'InvalidSecret',
      `Secret ns/s3 is of type ${type}, which cannot hold credentials; use a Secret of type Opaque`,
    ],
  ),
  [
    "cluster's key",
    { cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }) },
    'SecretNotFound',
    'Secret ns/vec-a-apikey not found',
  ],
  [
    "value of the cluster's key, for its Secret is empty",
    {
      cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }),
      secrets: { bucket: bucketKeys, engine: bare },
    },
    'InvalidSecret',
    'Secret ns/vec-a-apikey has no value in key api-key',
  ],
  [
    "value of the cluster's key",
    {
      cluster: runningCluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }),
      secrets: { bucket: bucketKeys, engine: keySecret('') },
    },
    'InvalidSecret',
    'Secret ns/vec-a-apikey has no value in key api-key',
  ],
]

for (const [what, parts, reason, message] of missing) {
  t.test(`VecBackup without its ${what} is Pending, and checked again in 30 s`, async (t) => {
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
    t.ok(createdJob(sync(ready({ secrets: { bucket } }), context)))
    const s3 = backup().spec.storage.s3
    const credentialsSecretRef = { ...BUCKET_SECRET, accessKeyIdKey: 'own' }
    const own = backup({ spec: { storage: { s3: { ...s3, credentialsSecretRef } } } })
    t.strictSame(statusSummary(sync(ready({ backup: own, secrets: { bucket } }), context)), [
      'Pending',
      'InvalidSecret',
      'Secret ns/s3 has no value in key own',
    ])
  },
)

t.test('no key of a TLS Secret is sent as a session token', async (t) => {
  const keys = { 'tls.crt': 'certificate', 'tls.key': 'private key' }
  const bucket = { ...secret(keys), type: 'kubernetes.io/tls' }
  const credentialsSecretRef = {
    ...{ name: 's3', accessKeyIdKey: 'tls.crt', secretAccessKeyKey: 'tls.crt' },
    sessionTokenKey: 'tls.key',
  }
  const s3 = { ...backup().spec.storage.s3, credentialsSecretRef }
  const named = backup({ spec: { storage: { s3 } } })
  t.strictSame(statusSummary(sync(ready({ backup: named, secrets: { bucket } }), context)), [
    'Pending',
    'InvalidSecret',
    'Secret ns/s3 is of type kubernetes.io/tls, which cannot hold credentials; use a Secret of type Opaque',
  ])
})

t.test('a backup waits until the cluster allows its namespace', async (t) => {
  const annotations = { [ANNOTATIONS.allowedNamespaces]: 'apps, other' }
  const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })
  const observed = ready({ backup: far, children: [], cluster: runningCluster({ annotations }) })
  const decision = sync(observed, context)
  const message = `cluster ns/a does not allow namespace far: add it to the annotation ${ANNOTATIONS.allowedNamespaces} of the cluster`
  t.strictSame(decision.status, {
    phase: 'Pending',
    conditions: complete('False', 'RefNotPermitted', message),
  })
  t.equal(decision.resyncAfterSeconds, 30)
  t.equal(createdJob(decision), undefined)
  for (const list of ['*', 'apps,far', ' far ']) {
    const allowed = runningCluster({ annotations: { [ANNOTATIONS.allowedNamespaces]: list } })
    matchWhole(t, sync({ ...observed, cluster: allowed }, context).status.conditions, [
      { reason: 'BackupStarting' },
    ])
  }
})

t.test('RBAC is created before the Job, which reports with it', async (t) => {
  t.strictSame(sync(ready({ children: [] }), context), {
    status: {
      phase: 'Pending',
      conditions: complete(
        'False',
        'BackupStarting',
        'creating ServiceAccount, Role and RoleBinding for the Job',
      ),
    },
    children: rbac,
    resyncAfterSeconds: 2,
    events: [],
  })
})

t.test('the Lease is taken last, and no Job is created in that pass', async (t) => {
  const leases = { write: { kind: 'write' }, backup: { kind: 'backup' } } as const
  const decision = sync(ready({ leases }), context)
  t.strictSame(decision.children, unchangedRbac)
  matchWhole(t, decision.leases, [
    {
      action: 'take',
      lease: { metadata: { name: 'vec-a-backup' }, spec: { holderIdentity: OWN_HOLDER } },
    },
  ])
  t.equal(decision.resyncAfterSeconds, 2)
  t.strictSame(statusSummary(decision), [
    'Pending',
    'BackupStarting',
    'acquiring the Lease of the cluster',
  ])
})

t.test('the Job is created in the next sync that sees the Lease held', async (t) => {
  const decision = sync(ready({ statefulSet: statefulSet(3) }), context)
  matchWhole(t, decision.leases, [
    { action: 'renew', lease: { metadata: { name: 'vec-a-backup' } } },
  ])
  t.match(createdJob(decision), {
    metadata: {
      name: dataJob().metadata.name,
      labels: { 'app.kubernetes.io/component': 'transfer', 'vec-operator.dev/parent': 'uid-b' },
    },
  })
  const started = `creating Job ${dataJob().metadata.name}`
  t.strictSame(statusSummary(decision), ['Pending', 'BackupStarting', started])
  const { container, volumes } = jobPod(decision)
  t.strictSame(container.args, ['jobs/main.js', 'backup', 'run', 'ns/b'])
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

t.test('a backup that waits for a Lease names its holder', async (t) => {
  const lease = leaseOf('backup', 'VecBackup/ns/other/uid-other')
  const decision = sync(
    ready({ leases: { write: { kind: 'write' }, backup: { kind: 'backup', lease, jobs: [] } } }),
    context,
  )
  t.strictSame(statusSummary(decision), [
    'Pending',
    'ClusterBusy',
    'waiting for VecBackup ns/other',
  ])
  t.equal(decision.resyncAfterSeconds, 30)
  const [noted] = decision.leases ?? []
  t.equal(noted?.lease.spec?.holderIdentity, 'VecBackup/ns/other/uid-other')
  t.match(noted?.lease.metadata.annotations?.[ANNOTATIONS.waiters], OWN_HOLDER)
})

t.test(
  'a backup waits for a helm run, which holds the Lease or came before there was one',
  async (t) => {
    const run = {
      kind: 'backup' as const,
      lease: leaseOf('backup', 'VecCluster/ns/a/uid-a'),
      jobs: [],
    }
    const held = sync(ready({ leases: { write: { kind: 'write' }, backup: run } }), context)
    t.strictSame(statusSummary(held), [
      ...['Pending', 'ClusterBusy', 'waiting for the work on VecCluster ns/a'],
    ])
    const first = sync(ready({ helmJobs: ['helm Job cluster-upgrade-1'] }), context)
    t.strictSame(statusSummary(first), [
      ...['Pending', 'ClusterBusy', 'waiting for helm Job cluster-upgrade-1'],
    ])
    t.equal(createdJob(first), undefined)
  },
)

t.test(
  'while the Lease -write is held no backup starts, and its own Lease is released in that pass',
  async (t) => {
    const write = leaseOf('write', 'VecRestore/far/r/uid-r')
    const own = leaseOf('backup', OWN_HOLDER)
    const decision = sync(
      ready({
        leases: {
          write: { kind: 'write', lease: write, jobs: [] },
          backup: { kind: 'backup', lease: own, jobs: [] },
        },
      }),
      context,
    )
    t.strictSame(statusSummary(decision), [
      'Pending',
      'ClusterBusy',
      'waiting for VecRestore far/r',
    ])
    t.strictSame(decision.leases, [{ action: 'drop', lease: own }])
  },
)

t.test(
  'a backup that waits without a Job releases its Lease, but not right after it created a Job',
  async (t) => {
    const withoutSecrets = ready({ secrets: {} })
    t.equal(sync(withoutSecrets, context).leases?.[0]?.action, 'drop')
    const just = sync({ ...withoutSecrets, liveJobs: [dataJob()] }, context)
    t.equal(just.leases, undefined)
    t.equal(just.resyncAfterSeconds, 2)
  },
)

t.test(
  'a Job that is not observed for two minutes has lost its label: the message says what to do',
  async (t) => {
    const liveJobs = (createdAgo: number) => [dataJob({ createdAgo })]
    const soon = sync(ready({ liveJobs: liveJobs(119) }), context)
    t.equal(statusSummary(soon)[2], 'the Job was just created')
    const lost = sync(ready({ liveJobs: liveJobs(120) }), context)
    t.match(statusSummary(lost)[2], /^Metacontroller does not list Job .*-1 because it lost its label controller-uid; .*controller-uid=uid-b\) or delete the Job$/) // prettier-ignore
    t.equal(lost.resyncAfterSeconds, 30)
    t.strictSame([lost.leases, lost.deleteJobs], [undefined, undefined], 'it may be at work')
  },
)
