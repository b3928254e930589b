/** `cluster upgrade`, through the real CLI, an API server, and a helm on PATH. */
import t from 'tap'
import { EXIT, JOB_ENV, type UpgradePlan } from '../../../crds/contract/job.ts'
import type { LiveStatefulSet } from '../../../jobs/cluster/safety-checks.ts'
import { ANNOTATIONS, LABELS } from '../../../crds/contract/names.ts'
import { clusterSpec } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { JOB, RUNNER, START } from '../job-fixture.ts'
import { instantClock, jobWorld, podOf } from '../job-world.ts'

t.test('the first run installs the release and reports what was applied', async (t) => {
  const world = await jobWorld(t)
  const recorded = { secretFingerprints: { s: 'f' }, startMark: 'm', podsHash: 'pods-1' }
  const plan = world.plan(recorded)
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
      podsHash: 'pods-1',
      jwtRbac: false,
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
  t.match(log, /upgrade completed outcome=Done/)
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

t.test('the rest of a spec with a large config is recorded as applied', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const { config: _, ...rest } = clusterSpec({ replicas: 4 })
  const spec = { ...rest, config: { log_level: 'x'.repeat(130 * 1024) } }
  const { code, log } = await world.run('upgrade', world.plan({ spec, run: 2, generation: 2 }))
  t.equal(code, EXIT.done, log)
  const parent = await world.object('vec-operator.dev/v1alpha1', 'VecCluster', 'a')
  t.strictSame(
    JSON.parse(parent?.metadata.annotations?.[ANNOTATIONS.lastAppliedSpec] ?? ''),
    rest,
    'the next run is compared with what was applied, not with the spec before',
  )
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
    t.equal(code, EXIT.failed)
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

t.test('a repository that needs credentials gets those of the mounted Secret', async (t) => {
  const world = await jobWorld(t)
  const given = { username: 'robot', password: 'pass: word"' }
  world.env[JOB_ENV.chartCredentials] = 'chart-credentials'
  world.helm({ credentials: given })
  const failed = async (run: number, version = '1.18.3') => {
    const plan = world.plan({ version, run, hash: `hash-${run}` })
    const { code, log } = await world.run('upgrade', plan)
    t.equal(code, EXIT.failed)
    t.notMatch(log, given.password)
    const { state, reason, message } = (await world.progress()) as Record<string, unknown>
    t.strictSame([state, reason], ['Failed', 'HelmFailed'])
    return message
  }
  const secret = 'the Secret that the chart value engineChart.credentialsSecret names'
  const keys = 'set its keys username and password'
  world.credential('chart-credentials', 'password', given.password)
  t.equal(await failed(1), `${secret} has no username: ${keys}`)
  world.credential('chart-credentials', 'username', given.username)
  world.credential('chart-credentials', 'password', '\n')
  t.equal(await failed(2), `${secret} has no password: ${keys}`)
  world.credential('chart-credentials', 'password', 'former')
  const url = 'https://charts.example/engine'
  t.equal(
    await failed(3),
    `cannot read the index of the chart repository ${url}: failed to fetch ${url}/index.yaml : 401 Unauthorized`,
  )
  world.credential('chart-credentials', 'password', `${given.password}\n`)
  t.equal(
    await failed(4, '1.18.44'),
    `chart "qdrant" matching 1.18.44 not found in ${url}: no chart version found for qdrant-1.18.44`,
  )
  const { code, log } = await world.run('upgrade', world.plan({ run: 5, hash: 'hash-5' }))
  t.equal(code, EXIT.done, log)
  t.match(await world.progress(), { state: 'Done', applied: { run: 5 } })
  t.match(log, /helm repo update engine-charts/)
  t.notMatch(log, given.password)
  t.notMatch(log, given.username)
})

/** The partition of the StatefulSet, and the flags of the last helm run. */
t.test(
  'a Service that is reached from outside has no port on which nodes trust every caller',
  async (t) => {
    const world = await jobWorld(t)
    const portsOf = async (type: 'ClusterIP' | 'NodePort' | 'LoadBalancer', run: number) => {
      const spec = clusterSpec({ service: { type, annotations: {} } })
      const values = { ...world.plan().values, service: spec.service }
      const { code, log } = await world.run(
        'upgrade',
        world.plan({ spec, values, run, generation: run }),
      )
      t.equal(code, EXIT.done, log)
      const names = async (name: string) => {
        const service = await world.object('v1', 'Service', name)
        return (service?.spec as { ports: { name: string }[] }).ports.map((port) => port.name)
      }
      return [await names('vec-a'), await names('vec-a-headless')]
    }
    const [open, closed] = [
      ['http', 'grpc', 'p2p'],
      ['http', 'grpc'],
    ]
    t.strictSame(await portsOf('LoadBalancer', 1), [closed, open], 'also at the installation')
    t.strictSame(await portsOf('ClusterIP', 2), [open, open])
    t.strictSame(await portsOf('NodePort', 3), [closed, open])
  },
)

t.test('spec.image.digest is in the image of the pods, also at the installation', async (t) => {
  const world = await jobWorld(t)
  const imageAfter = async (parts: Partial<UpgradePlan['spec']['image']>, run: number) => {
    const spec = clusterSpec()
    spec.image = { ...spec.image, ...parts }
    const { code, log } = await world.run('upgrade', world.plan({ spec, run, generation: run }))
    t.equal(code, EXIT.done, log)
    const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
    return (set?.spec as LiveStatefulSet['spec']).template.spec.containers[0]?.image
  }
  const tag = 'docker.io/qdrant/qdrant:v1.18.3'
  const digest = (digit: string) => `sha256:${digit.repeat(64)}`
  t.equal(await imageAfter({ digest: digest('a') }, 1), `${tag}@${digest('a')}`)
  t.equal(await imageAfter({ digest: digest('b') }, 2), `${tag}@${digest('b')}`)
  t.equal(await imageAfter({}, 3), tag)
  const spec = clusterSpec()
  spec.image = { ...spec.image, repository: 'other/engine', digest: digest('c') }
  t.equal((await world.run('upgrade', world.plan({ spec, run: 4 }))).code, EXIT.failed)
  t.match(await world.progress(), {
    reason: 'HelmFailed',
    message:
      /spec\.image\.digest: StatefulSet vec-a has no container with the image other\/engine and a tag/,
  })
})

t.test('the ServiceMonitor of nodes with TLS is adjusted, also at the installation', async (t) => {
  const world = await jobWorld(t)
  const [group, kind, plural] = ['monitoring.coreos.com', 'ServiceMonitor', 'servicemonitors']
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }
  await world.api.create({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: { group, scope: 'Namespaced', names: { kind, plural }, versions: [version] },
  })
  const monitorTls = { serverName: 'vec-a.ns.svc.cluster.local', caSecret: 'certificate' }
  const values = { fullnameOverride: 'vec-a', metrics: { serviceMonitor: { enabled: true } } }
  const { code, log } = await world.run('upgrade', world.plan({ values, monitorTls }))
  t.equal(code, EXIT.done, log)
  const monitor = await world.object(`${group}/v1`, kind, 'vec-a')
  const ca = { secret: { name: 'certificate', key: 'ca.crt' } }
  matchWhole(t, monitor?.spec, {
    endpoints: [
      { scheme: 'https', tlsConfig: { serverName: monitorTls.serverName, ca }, port: 'http' },
    ],
  })
})

t.test('while pods are outdated, their versions count as well', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  // The update was taken back: only the count shows that a pod has the other template.
  const status = { observedGeneration: 1, replicas: 1, currentRevision: 'a', updateRevision: 'a' }
  await world.api.replaceStatus({ ...set, status })
  const pod = podOf('vec-a-0', { 'app.kubernetes.io/instance': 'vec-a' })
  const containers = [{ name: 'qdrant', image: 'docker.io/qdrant/qdrant:v1.17.2' }]
  await world.api.create({ ...pod, spec: { containers } })
  const spec = clusterSpec({ version: '1.19.0' })
  const { code } = await world.run('upgrade', world.plan({ spec, run: 2, hash: 'hash-2' }))
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    ...{ state: 'Refused', reason: 'VersionSkipped' },
    message: /^spec\.version: 1\.17\.2 -> 1\.19\.0 skips a minor version/,
  })
  // The rest of the update to 1.18.3 may be repeated.
  t.equal((await world.run('upgrade', world.plan({ run: 3, hash: 'hash-3' }))).code, EXIT.done)
})

