/** What is read before a decision about a VecMigration, and when. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { observe } from '../../../hooks/migration/observe.ts'
import { wantedRun } from '../../../hooks/migration/children.ts'
import type { MigrationPorts } from '../../../hooks/migration/ports.ts'
import { context, secret } from '../../builders.ts'
import { requestOf } from '../request.ts'
import { noting } from '../transfer.ts'
import { ENDPOINT, KEYED, copyJob, migration, report, running } from './objects.ts'
import { portsOf } from './ports.ts'

/** A cluster of another namespace. */
function far(name: string) {
  const made = running(name, KEYED)
  made.metadata.namespace = 'far'
  return made
}

/** Both clusters are there. */
const both: Partial<MigrationPorts> = {
  cluster: async (_, name) => running(name),
}

/** Ports that note what they are asked. */
const portsNoting = (answers: Partial<MigrationPorts>) => noting(portsOf(answers).ports)

t.test('of the clusters that are shown, source and target are known by both names', async (t) => {
  const shown = [running('a'), far('a'), running('b'), far('b')]
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const ended = { status: { phase: 'Completed' } } as const
  const known = async (parent: ReturnType<typeof migration>, related: object[]) =>
    (await observe(requestOf(parent, [], related), portsOf().ports, context)).clusters
  const parent = migration({ spec, ...ended })
  t.strictSame(await known(parent, shown), { source: shown[3], target: shown[0] })
  t.strictSame(await known(parent, [far('a'), running('b')]), {})
  t.strictSame(await known(migration({ spec: { source: ENDPOINT }, ...ended }), shown), {
    target: shown[0],
  })
})

t.test('all that stands in the way of a Job is read live, where one may be due', async (t) => {
  const { ports, asked } = portsNoting(both)
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const found = await observe(requestOf(migration({ spec })), ports, context)
  t.strictSame(asked, [
    'migration ns/m',
    'cluster far/b',
    'cluster ns/a',
    'jobsOf ns/uid-m',
    'lease ns/vec-a-write',
    'lease far/vec-b-write',
    'isReady ns/a',
  ])
  t.equal(found.isReady, true)
  t.equal(found.writers?.length, 2)
})

t.test('a migration that has ended after what the cache shows stays so', async (t) => {
  const ended = migration({ status: { phase: 'Failed', error: 'it was refused' } })
  const { ports, asked } = portsNoting({ ...both, migration: async () => ended })
  const found = await observe(requestOf(migration()), ports, context)
  t.strictSame(asked, ['migration ns/m'])
  t.strictSame(found.migration, ended)
})

t.test('an engine outside has no Lease; its Secrets are read beside the migration', async (t) => {
  const { ports, asked } = portsNoting({ ...both, secret: async () => secret({ token: 'k' }) })
  const parent = migration({ spec: { source: ENDPOINT } })
  const { secrets } = await observe(requestOf(parent), ports, context)
  t.strictSame(asked, [
    ...['migration ns/m', 'cluster ns/a', 'secret ns/old', 'secret ns/old-ca', 'jobsOf ns/uid-m'],
    'lease ns/vec-a-write',
  ])
  t.strictSame(Object.keys(secrets), ['source-engine', 'source-tls'])
})

t.test('a Secret that is not there is none', async (t) => {
  const { ports } = portsNoting(both)
  const parent = migration({ spec: { source: ENDPOINT } })
  t.strictSame((await observe(requestOf(parent), ports, context)).secrets, {})
})

for (const [why, answers] of [
  ['a Job was just made', { ...both, jobsOf: async () => [copyJob()] }],
  ['the target is gone', { cluster: async (_: string, name: string) => name === 'b' ? running('b') : undefined }], // prettier-ignore
] as const) {
  t.test(`the target is not asked whether it is ready while ${why}`, async (t) => {
    const { ports, asked } = portsNoting(answers)
    const found = await observe(requestOf(migration()), ports, context)
    t.notOk(asked.includes('isReady ns/a'))
    t.equal(found.isReady, undefined)
    t.ok(found.writers, 'the rest was read')
  })
}

t.test('while a Job starts, only its clusters and its copies are looked at', async (t) => {
  const clusters = { source: far('b'), target: running('a') }
  const spec = { source: { clusterRef: { name: 'b', namespace: 'far' } } }
  const parent = migration({ spec })
  const job = copyJob({ plan: wantedRun(parent, clusters)?.hash ?? '' })
  const { ports, asked } = portsNoting({
    cluster: async (_, name) => (name === 'b' ? clusters.source : clusters.target),
    secret: async () => secret({ 'api-key': 'k' }),
  })
  const found = await observe(requestOf(parent, [job]), ports, context)
  const { name } = job.metadata
  t.strictSame(asked, [
    ...['cluster far/b', 'cluster ns/a'],
    ...[`copy ns/${name}-source-engine`, `copy ns/${name}-source-tls`, 'secret far/vec-b-apikey'],
  ])
  t.strictSame(Object.keys(found.secrets), ['source-engine'])
  t.strictSame(found.copies, {})
})

t.test('the migration itself is read live only where its Job ended without a word', async (t) => {
  const crashed = copyJob({ ended: ['Failed', 60] })
  const asked = async (parent: ReturnType<typeof migration>, jobs: object[]) => {
    const noted = portsNoting(both)
    await observe(requestOf(parent, jobs), noted.ports, context)
    return noted.asked
  }
  t.strictSame(await asked(migration(), [crashed]), ['migration ns/m'], 'and nothing else')
  t.notOk((await asked(migration(), [copyJob()])).includes('migration ns/m'))
  const told = { [ANNOTATIONS.progress]: JSON.stringify(report({ state: 'Failed' })) }
  t.strictSame(await asked(migration({ annotations: told }), [crashed]), [])
  t.strictSame(await asked(migration({ status: { phase: 'Failed' } }), [crashed]), [])
})
