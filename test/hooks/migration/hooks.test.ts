/** The hooks of VecMigration as a whole: what they read, what they write, and how they end. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { MigrationStatus, VecMigration } from '../../../crds/migration.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import { customize, migrationHooks } from '../../../hooks/migration/index.ts'
import { migrationRbac } from '../../../hooks/migration/job.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { ago, context, secret } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { hookRequest } from '../request.ts'
import {
  ENDPOINT,
  migration,
  migrationJob,
  report,
  result,
  running,
  WITH_API_KEY,
} from './objects.ts'
import { fakePorts } from './ports.ts'

const rbac = migrationRbac(migration()) as AnyObject[]

function clustersOf(...clusters: VecCluster[]) {
  return async (_: string, name: string) => clusters.find(({ metadata }) => metadata.name === name)
}

t.test('customize selects source and target, each once', async (t) => {
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
  const { ports } = fakePorts({ isReady, cluster: clustersOf(running('a')) })
  const hooks = migrationHooks(ports)
  await hooks.sync(hookRequest(migration()), context)
  t.equal(asked, 0, 'the source is missing')
  const both = fakePorts({ isReady, cluster: clustersOf(running('a'), running('b')) })
  const decision = await migrationHooks(both.ports).sync(hookRequest(migration()), context)
  t.equal(asked, 1)
  matchWhole(t, decision.status, {
    phase: 'Pending',
    conditions: [{ message: /target cluster not ready: .* \/readyz/ }],
  })
})

t.test(
  'two passes make the rights and then the Job, and every answer passes the guard',
  async (t) => {
    const secrets = { 'vec-a-apikey': secret({ 'api-key': 'k' }) }
    const { ports } = fakePorts({
      cluster: clustersOf(running('a', WITH_API_KEY), running('b')),
      secret: async (_, name) => secrets[name as keyof typeof secrets],
    })
    const hooks = migrationHooks(ports)
    const guard = answerValidator(hooks)
    const first = hookRequest(migration())
    guard(first, await hooks.sync(first, context), 'sync')
    const second = hookRequest(migration(), rbac)
    const decision = (await hooks.sync(second, context)) as Desired<MigrationStatus>
    const { children } = guard(second, decision, 'sync')
    t.equal(children.filter(({ kind }) => kind === 'Job').length, 1)
  },
)

t.test(
  'what the cache does not show yet is read live before a Job counts as crashed',
  async (t) => {
    const progress = report({ state: 'Done', migration: result({ completed: 2 }) })
    const annotations = { [ANNOTATIONS.progress]: JSON.stringify(progress) }
    const { ports, writes: written } = fakePorts({
      migration: async () => migration({ annotations }),
    })
    const job = migrationJob({ ended: ['Complete', 60] })
    const decision = await migrationHooks(ports).sync(hookRequest(migration(), [job]), context)
    t.match(decision.status, { phase: 'Completed' })
    t.strictSame(written, ['event MigrationCompleted'])
  },
)

t.test('a migration that has ended reads nothing any more', async (t) => {
  const refuse = () => Promise.reject(new Error('asked'))
  const { ports } = fakePorts({ cluster: refuse, secret: refuse, jobsOf: refuse, lease: refuse })
  const parent = migration({ status: { phase: 'Completed' } })
  t.strictSame(
    (await migrationHooks(ports).sync(hookRequest(parent), context)).status,
    parent.status,
  )
  await t.rejects(async () => migrationHooks(ports).sync(hookRequest(migration()), context), {
    message: 'asked',
  })
})

t.test('copies are kept equal to their source while the Job runs', async (t) => {
  const away = running('b', WITH_API_KEY)
  away.metadata.namespace = 'other'
  const parent = migration({
    spec: { source: { clusterRef: { name: 'b', namespace: 'other' } } },
    annotations: { [ANNOTATIONS.progress]: JSON.stringify(report()) },
  })
  const { ports, writes: written } = fakePorts({ secret: async () => secret({ 'api-key': 'new' }) })
  const asked = hookRequest(parent, [...rbac, migrationJob()])
  asked.related = { 'VecCluster.vec-operator.dev/v1alpha1': { 'other/b': away } }
  await migrationHooks(ports).sync(asked, context)
  t.strictSame(written, [`copy ${migrationJob().metadata.name}-source-engine`])
})

t.test('deletion while it runs stops the Job first', async (t) => {
  const job = migrationJob()
  const { ports, writes: written } = fakePorts({ jobsOf: async () => [job] })
  const hooks = migrationHooks(ports)
  const asked = hookRequest(migration({ status: { phase: 'Running' } }), [...rbac, job])
  const decision = await hooks.finalize?.(asked, context)
  t.strictSame(written, [`stop ${job.metadata.name}`])
  t.match(decision, { status: { phase: 'Running' }, resyncAfterSeconds: 2 })
  t.equal(decision?.finalized, undefined)
  t.equal(decision?.children.length, rbac.length + 1)
})

t.test(
  'the deletion waits for a terminating Job, and then the migration is finalized',
  async (t) => {
    const going = migrationJob({ deletionTimestamp: ago(1) })
    const { ports, writes: written } = fakePorts({ jobsOf: async () => [going] })
    const asked = hookRequest(migration(), [...rbac, going])
    const waits = await migrationHooks(ports).finalize?.(asked, context)
    t.equal(waits?.finalized, undefined)
    t.strictSame(written, [])
    const done = await migrationHooks(fakePorts().ports).finalize?.(
      hookRequest(migration()),
      context,
    )
    t.equal(done?.finalized, true)
  },
)
