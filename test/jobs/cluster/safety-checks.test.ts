/** `cluster upgrade` that would lose shards, or to a version that the engine does not support. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { runningVersion } from '../../../jobs/cluster/safety-checks.ts'
import { clusterSpec } from '../../builders.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { jobWorld } from '../job-world.ts'

t.test('fewer replicas are rejected while a removed node holds shards', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 3)
  const shrink = { spec: clusterSpec({ replicas: 2 }), run: 2, hash: 'hash-2' }
  const { code, log } = await world.run('upgrade', world.plan(shrink))
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'ShardsWouldBeLost',
    message:
      'spec.replicas: 3 -> 2 removes nodes that hold shards: docs shard 2 on node 2; move them to the remaining nodes, or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss',
    applied: { planHash: 'hash-1' },
  })
  t.match(log, /WARNING rejected before helm reason=ShardsWouldBeLost/)
  t.match(await world.object('apps/v1', 'StatefulSet', 'vec-a'), { spec: { replicas: 3 } })

  await t.test('unless an annotation accepts the loss', async (t) => {
    const accepted = world.plan({ ...shrink, run: 3, acceptedRisks: ['shard-loss'] })
    t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
  })
})

t.test('fewer replicas are accepted when the removed nodes hold no shards', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 1)
  const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.done)
})

t.test(
  'the shards of a silent removed node are taken from the reports of the others',
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
    const engine = await world.startEngine(3)
    engine.createCollection('docs', 3)
    await world.nodes.get('vec-a-2')?.close()
    const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
    t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
    t.match(await world.progress(), { state: 'Refused', message: /docs shard 2 on node 2/ })
  },
)

t.test(
  'fewer replicas need an answer of the engine: without it the attempt fails and is retried',
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
    const engine = await world.startEngine(3)
    engine.createCollection('docs', 1)
    await world.nodes.get('vec-a-1')?.close()
    const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
    t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
    t.match(await world.progress(), {
      state: 'Failed',
      reason: 'EngineNotReady',
      message: /^spec\.replicas: 3 -> 2 requires every remaining node to report its shards: GET/,
    })
  },
)

t.test('a collection that is deleted while the nodes are asked does not count', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('gone', 2)
  // It is listed once again and then deleted.
  engine.collections.get = () => undefined
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.done)
})

t.test('an unreadable answer about shards rejects the upgrade', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('odd', 1)
  const shards = [{ id: 0.5, peers: [engine.peer(1).id] }]
  Object.assign(engine.collections.get('odd') ?? {}, { shards })
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'EngineNotReady',
    message: /answered without a valid \/remote_shards\/0\/shard_id/,
  })
})

t.test('nodes without a cluster cannot report which shards would be lost', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  await world.startEngine(2, new EngineCluster({ name: 'vec-a', enabled: false }))
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Failed',
    message: /^vec-a-0\.ns has distributed mode disabled/,
  })
})

t.test('many shards are reported as a count', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('docs', 24)
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
  t.match(await world.progress(), { message: /docs shard 1 on node 1, .* and 2 more; move them/ })
})

t.test(
  'the live version is read from the chart label or the image where the first is missing',
  async (t) => {
    const live = (labels: Record<string, string>, image: string) =>
      runningVersion({
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        metadata: { name: 'vec-a', labels },
        spec: { template: { spec: { containers: [{ image }] } } },
      })
    t.equal(live({ 'app.kubernetes.io/version': 'v1.18.3' }, 'x:v1.0.0'), '1.18.3')
    t.equal(live({ 'helm.sh/chart': 'qdrant-1.17.1' }, 'x:v1.0.0'), '1.17.1')
    t.equal(live({}, 'registry.example:5000/q/qdrant:v1.16.0-unprivileged'), '1.16.0-unprivileged')
    const digest = `@sha256:${'12'.repeat(32)}`
    t.equal(live({}, `registry.example:5000/q/qdrant:v1.16.0${digest}`), '1.16.0')
    t.equal(live({}, `${'q'.repeat(500)}:v1.16.0-unprivileged${digest}`), '1.16.0-unprivileged')
    t.equal(live({}, 'registry.example:5000/q/qdrant:latest'), undefined)
    t.equal(live({}, `registry.example:5000/q/qdrant${digest}`), undefined)
  },
)

t.test('an unknown running version does not block the upgrade', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  await world.api.patch(
    { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'vec-a' },
    {
      metadata: { labels: { 'app.kubernetes.io/version': null, 'helm.sh/chart': null } },
      spec: { template: { spec: { containers: [{ name: 'engine', image: 'engine:latest' }] } } },
    },
  )
  const plan = world.plan({ spec: clusterSpec({ version: '1.12.0' }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.done)
})

const VERSIONS = [
  [
    '1.17.1',
    'VersionDowngraded',
    'downgrade',
    /^spec\.version: 1\.18\.3 -> 1\.17\.1 downgrades to an earlier minor version/,
  ],
  ['1.18.2', undefined, undefined, undefined],
  ['v1.18.9', undefined, undefined, undefined],
  ['1.19.0', undefined, undefined, undefined],
] as const
for (const [version, reason, risk, message] of VERSIONS) {
  const title = reason === undefined ? 'is applied' : `is refused: ${reason}`
  t.test(`from 1.18.3 to ${version} ${title}`, async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan())
    const change = { spec: clusterSpec({ version }), run: 2 }
    const { code } = await world.run('upgrade', world.plan(change))
    t.equal(code, reason === undefined ? EXIT.done : EXIT.failed)
    if (reason === undefined) return
    t.match(await world.progress(), { state: 'Refused', reason, message })
    const accepted = world.plan({ ...change, run: 3, acceptedRisks: [risk] })
    t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
  })
}

t.test('a skipped minor version is rejected unless an annotation accepts it', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ version: '1.16.3' }) }))
  const change = { spec: clusterSpec({ version: '1.18.0' }), run: 2 }
  t.equal((await world.run('upgrade', world.plan(change))).code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'VersionSkipped',
    message:
      /^spec\.version: 1\.16\.3 -> 1\.18\.0 skips a minor version.*accept-risk: version-skip$/,
  })
  const accepted = world.plan({ ...change, run: 3, acceptedRisks: ['version-skip'] })
  t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
})
