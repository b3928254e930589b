import { createServer } from 'node:http'
import { nodeKeysPort } from '../../../metacontroller/ports/keys.ts'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import t from 'tap'
import type { Test } from 'tap'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { withSilentThreads } from '../../../hooks/cluster/consensus.ts'
import type { PodConsensus } from '../../../hooks/cluster/ports.ts'
import { signJob } from '../../../hooks/request.ts'
import type { ClusterStatus } from '../../../jobs/clients/engine/responses.ts'
import { Kubernetes } from '../../../jobs/clients/kubernetes/client.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import {
  cachedSecretReader,
  clusterPorts,
  consensusPort,
  listClusters,
  patchCluster,
  toPodConsensus,
} from '../../../metacontroller/ports/cluster.ts'
import { clusterSpec, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { shardPorts } from '../../../metacontroller/ports/shards.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const log = pino({ level: 'silent' })

/** Notes the paths of its calls; once it is broken, it answers no read of a VecCluster. */
class NotedKubernetes extends Kubernetes {
  readonly calls: string[] = []
  isBroken = false

  override async call(...[method, path, options]: Parameters<Kubernetes['call']>) {
    this.calls.push(path)
    if (this.isBroken && path.includes('/vecclusters/')) throw new KubernetesError('no answer')
    return super.call(method, path, options)
  }
}

async function ports(t: Test, namespaces: string[] = []) {
  const embedded = await embeddedApi(t)
  const { clock, url, token } = embedded
  const headers = { authorization: `Bearer ${token}` }
  const authorize = async () => ({ headers, dispatcher: undefined })
  const kubernetes = new NotedKubernetes({ server: url, authorize }, log)
  const now = () => clock.now()
  const lines: string[] = []
  const secret = cachedSecretReader(kubernetes, now)
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const engines = {
    ...{ kubernetes, connections, route: 'proxy' as const, secret, log },
    freshSecret: secret,
  }
  return {
    ...embedded,
    ...{ kubernetes, connections, lines, calls: kubernetes.calls },
    breakReads: () => (kubernetes.isBroken = true),
    ports: clusterPorts({
      kubernetes,
      secret,
      consensus: consensusPort(engines),
      shards: shardPorts({ ...engines, now }),
      conflictingWork: async () => [],
      nodeKeys: nodeKeysPort(engines),
      namespaces,
      jobKeys: () => settings.jobKeys,
      now,
      log: {
        debug: () => undefined,
        info: () => undefined,
        warn: (_, message) => lines.push(message),
      },
    }),
  }
}

const secret = (value: string, namespace = 'ns') => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'key', namespace },
  stringData: { k: value },
})

const job = (name: string, labels: Record<string, string>, namespace = 'ns') => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: {
    ...{ name, namespace, labels },
    annotations: {
      [ANNOTATIONS.signature]: signJob(
        { namespace, name, parentUid: labels[LABELS.parent] ?? '' },
        settings.jobKeys,
      ),
    },
  },
  spec: {
    template: {
      spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'vec-operator:test' }] },
    },
  },
})

const helm = { [LABELS.managedBy]: 'vec-operator', [LABELS.component]: 'helm' }

const veccluster = (name: string, namespace = 'ns') => ({
  apiVersion: API_VERSION,
  kind: 'VecCluster',
  metadata: { name, namespace },
  spec: { version: '1.18.3' },
})

t.test('a Secret is read at most once a minute, and a missing one each time', async (t) => {
  const { api, clock, ports: port } = await ports(t)
  t.equal(await port.secret('ns', 'key'), undefined)
  await api.create(secret('one'))
  t.match(await port.secret('ns', 'key'), { data: { k: Buffer.from('one').toString('base64') } })
  await api.patch(REFERENCE.secret, { stringData: { k: 'two' } })
  clock.advance(59_000)
  t.match(await port.secret('ns', 'key'), { data: { k: Buffer.from('one').toString('base64') } })
  clock.advance(1_000)
  t.match(await port.secret('ns', 'key'), { data: { k: Buffer.from('two').toString('base64') } })
})

