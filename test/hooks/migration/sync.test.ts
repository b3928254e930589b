/** The decisions on a VecMigration's life. */
import t from 'tap'
import { decodePlan } from '../../../crds/command.ts'
import { MigrationPlan } from '../../../crds/migration-command.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import type { Lease } from '../../../crds/kubernetes.ts'
import type { SeenLease } from '../../../hooks/lease.ts'
import type { Decision } from '../../../hooks/migration/sync.ts'
import { migrationRights } from '../../../hooks/migration/children.ts'
import type { Observed } from '../../../hooks/migration/observed.ts'
import { sync } from '../../../hooks/migration/sync.ts'
import { JOB_CHILD_KINDS } from '../../../hooks/rights.ts'
import { ago, cluster, context, secret, type JobParts } from '../../builders.ts'
import {
  BOTH,
  ENDPOINT,
  KEYED,
  copyJob,
  migration,
  ready,
  report,
  result,
  running,
} from './objects.ts'

function said({ status }: Decision): (string | undefined)[] {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.reason, condition?.message]
}

function jobIn({ children }: Decision) {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

interface PodSpec {
  volumes: { name: string; secret?: { secretName: string; optional?: boolean } }[]
  containers: { args: string[]; env: { name: string; value: string }[] }[]
}

function podOf(decision: Decision): PodSpec {
  const job = jobIn(decision) as unknown as { spec: { template: { spec: PodSpec } } }
  return job.spec.template.spec
}

function planIn(decision: Decision): MigrationPlan {
  const [container] = podOf(decision).containers
  return decodePlan(MigrationPlan, container?.env.find(({ name }) => name === 'PLAN')?.value ?? '')
}

const MISSING: [string, Partial<Observed>, string, string][] = [
  ['target', { clusters: { source: running('b') } }, 'ClusterNotFound', 'cluster ns/a not found'],
  [
    'running target',
    { clusters: { ...BOTH, target: cluster({ name: 'a' }) } },
    'ClusterNotReady',
    'target cluster not ready: cluster ns/a is not installed, not Running',
  ],
  [
    'target that answers readiness',
    { isReady: false },
    'ClusterNotReady',
    'target cluster not ready: cluster ns/a does not answer /readyz with 200',
  ],
  ['source', { clusters: { target: running('a') } }, 'ClusterNotFound', 'cluster ns/b not found'],
  [
    'key of the target',
    { clusters: { ...BOTH, target: running('a', KEYED) } },
    'SecretNotFound',
    'Secret ns/vec-a-apikey not found',
  ],
  [
    'key of the source',
    { clusters: { ...BOTH, source: running('b', KEYED) } },
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
    'SecretNotUsable',
    'Secret ns/old-ca has no value in key bundle.pem',
  ],
]
for (const [what, parts, reason, message] of MISSING) {
  t.test(`VecMigration without its ${what} is Pending, to be seen again in 30 s`, async (t) => {
    const decision = sync(ready({ children: [], ...parts }), context)
    t.strictSame(said(decision), ['Pending', reason, message])
    t.strictSame(decision.children, [])
    t.equal(decision.resyncAfterSeconds, 30)
    t.notHas(decision.status, 'startTime')
    t.notHas(decision.status, 'progress')
  })
}

t.test('the rights come first, then the Job, then its report', async (t) => {
  const first = sync(ready({ children: [] }), context)
  t.strictSame(first.children, migrationRights(migration()))
  t.strictSame(said(first), [
    'Pending',
    'MigrationStarting',
    'the rights of the Job are being made',
  ])
  const second = sync(ready(), context)
  t.strictSame(podOf(second).containers[0]?.args, ['jobs/cli.js', 'migration', 'run', 'ns/m'])
  const started = `Job ${copyJob().metadata.name} was started`
  t.strictSame(said(second), ['Pending', 'MigrationStarting', started])
  t.match(planIn(second), {
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
    clusters: { target: running('a', KEYED) },
    secrets: {
      engine: secret({ 'api-key': 'k' }),
      'source-engine': secret({ token: 'k' }),
      'source-tls': secret({ 'bundle.pem': 'pem' }),
    },
  })
  const decision = sync(observed, context)
  const mounted = podOf(decision).volumes.filter(({ secret }) => secret !== undefined)
  t.strictSame(
    mounted.map(({ name, secret }) => [name, secret?.secretName]),
    [
      ['engine', 'vec-a-apikey'],
      ['source-engine', 'old'],
      ['source-tls', 'old-ca'],
    ],
  )
  t.strictSame(planIn(decision).source, {
    url: 'https://db.example:6333',
    apiKey: 'token',
    ca: 'bundle.pem',
  })
  t.strictSame(sync({ ...observed, migration: migration() }, context).status.source, 'ns/b')
})

const elsewhere = running('b', KEYED)
elsewhere.metadata.namespace = 'other'
const fromElsewhere = migration({
  spec: { source: { clusterRef: { name: 'b', namespace: 'other' } } },
})

t.test(
  'credentials of another namespace reach the Job as copies that are kept equal',
  async (t) => {
    const observed = ready({
      migration: fromElsewhere,
      clusters: { source: elsewhere, target: running('a', KEYED) },
      secrets: { engine: secret({ 'api-key': 'k' }), 'source-engine': secret({ 'api-key': 's' }) },
    })
    const started = sync(observed, context)
    const name = jobIn(started)?.metadata.name ?? ''
    t.strictSame(
      podOf(started).volumes.flatMap(({ name, secret }) => (secret ? [[name, secret]] : [])),
      [
        ['engine', { secretName: 'vec-a-apikey', optional: true }],
        ['source-engine', { secretName: `${name}-source-engine` }],
      ],
    )
    const job = copyJob()
    const during = sync({ ...observed, jobs: [job], progress: report(), copies: {} }, context)
    t.match(during.writeCopies, [
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
      copies: { 'source-engine': copy },
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

t.test('a cluster that does not allow this namespace fails the migration', async (t) => {
  const closed = running('b', { annotations: { [ANNOTATIONS.allowFrom]: 'third' } })
  closed.metadata.namespace = 'other'
  const decision = sync(
    ready({ migration: fromElsewhere, clusters: { ...BOTH, source: closed } }),
    context,
  )
  t.equal(decision.status.phase, 'Failed')
  t.match(decision.status.error, /cluster other\/b does not allow namespace ns/)
  t.equal(jobIn(decision), undefined)
})

t.test('while a restore writes to source or target no migration starts', async (t) => {
  const lease: Lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'vec-a-write', namespace: 'ns' },
    spec: { holderIdentity: 'VecRestore/ns/r/uid-r', acquireTime: ago(5) },
  }
  const held: SeenLease = { kind: 'write', lease, jobs: [] }
  const free: SeenLease = { kind: 'write' }
  for (const writers of [[held], [free, held]]) {
    const decision = sync(ready({ writers }), context)
    t.strictSame(said(decision), ['Pending', 'WaitingForTurn', 'waits for VecRestore ns/r'])
    t.equal(jobIn(decision), undefined)
    t.equal(decision.children.length, migrationRights(migration()).length)
  }
})

t.test('Pending until point counts are read, then Running with its progress', async (t) => {
  const jobs = [copyJob()]
  const pending = sync(ready({ jobs, progress: report() }), context)
  t.strictSame(said(pending), [
    'Pending',
    'MigrationStarting',
    'the points of its collections are being counted',
  ])
  const message = 'waits for the source ns/b: no answer'
  const waiting = sync(ready({ jobs, progress: report({ message }) }), context)
  t.strictSame(said(waiting), ['Pending', 'MigrationStarting', message])
  const progress = report({ migration: result(), message: 'collection 2 of 2' })
  const decision = sync(ready({ jobs, progress }), context)
  t.strictSame(said(decision), ['Running', 'MigrationRunning', 'collection 2 of 2'])
  t.match(decision.status, {
    startTime: '2026-03-01T11:55:00Z',
    source: 'ns/b',
    progress: {
      collectionsTotal: 2,
      collectionsCompleted: 1,
      pointsTotal: 1000,
      pointsCopied: 750,
      percentage: 75,
    },
    collections: [{ name: 'docs', targetName: 'docs', status: 'Completed' }],
  })
  t.match(decision.events, [
    {
      reason: 'MigrationStarted',
      message: 'copies 1000 points of 2 collections from ns/b',
    },
  ])
  t.equal(decision.children.length, migrationRights(migration()).length + 1)
})

t.test('MigrationCompleted: Copied n/m, and all of the points', async (t) => {
  const whole = result({ completed: 2, pointsCopied: 999 })
  const progress = report({ state: 'Done', migration: whole })
  const decision = sync(ready({ jobs: [copyJob()], progress }), context)
  t.strictSame(said(decision), ['Completed', 'MigrationCompleted', 'Copied 2/2'])
  t.match(decision.status, {
    progress: { percentage: 100 },
    completionTime: '2026-03-01T11:59:30Z',
  })
  t.match(decision.events, [{ reason: 'MigrationCompleted', message: 'Copied 2/2, 999 points' }])
})

t.test('MigrationFailed: the error is that of the first collection that failed', async (t) => {
  const failed = result({ failed: 1, error: 'docs: the source has 5 points, the target 4' })
  const progress = report({ state: 'Failed', message: 'Copied 1/2', migration: failed })
  const decision = sync(ready({ jobs: [copyJob()], progress }), context)
  t.strictSame(said(decision), ['Failed', 'MigrationFailed', 'Copied 1/2'])
  t.equal(decision.status.error, 'docs: the source has 5 points, the target 4')
  t.equal(decision.status.progress?.percentage, 75)
  t.match(decision.events, [{ type: 'Warning', reason: 'MigrationFailed', message: /docs: the/ }])
})

t.test('a Job that crashed to its end is told as such, once its report cannot come', async (t) => {
  const early = sync(ready({ jobs: [copyJob({ ended: ['Failed', 5] })] }), context)
  t.strictSame([early.status.phase, early.resyncAfterSeconds], ['Pending', 2])
  const late = sync(ready({ jobs: [copyJob({ ended: ['Failed', 40], failed: 7 })] }), context)
  t.strictSame([late.status.phase, late.status.error], ['Failed', 'Job crashed 7 times'])
})

const STUCK: [string, JobParts][] = [
  ['runs another image', { image: 'old' }],
  ['has another plan than is wanted now', { plan: 'other' }],
  ['reported nothing for 600 s', { createdAgo: 601 }],
]
for (const [why, parts] of STUCK) {
  t.test(`a Job that ${why} is deleted and made again`, async (t) => {
    const decision = sync(ready({ jobs: [copyJob(parts)] }), context)
    t.strictSame(decision.stop, [{ namespace: 'ns', name: copyJob().metadata.name, uid: 'job-1' }])
    t.match(said(decision)[2], why)
    t.equal(decision.events?.[0]?.reason, 'JobNotStarted')
  })
}

t.test('a Job that has reported is left alone, whatever changes around it', async (t) => {
  const jobs = [copyJob({ plan: 'other', image: 'old', createdAgo: 9000 })]
  const decision = sync(ready({ jobs, clusters: {}, progress: report() }), context)
  t.equal(decision.stop, undefined)
  t.equal(decision.children.filter(({ kind }) => kind === 'Job').length, 1)
})

t.test('a Job whose clusters are gone is left alone until it has told of itself', async (t) => {
  const decision = sync(ready({ jobs: [copyJob()], clusters: {} }), context)
  t.equal(decision.stop, undefined)
})

t.test('a Job that Metacontroller does not show yet is not made twice', async (t) => {
  const decision = sync(ready({ liveJobs: [copyJob()] }), context)
  t.equal(jobIn(decision), undefined)
  t.strictSame(said(decision)[2], 'the Job was just made')
})

t.test('the next Job of a migration has the next number', async (t) => {
  const progress = report({ run: 3 })
  t.equal(planIn(sync(ready({ progress }), context)).run, 4)
})

t.test(
  'a migration that has ended keeps its status and its Job, and never gets another',
  async (t) => {
    const status = { phase: 'Failed' as const, error: 'no' }
    const observed = ready({
      migration: migration({ status }),
      clusters: {},
      jobs: [copyJob({ ended: ['Complete', 60] })],
    })
    const decision = sync(observed, context)
    t.strictSame(decision.status, status)
    t.strictSame(
      decision.children.map(({ kind }) => kind),
      ['Job'],
    )
    t.equal(decision.dropped?.length, migrationRights(migration()).length)
    t.match(decision.dropped, [{ kind: 'ServiceAccount', reason: 'the migration has ended' }])
    const old = sync({ ...observed, jobs: [copyJob({ ended: ['Complete', 90_000] })] }, context)
    t.ok(old.dropped?.some(({ kind }) => kind === 'Job') ?? false)
  },
)

t.test('what is known of the progress stays when somebody removes the report', async (t) => {
  const status = {
    phase: 'Running' as const,
    startTime: '2026-03-01T11:00:00Z',
    source: 'ns/b',
    collections: [{ name: 'docs', targetName: 'docs', status: 'Running' as const }],
    progress: {
      ...{ collectionsTotal: 2, collectionsCompleted: 1 },
      ...{ pointsTotal: 1000, pointsCopied: 750, percentage: 75 },
    },
  }
  const decision = sync(ready({ migration: migration({ status }), jobs: [copyJob()] }), context)
  t.match(decision.status, status)
})
