/** `cluster upgrade`, through the real CLI, an API server, and a helm on PATH. */
import t from 'tap'
import { EXIT } from '../../crds/command.ts'
import { ANNOTATIONS, LABELS } from '../../crds/names.ts'
import { liveVersion } from '../../jobs/cluster/refusals.ts'
import { clusterSpec } from '../builders.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { JOB, RUNNER, START } from './job-ground.ts'
import { instantTime, jobWorld, podOf } from './job-world.ts'

t.test('the first run installs the release and reports what was applied', async (t) => {
  const world = await jobWorld(t)
  const plan = world.plan({ secretFingerprints: { s: 'f' }, startMark: 'm' })
  const { code, log } = await world.run('upgrade', plan)
  t.equal(code, EXIT.done, log)
  const statefulSet = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  t.equal(statefulSet?.metadata.labels?.['app.kubernetes.io/version'], 'v1.18.3')
  t.strictSame(await world.progress(), {
    uid: world.uid,
    verb: 'upgrade',
    run: 1,
    job: JOB,
    runner: RUNNER,
    plan: 'hash-1',
    state: 'Done',
    at: START.toISOString(),
    startedAt: START.toISOString(),
    applied: {
      planHash: 'hash-1',
      generation: 1,
      secretFingerprints: { s: 'f' },
      startMark: 'm',
      version: '1.18.3',
      run: 1,
      at: START.toISOString(),
      statefulSetGeneration: 1,
    },
  })
  const parent = await world.object('vec-operator.dev/v1alpha1', 'VecCluster', 'a')
  t.strictSame(
    JSON.parse(parent?.metadata.annotations?.[ANNOTATIONS.lastAppliedSpec] ?? ''),
    plan.spec,
  )
  t.match(
    log,
    /helm runs command=helm upgrade --install vec-a qdrant --repo https:\/\/charts\.example\/engine --version 1\.18\.3 --namespace ns --timeout 600s --values -\n/,
  )
  t.match(log, /Release "vec-a" does not exist\. Installing it now\./)
  t.match(log, /upgrade has ended outcome=Done/)
})

t.test('a spec change re-runs helm; the revision before is superseded', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const spec = clusterSpec({ replicas: 3 })
  const { code, log } = await world.run('upgrade', world.plan({ spec, run: 2, generation: 2 }))
  t.equal(code, EXIT.done, log)
  const { items } = await world.api.list('v1', 'Secret', { labelSelector: 'owner=helm' })
  t.strictSame(
    items.map(({ metadata }) => [metadata.name, metadata.labels?.['status']]),
    [
      ['sh.helm.release.v1.vec-a.v1', 'superseded'],
      ['sh.helm.release.v1.vec-a.v2', 'deployed'],
    ],
  )
  t.match(await world.progress(), { state: 'Done', applied: { statefulSetGeneration: 2, run: 2 } })
})

t.test(
  "a Helm error is reported in helm's words, and what was applied is carried over",
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan())
    const plan = world.plan({
      version: '9.9.9',
      run: 2,
      hash: 'hash-2',
      acceptedRisks: ['version-skip'],
    })
    const { code, log } = await world.run('upgrade', plan)
    t.equal(code, EXIT.over)
    t.match(await world.progress(), {
      state: 'Failed',
      run: 2,
      plan: 'hash-2',
      reason: 'HelmFailed',
      message:
        'chart "qdrant" version "9.9.9" not found in https://charts.example/engine repository',
      applied: { planHash: 'hash-1', run: 1 },
    })
    t.match(
      log,
      /ERROR attempt failed .*reason=HelmFailed message=chart "qdrant" version "9\.9\.9" not found/,
    )
  },
)

const BAD_VALUES = {
  'config that the chart rejects': [
    { config: { cluster: { p2p: 5 } } },
    /^template: qdrant.*can't evaluate field enable_tls/s,
  ],
  'a ServiceMonitor without its CRD': [
    { metrics: { serviceMonitor: { enabled: true } } },
    /no matches for kind "ServiceMonitor" in version "monitoring\.coreos\.com\/v1"/,
  ],
} as const
for (const [what, [values, message]] of Object.entries(BAD_VALUES)) {
  t.test(`${what} ends the attempt with the reason`, async (t) => {
    const world = await jobWorld(t)
    const { code } = await world.run('upgrade', world.plan({ values: { ...values } }))
    t.equal(code, EXIT.over)
    t.match(await world.progress(), { state: 'Failed', reason: 'HelmFailed', message })
    t.equal(await world.object('apps/v1', 'StatefulSet', 'vec-a'), undefined)
  })
}