t.test('the Jobs of one parent are found by their label, live', async (t) => {
  const { api, ports: port } = await ports(t)
  await api.create(job('mine', { [LABELS.parent]: 'uid-a' }))
  await api.create(job('theirs', { [LABELS.parent]: 'uid-b' }))
  const found = await port.jobsOf('ns', 'uid-a')
  t.strictSame(
    found.map(({ apiVersion, kind, metadata }) => [apiVersion, kind, metadata.name]),
    [['batch/v1', 'Job', 'mine']],
  )
})

/** Creates VecClusters, and a helm Job of one; `of` may be another namespace. */
async function helmStage(t: Test, namespaces: string[] = []) {
  const stage = await ports(t, namespaces)
  const { api } = stage
  await installCrds(api)
  const uids = new Map<string, string>()
  const uidOf = async (name: string, namespace: string) => {
    const key = `${namespace}/${name}`
    const created = uids.get(key) ?? (await api.create(veccluster(name, namespace))).metadata.uid
    uids.set(key, created ?? '')
    return created ?? ''
  }
  const helmJob = async (name: string, cluster: string, namespace = 'ns') => {
    const owner = { [LABELS.parent]: await uidOf(cluster, namespace) }
    return job(name, { ...helm, ...owner, [LABELS.release]: `vec-${cluster}` }, namespace)
  }
  const setStatus = (name: string, status: object, namespace = 'ns') =>
    api.replaceStatus({ ...REFERENCE.job(name), metadata: { name, namespace }, status })
  const count = (namespace = 'ns', limit = 10) => stage.ports.unfinishedHelmJobs(namespace, limit)
  return { ...stage, helmJob, setStatus, count }
}

t.test('helm Jobs that have not ended are counted, at most 5 s late', async (t) => {
  const { api, clock, helmJob, setStatus, count } = await helmStage(t)
  const end = (name: string, type: string, succeeded: number) =>
    setStatus(name, { succeeded, conditions: [{ type, status: 'True' }] })
  await api.create(await helmJob('running', 'a'))
  await api.create(await helmJob('elsewhere', 'b', 'other'))
  await api.create(await helmJob('again', 'b', 'other'))
  const suspended = await helmJob('suspended', 'c', 'other')
  await api.create({ ...suspended, spec: { ...suspended.spec, suspend: true } })
  const data = await helmJob('data', 'd')
  const labels = { ...data.metadata.labels, [LABELS.component]: 'transfer' }
  await api.create({ ...data, metadata: { ...data.metadata, labels } })
  await api.create(await helmJob('done', 'e'))
  await end('done', 'Complete', 1)
  await api.create(await helmJob('failed', 'f'))
  await end('failed', 'Failed', 0)
  const forged = await helmJob('forged', 'g')
  await api.create({ ...forged, metadata: { ...forged.metadata, annotations: {} } })
  t.equal(await count(), 2, 'one of each cluster that has pods; none that others labelled')
  await end('running', 'Complete', 1)
  t.equal(await count(), 2)
  clock.advance(5_000)
  t.equal(await count(), 1)
})

t.test('a helm Job whose pods cannot start takes a slot for two minutes only', async (t) => {
  const { api, clock, helmJob, setStatus, count } = await helmStage(t)
  for (const name of ['starts', 'cannot']) await api.create(await helmJob(name, name))
  await setStatus('starts', { active: 1, ready: 1 })
  await setStatus('cannot', { active: 1, ready: 0 })
  t.equal(await count(), 2)
  clock.advance(119_000)
  t.equal(await count(), 2, 'an image may still be pulled')
  clock.advance(5_000)
  t.equal(await count(), 1)
})

