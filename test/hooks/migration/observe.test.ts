/** What is read before a decision about a VecMigration, and when. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredPlan } from '../../../hooks/migration/job.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import {
  observe as observeMigration,
  type MigrationPorts,
  type TargetReadiness,
} from '../../../hooks/migration/observe.ts'
import type { Context } from '../../../hooks/protocol.ts'
import { context, secret } from '../../builders.ts'
import { recordCalls } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import { ENDPOINT, migration, migrationJob, report, running, WITH_API_KEY } from './objects.ts'
import { fakePorts } from './ports.ts'

/** A cluster of another namespace. */
function far(name: string) {
  const made = running(name, WITH_API_KEY)
  made.metadata.namespace = 'far'
  return made
}

/** As the first sync after a start of the service. */
function observe(
  request: Parameters<typeof observeMigration>[0],
  ports: MigrationPorts,
  at: Context,
) {
  return observeMigration(request, { ports, targets: new BackgroundTasks<TargetReadiness>(10) }, at)
}

/** Both clusters are there. */
const both: Partial<MigrationPorts> = {
  cluster: async (_, name) => running(name),
}

/** Ports that note what they are asked. */
const portsNoting = (answers: Partial<MigrationPorts>) => recordCalls(fakePorts(answers).ports)

t.test('source and target are found among the related clusters by both names', async (t) => {
  const children = [running('a'), far('a'), running('b'), far('b')]
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const ended = { status: { phase: 'Completed' } } as const
  const known = async (parent: ReturnType<typeof migration>, related: object[]) =>
    (await observe(hookRequest(parent, [], related), fakePorts().ports, context)).clusters
  const parent = migration({ spec, ...ended })
  t.strictSame(await known(parent, children), { source: children[3], target: children[0] })
  t.strictSame(await known(parent, [far('a'), running('b')]), {})
  t.strictSame(await known(migration({ spec: { source: ENDPOINT }, ...ended }), children), {
    target: children[0],
  })
})

t.test('everything that can block a Job is read live when a Job may be due', async (t) => {
  const { ports, calls: asked } = portsNoting(both)
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const found = await observe(hookRequest(migration({ spec })), ports, context)
  t.strictSame(asked, [
    'migration ns/m',
    'cluster far/b',
    'cluster ns/a',
    'jobsOf ns/uid-m',
    'lease ns/vec-a-write',
    'lease far/vec-b-write',
    'notReadyReason ns/a',
  ])
  t.notOk('notReady' in found)
  t.equal(found.writers?.length, 2)
})

t.test('a migration that has ended after what the cache shows stays so', async (t) => {
  const ended = migration({ status: { phase: 'Failed', error: 'it was refused' } })
  const { ports, calls: asked } = portsNoting({ ...both, migration: async () => ended })
  const found = await observe(hookRequest(migration()), ports, context)
  t.strictSame(asked, ['migration ns/m'])
  t.strictSame(found.migration, ended)
})

t.test('an engine outside has no Lease; its Secrets are read next to the migration', async (t) => {
  const { ports, calls: asked } = portsNoting({
    ...both,
    secret: async () => secret({ token: 'k' }),
  })
  const parent = migration({ spec: { source: ENDPOINT } })
  const { secrets } = await observe(hookRequest(parent), ports, context)
  t.strictSame(asked, [
    ...['migration ns/m', 'cluster ns/a', 'secret ns/old', 'secret ns/old-ca', 'jobsOf ns/uid-m'],
    'lease ns/vec-a-write',
  ])
  t.strictSame(Object.keys(secrets), ['source-engine', 'source-tls'])
})

t.test('a missing Secret is absent from the observed ones', async (t) => {
  const { ports } = portsNoting(both)
  const parent = migration({ spec: { source: ENDPOINT } })
  t.strictSame((await observe(hookRequest(parent), ports, context)).secrets, {})
})

for (const [why, answers] of [
  ['a Job was just made', { ...both, jobsOf: async () => [migrationJob()] }],
  ['the target is gone', { cluster: async (_: string, name: string) => name === 'b' ? running('b') : undefined }], // prettier-ignore
] as const) {
  t.test(`the target is not asked whether it is ready while ${why}`, async (t) => {
    const { ports, calls: asked } = portsNoting(answers)
    const found = await observe(hookRequest(migration()), ports, context)
    t.notOk(asked.includes('notReadyReason ns/a'))
    t.notOk('notReady' in found)
    t.ok(found.writers, 'the rest was read')
  })
}

t.test('while a Job starts, only its clusters and its Secret copies are read', async (t) => {
  const clusters = { source: far('b'), target: running('a') }
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const parent = migration({ spec })
  const job = migrationJob({ plan: desiredPlan(parent, clusters)?.hash ?? '' })
  const { ports, calls: asked } = portsNoting({
    cluster: async (_, name) => (name === 'b' ? clusters.source : clusters.target),
    secret: async () => secret({ 'api-key': 'k' }),
  })
  const found = await observe(hookRequest(parent, [job]), ports, context)
  const { name } = job.metadata
  t.strictSame(asked, [
    ...['cluster far/b', 'cluster ns/a'],
    ...[
      `secretCopy ns/${name}-source-engine`,
      `secretCopy ns/${name}-source-tls`,
      'secret far/vec-b-apikey',
    ],
  ])
  t.strictSame(Object.keys(found.secrets), ['source-engine'])
  t.strictSame(found.secretCopies, {})
})

t.test('the migration itself is read live only where its Job ended without a report', async (t) => {
  const crashed = migrationJob({ ended: ['Failed', 60] })
  const asked = async (parent: ReturnType<typeof migration>, jobs: object[]) => {
    const noted = portsNoting(both)
    await observe(hookRequest(parent, jobs), noted.ports, context)
    return noted.calls
  }
  t.strictSame(await asked(migration(), [crashed]), ['migration ns/m'], 'and nothing else')
  t.notOk((await asked(migration(), [migrationJob()])).includes('migration ns/m'))
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report({ state: 'Failed' })) }
  t.strictSame(await asked(migration({ annotations: annotations }), [crashed]), [])
  t.strictSame(await asked(migration({ status: { phase: 'Failed' } }), [crashed]), [])
})