t.test('no pod that never became ready is taken to a further minor version', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  // The last pod has the image of 1.18.3 and has not started: its files are of 1.17.
  const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 0 }
  const status = { observedGeneration: 1, ...counts, currentRevision: 'a', updateRevision: 'b' }
  await world.api.replaceStatus({ ...set, status })
  const pod = podOf('vec-a-0', { 'app.kubernetes.io/instance': 'vec-a' })
  const containers = [{ name: 'qdrant', image: 'docker.io/qdrant/qdrant:v1.18.3' }]
  const created = await world.api.create({ ...pod, spec: { containers } })
  const runWith = (
    version: string,
    run: number,
    acceptedRisks: UpgradePlan['acceptedRisks'] = [],
  ) =>
    world.run(
      'upgrade',
      world.plan({ spec: clusterSpec({ version }), run, hash: `hash-${run}`, acceptedRisks }),
    )
  t.equal((await runWith('1.18.4', 2)).code, EXIT.done, 'a patch')
  await world.api.replaceStatus({
    ...(await world.object('apps/v1', 'StatefulSet', 'vec-a')),
    status: { ...status, observedGeneration: 2 },
  })
  t.equal((await runWith('1.19.0', 3)).code, EXIT.failed)
  t.match(await world.progress(), {
    ...{ state: 'Refused', reason: 'VersionSkipped' },
    message:
      /^spec\.version: 1\.18\.3 -> 1\.19\.0: pod vec-a-0 is not ready after an update that is not complete/,
  })
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] }
  await world.api.replaceStatus({ ...created, status: ready })
  t.equal((await runWith('1.19.0', 4)).code, EXIT.done)
})

