/** The hooks of VecMigration as a whole: what they read, what they write, and how they end. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { MigrationStatus, VecMigration } from '../../../crds/migration.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import { customize, migrationHooks } from '../../../hooks/migration/index.ts'
import { migrationRbac } from '../../../hooks/migration/job.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { ago, context, NOW, secret } from '../../builders.ts'
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
  const notReadyReason = async () => {
    asked += 1
    return 'GET /readyz on vec-a answered 503: some shards are not ready'
  }
  const { ports } = fakePorts({ notReadyReason, cluster: clustersOf(running('a')) })
  const hooks = migrationHooks(ports)
  await hooks.sync(hookRequest(migration()), context)
  t.equal(asked, 0, 'the source is missing')
  const both = fakePorts({ notReadyReason, cluster: clustersOf(running('a'), running('b')) })
  const decision = await migrationHooks(both.ports).sync(hookRequest(migration()), context)
  t.equal(asked, 1)
  matchWhole(t, decision.status, {
    phase: 'Pending',
    conditions: [
      {
        message:
          'target cluster not ready: cluster ns/a does not answer /readyz with 200: GET /readyz on vec-a answered 503: some shards are not ready',
      },
    ],
  })
})

/** Two migrations to the same target, which is silent until `answer` is called, and when they are synced. */
function silentTarget() {
  const calls: { signal: AbortSignal; answer: (reason: string | undefined) => void }[] = []
  const { ports } = fakePorts({
    cluster: clustersOf(running('a'), running('b')),
    notReadyReason: (_, signal) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted')))
        calls.push({ signal, answer: resolve })
      }),
  })
  const hooks = migrationHooks(ports, 50)
  const at = (seconds: number) => ({ ...context, now: new Date(NOW.getTime() + seconds * 1000) })
  const sync = async (name: string, seconds: number) => {
    const parent = migration({ name })
    const { status, resyncAfterSeconds } = await hooks.sync(hookRequest(parent), at(seconds))
    const [condition] = (status as MigrationStatus).conditions ?? []
    return [condition?.reason, condition?.message.split('with 200: ')[1], resyncAfterSeconds]
  }
  return { hooks, calls, sync, at }
}

/** Everything that waits for no timer has run. */
const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test(
  'a target that is silent is waited for once, not by each migration at each look',
  async (t) => {
    const { calls, sync } = silentTarget()
    t.strictSame(await sync('m', 0), ['ClusterNotReady', 'no answer yet', 2])
    const later = sync('m', 2)
    const other = sync('other', 2)
    const timer = nextTick().then(() => 'waits')
    t.strictSame(await Promise.race([later, timer]), ['ClusterNotReady', 'no answer yet', 4])
    t.strictSame(await Promise.race([other, timer]), ['ClusterNotReady', 'no answer yet', 2])
    t.equal(calls.length, 2, 'one call for each migration')
  },
)

t.test('the answer of a slow target is used by the next sync, and no later one', async (t) => {
  const { calls, sync } = silentTarget()
  await sync('m', 0)
  calls[0]?.answer('it starts')
  await nextTick()
  t.strictSame(await sync('m', 2), ['ClusterNotReady', 'it starts', 30])
  t.equal(calls.length, 1)
  t.strictSame(await sync('m', 32), ['ClusterNotReady', 'it starts', 2], 'it is asked again')
  t.equal(calls.length, 2)
  calls[1]?.answer(undefined)
  await nextTick()
  t.strictSame((await sync('m', 34))[0], 'MigrationStarting')
  t.strictSame(
    await sync('m', 60),
    ['ClusterNotReady', 'no answer yet', 2],
    'it may be silent by now',
  )
})

t.test('a target is not asked any more for a migration that ends or cannot start', async (t) => {
  for (const end of ['blocked', 'ended', 'deleted'] as const) {
    const { hooks, calls, sync, at } = silentTarget()
    await sync('m', 0)
    const parent = migration()
    switch (end) {
      case 'blocked':
        parent.spec.source = { clusterRef: { name: 'gone' } }
        await hooks.sync(hookRequest(parent), at(2))
        break
      case 'ended':
        parent.status = { phase: 'Failed' }
        await hooks.sync(hookRequest(parent), at(2))
        break
      case 'deleted':
        await hooks.finalize?.(hookRequest(parent), at(2))
        break
    }
    t.ok(calls[0]?.signal.aborted, end)
  }
})

t.test('a Secret of the target that cannot be read fails the hook, which is retried', async (t) => {
  const error = new KubernetesError('GET secrets/vec-a-apikey answered 403')
  const { ports } = fakePorts({
    cluster: clustersOf(running('a'), running('b')),
    notReadyReason: () => Promise.reject(error),
  })
  await t.rejects(async () => migrationHooks(ports).sync(hookRequest(migration()), context), error)
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