t.test('objects of somebody else are not taken over', async (t) => {
  const world = await jobWorld(t)
  await world.api.create({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'vec-a', namespace: 'ns' },
    spec: {},
  })
  const { code } = await world.run('upgrade', world.plan({ values: { fullnameOverride: 'vec-a' } }))
  t.equal(code, EXIT.over)
  t.match(await world.progress(), {
    state: 'Failed',
    message:
      /^Unable to continue with install: Service "vec-a" in namespace "ns" exists and cannot be imported/,
  })
})

t.test(
  'a changed snapshotPersistence makes the upgrade fail, and the next valid one works',
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan())
    const values = { fullnameOverride: 'vec-a', snapshotPersistence: { enabled: true } }
    t.equal((await world.run('upgrade', world.plan({ values, run: 2 }))).code, EXIT.over)
    t.match(await world.progress(), {
      state: 'Failed',
      message:
        /^UPGRADE FAILED: cannot patch "vec-a" with kind StatefulSet: .* Forbidden: updates to statefulset spec/,
    })
    t.equal((await world.run('upgrade', world.plan({ run: 3 }))).code, EXIT.done)
  },
)

t.test('a release that a killed helm left pending is healed when nobody works on it', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  await pendingRevision(world.api, 2)
  const { code, log } = await world.run('upgrade', world.plan({ run: 2 }))
  t.equal(code, EXIT.done, log)
  t.match(
    log,
    /WARNING an earlier helm was killed: its pending revision is deleted release=vec-a secret=sh\.helm\.release\.v1\.vec-a\.v2 status=pending-upgrade/,
  )
})

t.test('a pending release is left alone while another pod of it lives', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  await pendingRevision(world.api, 2)
  await world.api.create(podOf('other', { [LABELS.release]: 'vec-a' }))
  const { code, log } = await world.run('upgrade', world.plan({ run: 2 }))
  t.equal(code, EXIT.crash)
  t.match(log, /waits for other pods of this release release=vec-a pods=\["other"\]/)
  t.match(log, /other still works on release vec-a/)
  t.ok(await world.object('v1', 'Secret', 'sh.helm.release.v1.vec-a.v2'))
  t.match(await world.progress(), { state: 'Started', run: 2 })
})

t.test('it waits for the other pod and goes on once that one has ended', async (t) => {
  const world = await jobWorld(t)
  await world.api.create(podOf('other', { [LABELS.release]: 'vec-a' }))
  const time = instantTime(() =>
    world.api.patch(
      { apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name: 'other' },
      { status: { phase: 'Failed' } },
      { subresource: 'status' },
    ),
  )
  t.equal((await world.run('upgrade', world.plan(), { time })).code, EXIT.done)
})

t.test('fewer replicas are refused while a node that leaves holds shards', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 3)
  const shrink = { spec: clusterSpec({ replicas: 2 }), run: 2, hash: 'hash-2' }
  const { code, log } = await world.run('upgrade', world.plan(shrink))
  t.equal(code, EXIT.over)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'ShardsWouldBeLost',
    message:
      'spec.replicas: 3 -> 2 removes nodes that hold shards: docs shard 2 on node 2; move them to nodes that stay, or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss',
    applied: { planHash: 'hash-1' },
  })
  t.match(log, /WARNING refused before helm reason=ShardsWouldBeLost/)
  t.match(await world.object('apps/v1', 'StatefulSet', 'vec-a'), { spec: { replicas: 3 } })

  await t.test('unless an annotation accepts the loss', async (t) => {
    const accepted = world.plan({ ...shrink, run: 3, acceptedRisks: ['shard-loss'] })
    t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
  })
})

t.test('fewer replicas are fine when the nodes that leave hold nothing', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 1)
  const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.done)
})

t.test('a silent node that leaves is judged by what the others know', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 3)
  await world.nodes.get('vec-a-2')?.close()
  const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.over)
  t.match(await world.progress(), { state: 'Refused', message: /docs shard 2 on node 2/ })
})

t.test(
  'an engine that does not answer is no permission: the attempt fails and is made again',
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
    const engine = await world.startEngine(3)
    engine.createCollection('docs', 1)
    await world.nodes.get('vec-a-1')?.close()
    const plan = world.plan({ spec: clusterSpec({ replicas: 2 }), run: 2 })
    t.equal((await world.run('upgrade', plan)).code, EXIT.over)
    t.match(await world.progress(), {
      state: 'Failed',
      reason: 'EngineNotReady',
      message:
        /^spec\.replicas: 3 -> 2 needs every node that stays to say where the shards are: GET/,
    })
  },
)