t.test('a copy of a helm Job of a deleted VecCluster takes no slot', async (t) => {
  const { api, clock, helmJob, setStatus, count } = await helmStage(t)
  const run = async (name: string, cluster: string) => {
    await api.create(await helmJob(name, cluster))
    await setStatus(name, { active: 1, ready: 1 })
  }
  for (const name of ['gone', 'recreated', 'lives', 'deleting']) await run(name, name)
  // Its uninstall run.
  const finalizers = ['example.com/waits']
  await api.patch(REFERENCE.clusterNamed('deleting'), { metadata: { finalizers } })
  for (const name of ['gone', 'recreated', 'deleting'])
    await api.delete(REFERENCE.clusterNamed(name))
  await api.create(veccluster('recreated'))
  t.equal(await count(), 2, 'one that lives, and one that is being deleted')
  clock.advance(5_000)
  const unnamed = await helmJob('unnamed', 'unnamed')
  const { [LABELS.release]: _, ...labels } = unnamed.metadata.labels
  await api.create({ ...unnamed, metadata: { ...unnamed.metadata, labels } })
  await setStatus('unnamed', { active: 1, ready: 1 })
  t.equal(await count(), 2, 'a Job without its VecCluster')
})

t.test(
  'one namespace leaves a slot to the others, and its own clusters have the rest',
  async (t) => {
    const { api, helmJob, setStatus, count, calls } = await helmStage(t)
    for (let at = 0; at < 5; at += 1) {
      await api.create(await helmJob(`run-${at}`, `c${at}`, 'other'))
      await setStatus(`run-${at}`, { active: 1, ready: 1 }, 'other')
    }
    t.equal(await count('other', 10), 5)
    t.equal(await count('ns', 10), 5)
    calls.length = 0
    t.equal(await count('other', 4), 4, 'its own clusters wait')
    t.equal(await count('ns', 4), 3, 'those of other namespaces do not')
    const reads = calls.filter((path) => /vecclusters\/./.test(path))
    t.equal(reads.length, 4, 'no more VecClusters of a namespace are read than the limit')
    t.equal(await count('ns', 1), 1, 'the only slot')
  },
)

t.test('a VecCluster that cannot be read takes its slot', async (t) => {
  const { api, helmJob, setStatus, count, breakReads } = await helmStage(t)
  await api.create(await helmJob('running', 'a'))
  await setStatus('running', { active: 1, ready: 1 })
  breakReads()
  t.equal(await count(), 1)
})

t.test('a service of one namespace asks about that one only', async (t) => {
  const { api, kubernetes, helmJob, count } = await helmStage(t, ['ns'])
  await api.create(await helmJob('here', 'here'))
  await api.create(await helmJob('elsewhere', 'elsewhere', 'other'))
  t.equal(await count(), 1)
  const names = (found: { metadata: { name: string } }[]) => found.map((one) => one.metadata.name)
  t.strictSame(names(await listClusters(kubernetes, ['ns'])), ['here'])
  t.strictSame(names(await listClusters(kubernetes, [])).sort(), ['elsewhere', 'here'])
})

t.test('a VecCluster and its StatefulSet are read live, with their defaults', async (t) => {
  const { api, ports: port } = await ports(t)
  t.equal(await port.cluster('ns', 'a'), undefined, 'also where the CRD is missing')
  await installCrds(api)
  t.equal(await port.cluster('ns', 'a'), undefined)
  await api.create(veccluster('a'))
  t.strictSame((await port.cluster('ns', 'a'))?.spec, clusterSpec())
  t.equal(await port.statefulSet('ns', 'vec-a'), undefined)
})

t.test('a namespace ends when it is being deleted or gone', async (t) => {
  const { api, ports: port } = await ports(t)
  t.equal(await port.isNamespaceTerminating('ns'), false)
  t.equal(await port.isNamespaceTerminating('never'), true)
  await api.create({
    ...secret('x'),
    metadata: { name: 'a', namespace: 'ns', finalizers: ['x/y'] },
  })
  await api.delete(REFERENCE.namespace)
  t.equal(await port.isNamespaceTerminating('ns'), true)
})

