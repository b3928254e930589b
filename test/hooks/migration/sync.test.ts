/** The decisions on a VecMigration's life. */
import t from 'tap'
import { MigrationPlan } from '../../../crds/contract/migration-job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Lease } from '../../../crds/kubernetes.ts'
import type { ObservedLease } from '../../../hooks/lease.ts'
import { migrationRbac } from '../../../hooks/migration/job.ts'
import type { Observed } from '../../../hooks/migration/observe.ts'
import { sync } from '../../../hooks/migration/sync.ts'
import { JOB_CHILD_KINDS } from '../../../hooks/request.ts'
import { ago, cluster, context, secret } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { HALF_UPDATED } from '../data-job/fixtures.ts'
import { createdJob, jobPlan, jobPod, statusSummary } from '../decisions.ts'
import {
  CLUSTERS,
  ENDPOINT,
  WITH_API_KEY,
  migrationJob,
  migration,
  ready,
  report,
  result,
  running,
} from './objects.ts'

const MISSING: [string, Partial<Observed>, string, string][] = [
  ['target', { clusters: { source: running('b') } }, 'ClusterNotFound', 'cluster ns/a not found'],
  [
    'running target',
    { clusters: { ...CLUSTERS, target: cluster({ name: 'a' }) } },
    'ClusterNotReady',
    'target cluster not ready: cluster ns/a is not installed, not Running',
  ],
  [
    'target that answers readiness',
    { notReady: 'GET /readyz on node 0 answered 503: some shards are not ready' },
    'ClusterNotReady',
    'target cluster not ready: cluster ns/a does not answer /readyz with 200: GET /readyz on node 0 answered 503: some shards are not ready',
  ],
  ['source', { clusters: { target: running('a') } }, 'ClusterNotFound', 'cluster ns/b not found'],
  [
    'key of the target',
    { clusters: { ...CLUSTERS, target: running('a', WITH_API_KEY) } },
    'SecretNotFound',
    'Secret ns/vec-a-apikey not found',
  ],
  [
    'key of the source',
    { clusters: { ...CLUSTERS, source: running('b', WITH_API_KEY) } },
    'SecretNotFound',
    'Secret ns/vec-b-apikey not found',
  ],
  [
    'Secret with the API key of the endpoint',
    { migration: migration({ spec: { source: ENDPOINT } }) },
    'SecretNotFound',
    'Secret ns/old not found',
  ],
  [
    'Secret with the authority of the endpoint',
    {
      migration: migration({ spec: { source: ENDPOINT } }),
      secrets: { 'source-engine': secret({ token: 'k' }), 'source-tls': secret({ other: 'x' }) },
    },
    'InvalidSecret',
    'Secret ns/old-ca has no value in key bundle.pem',
  ],
]
for (const [what, parts, reason, message] of MISSING) {
  t.test(`VecMigration without its ${what} is Pending, to be seen again in 30 s`, async (t) => {
    const decision = sync(ready({ children: [], ...parts }), context)
    t.strictSame(statusSummary(decision), ['Pending', reason, message])
    t.strictSame(decision.children, [])
    t.equal(decision.resyncAfterSeconds, 30)
    t.strictSame(Object.keys(decision.status), ['phase', 'source', 'conditions'])
  })
}

t.test('a migration reads and writes while the pods have two versions', async (t) => {
  const clusters = {
    source: cluster({ name: 'b', status: HALF_UPDATED }),
    target: cluster({ name: 'a', status: HALF_UPDATED }),
  }
  t.ok(createdJob(sync(ready({ clusters }), context)))
})

t.test('a target that is still being asked is looked at again soon', async (t) => {
  const decision = sync(ready({ notReady: 'no answer yet', targetResyncSeconds: 4 }), context)
  t.equal(decision.resyncAfterSeconds, 4)
})

t.test('RBAC is created first, then the Job, then it reports', async (t) => {
  const first = sync(ready({ children: [] }), context)
  t.strictSame(first.children, migrationRbac(migration()))
  t.strictSame(statusSummary(first), [
    'Pending',
    'MigrationStarting',
    'creating ServiceAccount, Role and RoleBinding for the Job',
  ])
  const second = sync(ready(), context)
  t.strictSame(jobPod(second).container.args, ['jobs/main.js', 'migration', 'run', 'ns/m'])
  const started = `creating Job ${migrationJob().metadata.name}`
  t.strictSame(statusSummary(second), ['Pending', 'MigrationStarting', started])
  t.match(jobPlan(second, MigrationPlan), {
    resource: 'vecmigrations',
    run: 1,
    source: { cluster: { namespace: 'ns', name: 'b' } },
    target: { namespace: 'ns', name: 'a' },
  })
  const kinds = new Set<string>(JOB_CHILD_KINDS)
  for (const { apiVersion, kind } of second.children) {
    const [group = '', version] = apiVersion.split('/')
    t.ok(kinds.has(version === undefined ? `${kind}.${group}` : `${kind}.${group}/${version}`))
  }
})