t.test('pods count as outdated until the status is of the present template', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  const { generation = 0 } = set?.metadata ?? {}
  t.ok(generation > 0)
  const pod = podOf('vec-a-0', { 'app.kubernetes.io/instance': 'vec-a' })
  const containers = [{ name: 'qdrant', image: 'docker.io/qdrant/qdrant:v1.17.2' }]
  await world.api.create({ ...pod, spec: { containers } })
  const revisions = { currentRevision: 'a', updateRevision: 'a' }
  const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1 }
  const runWith = async (observedGeneration: number, run: number) => {
    const status = { observedGeneration, ...counts, ...revisions }
    const live = await world.object('apps/v1', 'StatefulSet', 'vec-a')
    await world.api.replaceStatus({ ...live, status })
    const spec = clusterSpec({ version: '1.19.0' })
    return await world.run('upgrade', world.plan({ spec, run, hash: `hash-${run}` }))
  }
  t.equal((await runWith(generation - 1, 2)).code, EXIT.failed)
  t.match(await world.progress(), { state: 'Refused', reason: 'VersionSkipped' })
  const { code, log } = await runWith(generation, 3)
  t.equal(code, EXIT.done, log)
})

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
    t.equal(code, EXIT.failed)
    t.match(await world.progress(), { state: 'Failed', reason: 'HelmFailed', message })
    t.equal(await world.object('apps/v1', 'StatefulSet', 'vec-a'), undefined)
  })
}

t.test('objects of another owner are not taken over', async (t) => {
  const world = await jobWorld(t)
  await world.api.create({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'vec-a', namespace: 'ns' },
    spec: {},
  })
  const { code } = await world.run('upgrade', world.plan({ values: { fullnameOverride: 'vec-a' } }))
  t.equal(code, EXIT.failed)
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
    t.equal((await world.run('upgrade', world.plan({ values, run: 2 }))).code, EXIT.failed)
    t.match(await world.progress(), {
      state: 'Failed',
      message:
        /^UPGRADE FAILED: cannot patch "vec-a" with kind StatefulSet: .* Forbidden: updates to statefulset spec/,
    })
    t.equal((await world.run('upgrade', world.plan({ run: 3 }))).code, EXIT.done)
  },
)

t.test(
  'a pending release of a killed helm process is repaired when no other pod works on it',
  async (t) => {
    const world = await jobWorld(t)
    await world.run('upgrade', world.plan())
    await pendingRevision(world.api, 2)
    const { code, log } = await world.run('upgrade', world.plan({ run: 2 }))
    t.equal(code, EXIT.done, log)
    t.match(
      log,
      /WARNING deleting the pending revision of a killed helm release=vec-a secret=sh\.helm\.release\.v1\.vec-a\.v2 status=pending-upgrade/,
    )
  },
)

t.test('a pending release is left alone while another pod of it lives', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  await pendingRevision(world.api, 2)
  await world.api.create(podOf('other', { [LABELS.release]: 'vec-a' }))
  const { code, log } = await world.run('upgrade', world.plan({ run: 2 }))
  t.equal(code, EXIT.crash)
  t.match(log, /waiting for other pods of this release release=vec-a pods=\["other"\]/)
  t.match(log, /other still works on release vec-a/)
  t.ok(await world.object('v1', 'Secret', 'sh.helm.release.v1.vec-a.v2'))
  t.match(await world.progress(), { state: 'Started', run: 2 })
})

t.test('it waits for the other pod and continues once that one has ended', async (t) => {
  const world = await jobWorld(t)
  await world.api.create(podOf('other', { [LABELS.release]: 'vec-a' }))
  const time = instantClock(() =>
    world.api.patch(
      { apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name: 'other' },
      { status: { phase: 'Failed' } },
      { subresource: 'status' },
    ),
  )
  t.equal((await world.run('upgrade', world.plan(), { time })).code, EXIT.done)
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

/** The state after a helm process was killed between its first and its last write. */
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