t.test('a Job is deleted in the foreground, and only the one with that uid', async (t) => {
  const { api, ports: port } = await ports(t)
  const { metadata } = await api.create(job('a', {}))
  const named = { namespace: 'ns', name: 'a' }
  await port.deleteJob({ ...named, uid: 'another' })
  t.equal((await api.get(REFERENCE.job('a')))?.metadata.deletionTimestamp, undefined)
  await port.deleteJob({ ...named, uid: metadata.uid ?? '' })
  const found = await api.get(REFERENCE.job('a'))
  t.strictSame(found?.metadata.finalizers, ['foregroundDeletion'])
  await port.deleteJob({ namespace: 'ns', name: 'gone', uid: 'x' })
})

t.test(
  'a patch of a cluster that is gone, or of another resource of that name, changes nothing',
  async (t) => {
    const { api, kubernetes } = await ports(t)
    await installCrds(api)
    const created = await api.create(veccluster('a'))
    const patch = (uid: string) => ({ metadata: { uid, annotations: { 'x/y': 'z' } } })
    const target = { ...created, metadata: { ...created.metadata } }
    t.equal(await patchCluster(kubernetes, target, patch('another')), false)
    const gone = { ...target, metadata: { ...target.metadata, name: 'gone' } }
    t.equal(await patchCluster(kubernetes, gone, patch('x')), false)
    t.equal(await patchCluster(kubernetes, target, patch(created.metadata.uid ?? '')), true)
    const found = await api.get(REFERENCE.cluster)
    t.match(found?.metadata.annotations, { 'x/y': 'z' })
  },
)

t.test('a patch that the API does not answer is an error, to be retried', async (t) => {
  const { kubernetes, server } = await ports(t)
  await server.close()
  const target = { ...veccluster('a'), metadata: { name: 'a', namespace: 'ns' } }
  await t.rejects(patchCluster(kubernetes, target, {}), { code: 'KubernetesError' })
})

/** What the API server answers for a pod that nothing listens on. */
const UNREACHABLE = 'error trying to reach service: dial tcp: connect: connection refused'

t.test('each pod is asked for its consensus with the key the pods run', async (t) => {
  const { api, server, ports: port } = await ports(t)
  const enabled = (consensus: object) => ({
    status: 'enabled',
    peer_id: 1,
    peers: {
      1: { uri: 'http://vec-a-0.vec-a-headless:6335/' },
      2: { uri: 'http://elsewhere:6335/' },
    },
    raft_info: { leader: 1 },
    consensus_thread_status: consensus,
  })
  const answers = [
    enabled({ consensus_thread_status: 'working', last_update: 'now' }),
    enabled({ consensus_thread_status: 'stopped_with_err', err: 'it hurt' }),
  ]
  const keys = new Set<unknown>()
  const engines = await Promise.all(
    answers.map(async (result) => {
      const engine = createServer((request, response) => {
        keys.add(request.headers['api-key'])
        response.end(JSON.stringify({ result, status: 'ok', time: 0 }))
      })
      await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve))
      t.teardown(() => engine.close())
      return (engine.address() as AddressInfo).port
    }),
  )
  await api.create({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'default', namespace: 'ns' },
  })
  for (const ordinal of [0, 1, 2]) {
    const metadata = { name: `vec-a-${ordinal}`, namespace: 'ns' }
    const spec = { containers: [{ name: 'a', image: 'b' }] }
    await api.create({ apiVersion: 'v1', kind: 'Pod', metadata, spec })
  }
  server.attach({ log: () => undefined, port: (_, pod) => engines[Number(pod.slice(-1))] })
  await api.create(secret('the key'))
  const connection = {
    namespace: 'ns',
    name: 'a',
    replicas: 4,
    tls: false,
    key: { secret: 'key', key: 'k' },
  }
  t.strictSame(await port.consensus(connection, new AbortController().signal), [
    {
      ordinal: 0,
      state: 'working',
      peerId: 1,
      peers: [{ id: 1, ordinal: 0 }, { id: 2 }],
      hasLeader: true,
      lastUpdate: 'now',
    },
    {
      ...{ ordinal: 1, state: 'stopped', peerId: 1, error: 'it hurt' },
      peers: [{ id: 1, ordinal: 0 }, { id: 2 }],
    },
    {
      ...{ ordinal: 2, state: 'unknown' },
      error: `GET /cluster on vec-a-2.ns answered 503: ${UNREACHABLE}`,
    },
    {
      ...{ ordinal: 3, state: 'unknown' },
      error: 'GET /cluster on vec-a-3.ns answered 404: pods "vec-a-3" not found',
    },
  ])
  t.strictSame([...keys], ['the key'])
  await t.rejects(port.consensus(connection, AbortSignal.abort()), { name: 'AbortError' })
})

