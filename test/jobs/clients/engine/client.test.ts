/** The engine client with both of its transports, against the engine double. */
import { text } from 'node:stream/consumers'
import { Type } from '@sinclair/typebox'
import t, { type Test } from 'tap'
import type { Connection } from '../../../../crds/contract/connection.ts'
import type { EngineError } from '../../../../crds/contract/errors.ts'
import type { Secret } from '../../../../crds/kubernetes.ts'
import {
  mountedEngineCredentials,
  secretEngineCredentials,
  type EngineCredentials,
} from '../../../../jobs/clients/engine/credentials.ts'
import {
  EngineConnections,
  dnsTransport,
  apiProxyTransport,
  urlTransport,
} from '../../../../jobs/clients/engine/transport.ts'
import { EngineSnapshots } from '../../../../jobs/clients/engine/snapshots.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { Kubernetes, inClusterAccess } from '../../../../jobs/clients/kubernetes/client.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { TOO_MANY } from '../../../doubles/engine/misbehaviour.ts'
import { startEngineNode, type EngineNodeOptions } from '../../../doubles/engine/node.ts'
import { makeSnapshot } from '../../../doubles/engine/snapshots.ts'
import { startScriptedApi, type ScriptedAnswer } from '../../../doubles/scripted-api.ts'
import { matchWhole } from '../../../match-whole.ts'
import { EXPIRED } from '../../../metacontroller/certificates.ts'
import { jobWorld } from '../../job-world.ts'
import { recordedEngine } from './engine-stage.ts'

const log = jobLog({ LOG_LEVEL: 'ERROR' })
const CONNECTION: Connection = { namespace: 'ns', name: 'a', replicas: 3, tls: false }

function connections(t: Test): EngineConnections {
  const made = new EngineConnections()
  t.teardown(() => made.close())
  return made
}

function engineAt(t: Test, url: string, credentials: EngineCredentials = {}): Engine {
  const route = urlTransport(url, connections(t))
  return new Engine({ transport: route, log, credentials: async () => credentials })
}

async function node(t: Test, options: Partial<EngineNodeOptions> = {}) {
  const cluster = options.cluster ?? new EngineCluster({ name: 'vec-a' })
  const started = await startEngineNode({ ordinal: 0, cluster, ...options })
  t.teardown(() => started.close())
  return { ...started, cluster, url: `http://127.0.0.1:${started.port}` }
}

t.test('a node that answers /readyz with 200 is ready, and any other has a reason', async (t) => {
  const ready = await node(t)
  const engine = engineAt(t, ready.url)
  t.equal(await engine.notReadyReason(), undefined)
  ready.setReady(false)
  t.equal(
    await engine.notReadyReason(),
    `GET /readyz on ${ready.url} answered 503: some shards are not ready`,
  )
  await ready.close()
  t.match(await engine.notReadyReason(), new RegExp(`^GET ${ready.url}/readyz got no answer: .`))
  await t.rejects(engine.notReadyReason(AbortSignal.abort(new Error('over'))), {
    message: /^over$/,
  })
})

t.test('every request is logged at level DEBUG, also one that gets no answer', async (t) => {
  const lines: Record<string, unknown>[] = []
  const write = (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>)
  const own = await node(t)
  const debug = jobLog({ LOG_LEVEL: 'DEBUG' }, { write })
  const credentials = async () => ({ key: 'secret-key' })
  const engine = new Engine({
    transport: urlTransport(own.url, connections(t)),
    log: debug,
    credentials,
  })
  await engine.version()
  await own.close()
  await t.rejects(engine.collections())
  await t.rejects(engine.bytes('GET', '/collections/docs', {}))
  await t.rejects(engine.open('/collections/docs/snapshots/s', 1000))
  matchWhole(t, lines, [
    { level: 'DEBUG', node: own.url, call: 'GET /', status: 200, msg: 'engine call' },
    ...['GET /collections', 'GET /collections/docs', 'GET /collections/docs/snapshots/s'].map(
      (call) => ({ level: 'DEBUG', call, reason: /ECONNREFUSED/, msg: 'engine call failed' }),
    ),
  ])
  t.equal(lines.length, 4)
  t.notMatch(JSON.stringify(lines), /secret-key/)
})