t.test('API key and CA of an endpoint are mounted from Secrets of its own namespace', async (t) => {
  const observed = ready({
    migration: migration({ spec: { source: ENDPOINT } }),
    clusters: { target: running('a', WITH_API_KEY) },
    secrets: {
      engine: secret({ 'api-key': 'k' }),
      'source-engine': secret({ token: 'k' }),
      'source-tls': secret({ 'bundle.pem': 'pem' }),
    },
  })
  const decision = sync(observed, context)
  const mounted = jobPod(decision).volumes.filter(({ secret }) => secret !== undefined)
  t.strictSame(
    mounted.map(({ name, secret }) => [name, secret?.secretName]),
    [
      ['engine', 'vec-a-apikey'],
      ['source-engine', 'old'],
      ['source-tls', 'old-ca'],
    ],
  )
  t.strictSame(jobPlan(decision, MigrationPlan).source, {
    url: 'https://db.example:6333',
    apiKey: 'token',
    ca: 'bundle.pem',
  })
  t.strictSame(sync({ ...observed, migration: migration() }, context).status.source, 'ns/b')
})

const elsewhere = running('b', WITH_API_KEY)
elsewhere.metadata.namespace = 'other'
const fromElsewhere = migration({
  spec: { source: { clusterRef: { name: 'b', namespace: 'other' } } },
})

t.test(
  'credentials of another namespace reach the Job as copies that are kept equal',
  async (t) => {
    const observed = ready({
      migration: fromElsewhere,
      clusters: { source: elsewhere, target: running('a', WITH_API_KEY) },
      secrets: { engine: secret({ 'api-key': 'k' }), 'source-engine': secret({ 'api-key': 's' }) },
    })
    const started = sync(observed, context)
    const name = createdJob(started)?.metadata.name ?? ''
    t.strictSame(
      jobPod(started).volumes.flatMap(({ name, secret }) => (secret ? [[name, secret]] : [])),
      [
        ['engine', { secretName: 'vec-a-apikey', optional: true }],
        ['source-engine', { secretName: `${name}-source-engine` }],
      ],
    )
    const job = migrationJob()
    const during = sync({ ...observed, jobs: [job], progress: report(), secretCopies: {} }, context)
    matchWhole(t, during.writeCopies, [
      {
        metadata: {
          name: `${name}-source-engine`,
          namespace: 'ns',
          ownerReferences: [{ uid: 'job-1' }],
        },
        data: { 'api-key': Buffer.from('s').toString('base64') },
      },
    ])
    const [copy] = during.writeCopies ?? []
    const equal = {
      ...observed,
      jobs: [job],
      progress: report(),
      secretCopies: { 'source-engine': copy },
    } as Observed
    t.equal(sync(equal, context).writeCopies, undefined)
    const progress = report({ state: 'Done', migration: result() })
    const ended = sync({ ...observed, jobs: [job], progress }, context)
    t.strictSame(
      ended.deleteCopies?.map(({ name: copied }) => copied),
      [`${name}-source-engine`, `${name}-source-tls`],
    )
  },
)

t.test('a migration waits until both clusters allow its namespace', async (t) => {
  const closed = running('b', { annotations: { [ANNOTATIONS.allowedNamespaces]: 'third' } })
  closed.metadata.namespace = 'other'
  const decision = sync(
    ready({ migration: fromElsewhere, clusters: { ...CLUSTERS, source: closed } }),
    context,
  )
  const message = /cluster other\/b does not allow namespace ns/
  matchWhole(t, decision.status, {
    phase: 'Pending',
    conditions: [{ reason: 'RefNotPermitted', message }],
  })
  t.equal(decision.resyncAfterSeconds, 30)
  t.equal(createdJob(decision), undefined)
})

t.test('while a restore writes to source or target no migration starts', async (t) => {
  const lease: Lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'vec-a-write', namespace: 'ns' },
    spec: { holderIdentity: 'VecRestore/ns/r/uid-r', acquireTime: ago(5) },
  }
  const held: ObservedLease = { kind: 'write', lease, jobs: [] }
  const free: ObservedLease = { kind: 'write' }
  for (const writers of [[held], [free, held]]) {
    const decision = sync(ready({ writers }), context)
    t.strictSame(statusSummary(decision), ['Pending', 'ClusterBusy', 'waiting for VecRestore ns/r'])
    t.equal(createdJob(decision), undefined)
    t.equal(decision.children.length, migrationRbac(migration()).length)
  }
})