t.test('a collection that is deleted while the nodes are asked does not count', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('gone', 2)
  // Listed once more, and then it is gone.
  engine.collections.get = () => undefined
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.done)
})

t.test('an answer about shards that does not read is no permission', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('odd', 1)
  const shards = [{ id: 0.5, peers: [engine.peer(1).id] }]
  Object.assign(engine.collections.get('odd') ?? {}, { shards })
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.over)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'EngineNotReady',
    message: /answered without a valid \/remote_shards\/0\/shard_id/,
  })
})

t.test('nodes that run alone cannot say what would be lost', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  await world.startEngine(2, new EngineCluster({ name: 'vec-a', enabled: false }))
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.over)
  t.match(await world.progress(), { state: 'Failed', message: /^vec-a-0\.ns runs alone/ })
})

t.test('many shards are told of by their number', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 2 }) }))
  const engine = await world.startEngine(2)
  engine.createCollection('docs', 24)
  const plan = world.plan({ spec: clusterSpec({ replicas: 1 }), run: 2 })
  t.equal((await world.run('upgrade', plan)).code, EXIT.over)
  t.match(await world.progress(), { message: /docs shard 1 on node 1, .* and 2 more; move them/ })
})

t.test(
  'the live version is read from the chart label or the image where the first is missing',
  async (t) => {
    const live = (labels: Record<string, string>, image: string) =>
      liveVersion({
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        metadata: { name: 'vec-a', labels },
        spec: { template: { spec: { containers: [{ image }] } } },
      })
    t.equal(live({ 'app.kubernetes.io/version': 'v1.18.3' }, 'x:v1.0.0'), '1.18.3')
    t.equal(live({ 'helm.sh/chart': 'qdrant-1.17.1' }, 'x:v1.0.0'), '1.17.1')
    t.equal(live({}, 'registry.example:5000/q/qdrant:v1.16.0-unprivileged'), '1.16.0-unprivileged')
    t.equal(live({}, 'registry.example:5000/q/qdrant:latest'), undefined)
  },
)

t.test('a live version that nobody can tell is no reason to refuse', async (t) => {
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
    /^spec\.version: 1\.18\.3 -> 1\.17\.1 is a downgrade/,
  ],
  [
    '1.18.2',
    'VersionDowngraded',
    'downgrade',
    /^spec\.version: 1\.18\.3 -> 1\.18\.2 is a downgrade/,
  ],
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
    t.equal(code, reason === undefined ? EXIT.done : EXIT.over)
    if (reason === undefined) return
    t.match(await world.progress(), { state: 'Refused', reason, message })
    const accepted = world.plan({ ...change, run: 3, acceptedRisks: [risk] })
    t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
  })
}

t.test('a skipped minor version is refused, unless an annotation accepts it', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ version: '1.16.3' }) }))
  const change = { spec: clusterSpec({ version: '1.18.0' }), run: 2 }
  t.equal((await world.run('upgrade', world.plan(change))).code, EXIT.over)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'VersionSkipped',
    message:
      /^spec\.version: 1\.16\.3 -> 1\.18\.0 skips a minor version.*accept-risk: version-skip$/,
  })
  const accepted = world.plan({ ...change, run: 3, acceptedRisks: ['version-skip'] })
  t.equal((await world.run('upgrade', accepted)).code, EXIT.done)
})

t.test('a chart that is a path has no repository on the command line', async (t) => {
  const world = await jobWorld(t)
  const { log } = await world.run(
    'upgrade',
    world.plan({ repository: '', chart: '/charts/engine' }),
  )
  t.match(
    log,
    /command=helm upgrade --install vec-a \/charts\/engine --version 1\.18\.3 --namespace ns --timeout/,
  )
})

/** What a helm that was killed between its first and its last write has left. */
async function pendingRevision(api: { create(object: object): Promise<unknown> }, version: number) {
  const labels = {
    owner: 'helm',
    name: 'vec-a',
    status: 'pending-upgrade',
    version: String(version),
  }
  await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: `sh.helm.release.v1.vec-a.v${version}`, namespace: 'ns', labels },
    type: 'helm.sh/release.v1',
    data: {},
  })
}