t.test('a certificate that has expired is named, and nothing is sent', async (t) => {
  const expired = await node(t, { tls: EXPIRED })
  const engine = engineAt(t, expired.url.replace('http:', 'https:'), { ca: EXPIRED.cert })
  await t.rejects(engine.collections(), {
    code: 'EngineError',
    message: /got no answer: TLS verification failed: certificate has expired$/,
  })
})

t.test('the client reads the version of a node', async (t) => {
  const { url } = await node(t, { cluster: new EngineCluster({ version: '1.19.0' }) })
  t.equal(await engineAt(t, url).version(), '1.19.0')
})

t.test('the client reads the peers of a node and the state of its consensus thread', async (t) => {
  const { url, cluster } = await node(t)
  cluster.join(1)
  const engine = engineAt(t, url)
  const [first, second] = cluster.peers()
  t.match(await engine.cluster(), {
    status: 'enabled',
    peer_id: first?.id,
    peers: { [String(second?.id)]: { uri: 'http://vec-a-1.vec-a-headless:6335/' } },
    consensus_thread_status: { consensus_thread_status: 'working' },
  })
  cluster.stopConsensus(0, 'entry 7 failed')
  t.match(await engine.cluster(), {
    consensus_thread_status: { consensus_thread_status: 'stopped_with_err', err: 'entry 7 failed' },
  })
})

t.test(
  'an HTML page of a proxy is an error without its tags, also after an empty line',
  async (t) => {
    const proxied = await node(t)
    const body = '\n<html><head><title>502</title></head>\n<body>Bad <b>Gateway</b></body></html>'
    proxied.misbehave(() => ({ status: 400, body, headers: { 'content-type': 'text/html' } }))
    await t.rejects(engineAt(t, proxied.url).collections(), {
      message: /answered 400: 502 Bad Gateway$/,
    })
  },
)

t.test('an alias without a name is no answer', async (t) => {
  const broken = await node(t)
  const body = JSON.stringify({ result: { aliases: [{ collection_name: 'docs' }] } })
  broken.misbehave(() => ({ status: 200, body, headers: { 'content-type': 'application/json' } }))
  await t.rejects(new EngineSnapshots(engineAt(t, broken.url)).aliases('docs'), {
    code: 'EngineError',
    message: /alias_name/,
  })
})

t.test('a node without a cluster is recognized', async (t) => {
  const { url } = await node(t, { cluster: new EngineCluster({ enabled: false }) })
  t.strictSame(await engineAt(t, url).cluster(), { status: 'disabled' })
})

t.test('collections and the locations of their shards are read', async (t) => {
  const { url, cluster } = await node(t)
  cluster.join(1)
  cluster.createCollection('a b', 2)
  const engine = engineAt(t, url)
  t.strictSame(await engine.collections(), ['a b'])
  const [, second] = cluster.peers()
  matchWhole(t, await engine.collectionCluster('a b'), {
    shard_count: 2,
    local_shards: [{ shard_id: 0, state: 'Active' }],
    remote_shards: [{ shard_id: 1, peer_id: second?.id, state: 'Active' }],
  })
  await t.rejects(engine.collectionCluster('none'), {
    code: 'EngineError',
    status: 404,
    message: `GET /collections/none/cluster on ${url} answered 404: Not found: Collection \`none\` doesn't exist!`,
  })
})

