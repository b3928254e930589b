/** The hooks of VecMigration as a whole: what they read, what they write, and how they end. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { VecMigration } from '../../../crds/migration.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { guardOf } from '../../../hooks/guard.ts'
import { migrationRights } from '../../../hooks/migration/children.ts'
import { customize } from '../../../hooks/migration/customize.ts'
import { migrationRoom } from '../../../hooks/migration/index.ts'
import type { MigrationStatus } from '../../../crds/migration.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { ago, context, secret } from '../../builders.ts'
import { ENDPOINT, KEYED, copyJob, migration, report, result, running } from './objects.ts'
import { portsOf } from './ports.ts'
import { requestOf } from '../request.ts'

const rights = migrationRights(migration()) as AnyObject[]

function clustersOf(...clusters: VecCluster[]) {
  return async (_: string, wanted: string) =>
    clusters.find(({ metadata }) => metadata.name === wanted)
}

t.test('a VecMigration is shown source and target, each once', async (t) => {
  const names = (parts: VecMigration) => customize(parts).map((rule) => rule.names)
  t.strictSame(names(migration()), [['a'], ['b']])
  t.strictSame(names(migration({ spec: { source: { clusterRef: { name: 'a' } } } })), [['a']])
  t.strictSame(names(migration({ spec: { source: ENDPOINT } })), [['a']])
  t.strictSame(names(migration({ status: { phase: 'Completed' } })), [], 'it has ended')
})

t.test('an engine is asked for readiness only when its answer could start a Job', async (t) => {
  let asked = 0
  const isReady = async () => {
    asked += 1
    return false
  }
  const { ports } = portsOf({ isReady, cluster: clustersOf(running('a')) })
  const room = migrationRoom(ports)
  await room.sync(requestOf(migration()), context)
  t.equal(asked, 0, 'the source is missing')
  const both = portsOf({ isReady, cluster: clustersOf(running('a'), running('b')) })
  const decision = await migrationRoom(both.ports).sync(requestOf(migration()), context)
  t.equal(asked, 1)
  t.match(decision.status, {
    phase: 'Pending',
    conditions: [{ message: /target cluster not ready: .* \/readyz/ }],
  })
})

t.test(
  'two passes make the rights and then the Job, and every answer passes the guard',
  async (t) => {
    const secrets = { 'vec-a-apikey': secret({ 'api-key': 'k' }) }
    const { ports } = portsOf({
      cluster: clustersOf(running('a', KEYED), running('b')),
      secret: async (_, name) => secrets[name as keyof typeof secrets],
    })
    const room = migrationRoom(ports)
    const guard = guardOf(room)
    const first = requestOf(migration())
    guard(first, await room.sync(first, context), 'sync')
    const second = requestOf(migration(), rights)
    const decision = (await room.sync(second, context)) as Desired<MigrationStatus>
    const { children } = guard(second, decision, 'sync')
    t.equal(children.filter(({ kind }) => kind === 'Job').length, 1)
  },
)

t.test(
  'what the cache does not show yet is read live before a Job counts as crashed',
  async (t) => {
    const progress = report({ state: 'Done', migration: result({ completed: 2 }) })
    const annotations = { [ANNOTATIONS.progress]: JSON.stringify(progress) }
    const { ports, written } = portsOf({ migration: async () => migration({ annotations }) })
    const job = copyJob({ ended: ['Complete', 60] })
    const decision = await migrationRoom(ports).sync(requestOf(migration(), [job]), context)
    t.match(decision.status, { phase: 'Completed' })
    t.strictSame(written, ['event MigrationCompleted'])
  },
)

t.test('a migration that has ended reads nothing any more', async (t) => {
  const refuse = () => Promise.reject(new Error('asked'))
  const { ports } = portsOf({ cluster: refuse, secret: refuse, jobsOf: refuse, lease: refuse })
  const parent = migration({ status: { phase: 'Completed' } })
  t.strictSame((await migrationRoom(ports).sync(requestOf(parent), context)).status, parent.status)
})

t.test('copies are kept equal to their source while the Job runs', async (t) => {
  const away = running('b', KEYED)
  away.metadata.namespace = 'other'
  const parent = migration({
    spec: { source: { clusterRef: { name: 'b', namespace: 'other' } } },
    annotations: { [ANNOTATIONS.progress]: JSON.stringify(report()) },
  })
  const { ports, written } = portsOf({ secret: async () => secret({ 'api-key': 'new' }) })
  const asked = requestOf(parent, [...rights, copyJob()])
  asked.related = { 'VecCluster.vec-operator.dev/v1alpha1': { 'other/b': away } }
  await migrationRoom(ports).sync(asked, context)
  t.strictSame(written, [`copy ${copyJob().metadata.name}-source-engine`])
})

t.test('deletion while it runs stops the Job first', async (t) => {
  const job = copyJob()
  const { ports, written } = portsOf({ jobsOf: async () => [job] })
  const room = migrationRoom(ports)
  const asked = requestOf(migration({ status: { phase: 'Running' } }), [...rights, job])
  const decision = await room.finalize?.(asked, context)
  t.strictSame(written, [`stop ${job.metadata.name}`])
  t.match(decision, { status: { phase: 'Running' }, resyncAfterSeconds: 2 })
  t.equal(decision?.finalized, undefined)
  t.equal(decision?.children.length, rights.length + 1)
})

t.test('a Job on its way out is waited for, and then the migration is gone', async (t) => {
  const going = copyJob({ deletionTimestamp: ago(1) })
  const { ports, written } = portsOf({ jobsOf: async () => [going] })
  const asked = requestOf(migration(), [...rights, going])
  const waits = await migrationRoom(ports).finalize?.(asked, context)
  t.equal(waits?.finalized, undefined)
  t.strictSame(written, [])
  const done = await migrationRoom(portsOf().ports).finalize?.(requestOf(migration()), context)
  t.equal(done?.finalized, true)
})