t.test('inside the cluster a pod whose name does not resolve is unknown', async (t) => {
  const { kubernetes, connections } = await ports(t)
  const consensus = consensusPort({
    ...{ kubernetes, connections, log, route: 'direct' },
    secret: async () => undefined,
    freshSecret: async () => undefined,
  })
  const connection = { namespace: 'ns', name: 'a', replicas: 1, tls: true, caSecret: 'tls' }
  // Here no such name resolves.
  matchWhole(t, await consensus(connection, new AbortController().signal), [
    { ordinal: 0, state: 'unknown', error: /^GET https:.* got no answer: getaddrinfo E/ },
  ])
})

t.test(
  'a node that runs alone has no consensus to lose; what is new to us is unknown',
  async (t) => {
    t.strictSame(toPodConsensus({ status: 'disabled' }, { name: 'a' }), { state: 'working' })
    const view = { status: 'enabled' as const, peer_id: 1, peers: {}, raft_info: {} }
    const working = { consensus_thread_status: 'working', last_update: '2026-01-01T00:00:00Z' }
    t.strictSame(toPodConsensus({ ...view, consensus_thread_status: working }, { name: 'a' }), {
      ...{ state: 'working', peerId: 1, peers: [], hasLeader: false },
      lastUpdate: '2026-01-01T00:00:00Z',
    })
    const thread = { consensus_thread_status: 'dreaming' }
    t.strictSame(toPodConsensus({ ...view, consensus_thread_status: thread }, { name: 'a' }), {
      ...{ state: 'unknown', error: 'its consensus thread is dreaming' },
    })
    t.strictSame(
      toPodConsensus(
        { ...view, consensus_thread_status: { consensus_thread_status: 'stopped' } },
        { name: 'a' },
      ),
      { state: 'stopped', peerId: 1, peers: [] },
    )
  },
)

t.test('a thread that has panicked is reported as working, and noticed by its time', async (t) => {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const nodes = await Promise.all(
    [0, 1].map((ordinal) => startEngineNode({ ordinal, cluster: engine })),
  )
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))
  const url = (ordinal: number) => `http://127.0.0.1:${nodes[ordinal]?.port}`
  const query = () =>
    Promise.all(
      [0, 1].map(async (ordinal) => {
        const { result } = (await (await fetch(`${url(ordinal)}/cluster`)).json()) as {
          result: ClusterStatus
        }
        return { ordinal, ...toPodConsensus(result, { name: 'a' }) }
      }),
    )
  const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds))
  engine.panicConsensus(1)
  const first = withSilentThreads(await query(), [], at(0))
  const later = withSilentThreads(await query(), first, at(180))
  const states = (pods: PodConsensus[]) => pods.map(({ state }) => state)
  t.strictSame(states(first), ['working', 'working'])
  t.strictSame(states(later), ['working', 'stopped'])
  const body = JSON.stringify({ vectors: { size: 1, distance: 'Dot' } })
  const headers = { 'content-type': 'application/json' }
  const { status } = await fetch(`${url(1)}/collections/c`, { method: 'PUT', headers, body })
  t.equal(status, 500, 'the node applies no change')
  engine.resumeConsensus(1)
  t.strictSame(states(withSilentThreads(await query(), later, at(200))), ['working', 'working'])
})

const REFERENCE = {
  secret: { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'key' },
  namespace: { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: 'ns' },
  cluster: { apiVersion: API_VERSION, kind: 'VecCluster', namespace: 'ns', name: 'a' },
  clusterNamed: (name: string) => ({ ...REFERENCE.cluster, name }),
  job: (name: string) => ({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'ns', name }),
}