t.test('a shard or a transfer that is not whole is no answer', async (t) => {
  const shard = { shard_id: 0, state: 'Active' }
  const whole = { peer_id: 1, shard_count: 1 }
  const lists = {
    local_shards: [{ ...shard, points_count: 1 }],
    remote_shards: [{ ...shard, peer_id: 2 }],
    shard_transfers: [{ shard_id: 0, from: 1, to: 2 }],
  }
  const valid = recordedEngine({ ...whole, ...lists })
  t.strictSame(await valid.engine.collectionCluster('docs'), { ...whole, ...lists })
  for (const [list, [item]] of Object.entries(lists)) {
    for (const field of Object.keys(item ?? {})) {
      const broken = { ...item, [field]: undefined }
      const { engine } = recordedEngine({ ...whole, ...lists, [list]: [broken] })
      await t.rejects(engine.collectionCluster('docs'), {
        code: 'EngineError',
        message: new RegExp(`without a valid /${list}/0/${field}: `),
      })
    }
  }
})

t.test('a rotated key is used by the next call', async (t) => {
  const config = { service: { api_key: 'new' } }
  const { url } = await node(t, { config })
  const credentials = { key: 'old' }
  const engine = engineAt(t, url, credentials)
  await t.rejects(engine.collections(), {
    status: 401,
    message: `GET /collections on ${url} answered 401: Invalid API key or JWT`,
  })
  t.equal(await engine.version(), '1.18.3', 'the version asks for no key')
  credentials.key = 'new'
  t.strictSame(await engine.collections(), [])
  await t.rejects(engineAt(t, url).collections(), { message: /Must provide an API key/ })
})

t.test('the key and the certificate authority are read from mounted files', async (t) => {
  const folder = t.testdir({ engine: { 'api-key': 'k\n' }, tls: { 'ca.crt': 'pem' } })
  t.strictSame(await mountedEngineCredentials({ VEC_CREDENTIALS: folder })(), {
    key: 'k',
    ca: 'pem',
  })
  t.strictSame(await mountedEngineCredentials({ VEC_CREDENTIALS: t.testdir({}) })(), {
    key: undefined,
    ca: undefined,
  })
  const odd = t.testdir({ engine: { 'api-key': { folder: '' } } })
  await t.rejects(mountedEngineCredentials({ VEC_CREDENTIALS: odd })(), { code: 'EISDIR' })
})

const ANSWERS: [string, ScriptedAnswer, RegExp][] = [
  [
    'another shape',
    { status: 200, body: { result: { collections: [{}] } } },
    /without a valid \/collections\/0\/name/,
  ],
  ['no envelope', { status: 200, body: {} }, /without a valid \/result/],
  ['no JSON', { status: 200, body: 'hello' }, /without a valid JSON body/],
  ['an unknown route', { status: 404, body: '' }, /answered 404: no such route/],
  [
    'an API server that cannot reach the pod',
    { status: 503, body: { kind: 'Status', message: 'dial tcp: refused' } },
    /answered 503: dial tcp: refused/,
  ],
]
for (const [what, answer, message] of ANSWERS) {
  t.test(`an answer with ${what} is an EngineError that names the call`, async (t) => {
    const api = await startScriptedApi(() => answer)
    t.teardown(() => api.close())
    await t.rejects(engineAt(t, api.url).collections(), { code: 'EngineError', message })
  })
}

t.test('a missing response is an EngineError without a status', async (t) => {
  const api = await startScriptedApi(() => undefined)
  t.teardown(() => api.close())
  await t.rejects(engineAt(t, api.url).collections(), {
    code: 'EngineError',
    status: undefined,
    message: new RegExp(`^GET ${api.url}/collections got no answer: `),
  })
})

t.test('a call that exceeds its time limit is an EngineError that says so', async (t) => {
  const slow = await node(t)
  slow.misbehave(() => ({ delayMs: 60_000 }))
  const call = engineAt(t, slow.url).call('GET', '/collections', Type.Unknown(), { timeoutMs: 20 })
  await t.rejects(call, {
    code: 'EngineError',
    status: undefined,
    message: /^GET http.*\/collections got no answer: The operation was aborted due to timeout$/,
  })
})

t.test('a stalled download is aborted, and a broken one fails', async (t) => {
  const bad = await node(t)
  bad.cluster.createCollection('docs')
  const route = urlTransport(bad.url, connections(t))
  const read = async () => {
    const call = {
      method: 'GET',
      path: '/collections/docs',
      headers: {},
      timeoutMs: 60_000,
    } as const
    const { body } = await route.open({ ...call, stallMs: 100 }, undefined)
    return text(body)
  }
  t.match(await read(), /"result"/)
  bad.misbehave(() => ({ cut: 'silent' }))
  await t.rejects(read(), { message: 'Body Timeout Error' })
  bad.misbehave(() => ({ cut: 'within' }))
  await t.rejects(read(), { message: 'other side closed' })
})

t.test('an EngineError carries Retry-After, on both routes', async (t) => {
  const bad = await node(t)
  // The form in which the API server's proxy forwards a response.
  const kubernetes = new Kubernetes(inClusterAccess({ VEC_API_SERVER: bad.url }), log)
  const route = apiProxyTransport(kubernetes, CONNECTION)
  const proxied = new Engine({ transport: route, log, credentials: async () => ({}) })
  const askedBy = async (header?: string) => {
    bad.misbehave(() => ({ ...TOO_MANY, headers: header ? { 'retry-after': header } : {} }))
    const errors = [engineAt(t, bad.url), proxied].map((engine) =>
      engine.collections().catch((error: unknown) => error),
    )
    return (await Promise.all(errors)).map((error) => (error as EngineError).retryAfterSeconds)
  }
  t.strictSame(await askedBy('60'), [60, 60])
  t.strictSame(await askedBy(new Date().toUTCString()), [0, 0])
  t.strictSame(await askedBy('soon'), [undefined, undefined])
  t.strictSame(await askedBy(), [undefined, undefined])
})

t.test('inside the cluster pods and the Service are addressed by host name', async (t) => {
  const pool = connections(t)
  t.equal(
    dnsTransport(pool, CONNECTION, 2).node,
    'http://vec-a-2.vec-a-headless.ns.svc.cluster.local:6333',
  )
  t.equal(
    dnsTransport(pool, { ...CONNECTION, tls: true }).node,
    'https://vec-a.ns.svc.cluster.local:6333',
  )
  const elsewhere = new EngineConnections({ clusterDomain: 'k8s.example' })
  t.teardown(() => elsewhere.close())
  t.equal(dnsTransport(elsewhere, CONNECTION).node, 'http://vec-a.ns.svc.k8s.example:6333')
  t.equal(
    dnsTransport(elsewhere, CONNECTION, 2).node,
    'http://vec-a-2.vec-a-headless.ns.svc.k8s.example:6333',
  )
  t.equal(pool.pool('pem'), pool.pool('pem'), 'one pool for each certificate authority')
  t.not(pool.pool('pem'), pool.pool(undefined))
})

t.test("outside the cluster a pod is reached through the API server's proxy", async (t) => {
  const world = await jobWorld(t)
  const engine = await world.startEngine(2)
  engine.createCollection('docs')
  const kubernetes = new Kubernetes(inClusterAccess(world.env), log)
  const route = apiProxyTransport(kubernetes, CONNECTION, 1)
  t.equal(route.node, 'vec-a-1.ns')
  const client = new Engine({ transport: route, log, credentials: async () => ({}) })
  t.equal(await client.notReadyReason(), undefined)
  t.match(await client.cluster(), { peer_id: engine.peer(1).id })
  t.strictSame(await client.collections(), ['docs'])
  await world.nodes.get('vec-a-1')?.close()
  t.match(await client.notReadyReason(), /^GET \/readyz on vec-a-1\.ns answered 503: /)
  await t.rejects(client.collections(), { code: 'EngineError', status: 503 })
  const unreachable = new Kubernetes(inClusterAccess({ VEC_API_SERVER: 'http://127.0.0.1:1' }), log)
  const lost = new Engine({
    transport: apiProxyTransport(unreachable, CONNECTION),
    log,
    credentials: async () => ({}),
  })
  await t.rejects(lost.collections(), { code: 'EngineError', message: /got no answer/ })
})

t.test('a snapshot is downloaded through the proxy, and points are sent through it', async (t) => {
  const own = await node(t)
  own.cluster.createCollection('docs')
  const file = makeSnapshot(own.cluster, 0, 'docs')
  // The form in which the API server's proxy forwards a request.
  const seen: string[] = []
  const access = inClusterAccess({ VEC_API_SERVER: own.url })
  const transport = apiProxyTransport(new Kubernetes(access, log), { ...CONNECTION, tls: true }, 2)
  const prefix = '/api/v1/namespaces/ns/pods/https:vec-a-2:6333/proxy'
  own.misbehave(({ method, path, body }) => {
    seen.push(`${method} /${path.join('/')} ${JSON.stringify(body ?? {})}`)
    return { status: 200, body: 'bytes' }
  })
  const engine = new Engine({ transport, log, credentials: async () => ({}) })
  const snapshots = new EngineSnapshots(engine)
  t.equal(await text(await snapshots.download('docs', file)), 'bytes')
  t.equal(String(await engine.bytes('POST', '/x', { body: { a: 1 } })), 'bytes')
  t.strictSame(seen, [
    `GET ${prefix}/collections/docs/snapshots/${file.name} {}`,
    `POST ${prefix}/x {"a":1}`,
  ])
  own.misbehave(() => ({ cut: 'before' }))
  await t.rejects(snapshots.download('docs', file), {
    code: 'EngineError',
    message: new RegExp(`^GET vec-a-2/collections/docs/snapshots/${file.name} got no answer: `),
  })
  const signal = AbortSignal.abort(new Error('over'))
  await t.rejects(snapshots.download('docs', file, signal), { message: /^over$/ })
})

t.test('a call for bytes ends with the reason of its signal', async (t) => {
  const slow = await node(t)
  const asked = Promise.withResolvers<undefined>()
  slow.misbehave(() => {
    asked.resolve(undefined)
    return { cut: 'silent' }
  })
  const abort = new AbortController()
  const call = engineAt(t, slow.url).bytes('GET', '/collections', { signal: abort.signal })
  await asked.promise
  abort.abort(new Error('over'))
  await t.rejects(call, { message: /^over$/ })
})

t.test(
  'the key and the certificate authority are read from the Secrets of the cluster',
  async (t) => {
    const base64 = (value: string) => Buffer.from(value).toString('base64')
    const read: string[] = []
    const secrets: Record<string, Record<string, string>> = {
      keys: { 'api-key': base64('k'), other: base64('o') },
      tls: { 'ca.crt': base64('pem'), 'tls.key': base64('private') },
    }
    const readSecret = async (namespace: string, name: string): Promise<Secret | undefined> => {
      read.push(`${namespace}/${name}`)
      const data = secrets[name]
      const metadata = { name, namespace }
      return data && { apiVersion: 'v1', kind: 'Secret', metadata, data }
    }
    const found = (fields: Partial<Connection>) =>
      secretEngineCredentials({ ...CONNECTION, ...fields }, readSecret)
    t.strictSame(await found({}), { key: undefined, ca: undefined })
    t.strictSame(read, [], 'a cluster without them needs no Secret')
    t.strictSame(await found({ key: { secret: 'keys', key: 'other' }, caSecret: 'tls' }), {
      key: 'o',
      ca: 'pem',
    })
    t.strictSame(read, ['ns/keys', 'ns/tls'])
    t.strictSame(await found({ key: { secret: 'gone', key: 'api-key' }, caSecret: 'gone' }), {
      key: undefined,
      ca: undefined,
    })
  },
)
