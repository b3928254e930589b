/** Which keys a node accepts, which tokens a key has signed, and which keys the Secret of the operator keeps. */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { keyEntry, keyFingerprint, KEYS_SECRET_TYPE } from '../../../crds/contract/api-keys.ts'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { Secret } from '../../../crds/kubernetes.ts'
import type { ReadSecret } from '../../../jobs/clients/engine/credentials.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { keyPorts, nodeKeysPort } from '../../../metacontroller/ports/keys.ts'
import { embeddedApi, installCrds, type Embedded } from '../embedded.ts'

const log = pino({ level: 'silent' })
const [A, B] = ['key-a', 'key-b'] as const
const [a, b] = [A, B].map(keyFingerprint) as [string, string]
const KEYS = new Map([
  [a, A],
  [b, B],
])
/** Short, as some nodes never answer, and long enough for the others on a busy machine. */
const TIMEOUT_MS = 2_000
/** Where every node answers. */
const ANSWERED_MS = 60_000
const PEER = { result: { status: 'disabled' }, status: 'ok', time: 0 }

interface Call {
  ordinal: number
  path: string
  key: unknown
}

/** Pods with these engines, and the calls that reach them. */
async function nodes(
  t: Test,
  engines: RequestListener[],
  timeoutMs = ANSWERED_MS,
  secret: ReadSecret = async () => undefined,
) {
  const { api, kubernetes, server } = await embeddedApi(t)
  const calls: Call[] = []
  const listening = await Promise.all(
    engines.map(async (answer, ordinal) => {
      const engine = createServer((request, response) => {
        calls.push({ ordinal, path: request.url ?? '', key: request.headers['api-key'] })
        answer(request, response)
      })
      await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve))
      t.teardown(() => {
        engine.closeAllConnections()
        engine.close()
      })
      return (engine.address() as AddressInfo).port
    }),
  )
  const metadata = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata })
  for (const ordinal of engines.keys()) {
    const pod = { name: `vec-a-${ordinal}`, namespace: 'ns' }
    const spec = { containers: [{ name: 'a', image: 'b' }] }
    await api.create({ apiVersion: 'v1', kind: 'Pod', metadata: pod, spec })
  }
  server.attach({ log: () => undefined, port: (_, pod) => listening[Number(pod.slice(-1))] })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const dependencies = { kubernetes, connections, route: 'proxy' as const, secret, log }
  const ask = nodeKeysPort({ ...dependencies, freshSecret: secret }, timeoutMs)
  const connection = (replicas: number) => ({
    ...{ namespace: 'ns', name: 'a', replicas, tls: false },
    // The key in that Secret must not be the one that is asked about.
    key: { secret: 'vec-a-apikey', key: 'api-key' },
  })
  return { calls, ask, connection }
}

/** Accepts these keys, and refuses the others in this way. */
function accepting(keys: string[], code = 401): RequestListener {
  return (request, response) => {
    const isAccepted = keys.includes(String(request.headers['api-key']))
    response.statusCode = isAccepted ? 200 : code
    response.setHeader('content-type', 'application/json')
    response.end(isAccepted ? JSON.stringify(PEER) : 'Invalid API key or JWT')
  }
}

function status(code: number): RequestListener {
  return (_, response) => {
    response.statusCode = code
    response.end('{}')
  }
}

const never: RequestListener = () => undefined
const NONE = new AbortController().signal

t.test('each node is asked with each key by itself', async (t) => {
  const { ask, connection, calls } = await nodes(t, [
    accepting([A, B]),
    accepting([A]),
    accepting([B], 403),
    accepting([]),
  ])
  t.strictSame(await ask(connection(4), KEYS, NONE), [
    { ordinal: 0, accepts: [a, b] },
    { ordinal: 1, accepts: [a] },
    { ordinal: 2, accepts: [b] },
    { ordinal: 3, accepts: [] },
  ])
  const expected = [0, 1, 2, 3].flatMap((ordinal) =>
    [A, B].map((key) => ({ ordinal, path: '/cluster', key })),
  )
  t.strictSame(
    calls.toSorted((one, other) => one.ordinal - other.ordinal),
    expected,
    'one call for each, and no retry',
  )
})

t.test('no answer, or another one, says nothing about a key', async (t) => {
  const engines: RequestListener[] = [
    accepting([A, B]),
    status(500),
    status(404),
    status(429),
    never,
    (_, response) => response.end('no JSON'),
    (_, response) => response.destroy(),
    // Accepts the first key and then hangs.
    (request, response) => {
      if (request.headers['api-key'] === A) accepting([A])(request, response)
    },
  ]
  const { ask, connection } = await nodes(t, engines, TIMEOUT_MS)
  t.strictSame(await ask(connection(9), KEYS, NONE), [
    { ordinal: 0, accepts: [a, b] },
    ...[1, 2, 3, 4, 5, 6, 7, 8].map((ordinal) => ({ ordinal })),
  ])
})

t.test('a Secret that cannot be read, and a defect, are errors, not silence', async (t) => {
  for (const error of [new KubernetesError('GET secrets answered 403'), new TypeError('x')]) {
    const secret = async () => Promise.reject(error)
    const { ask, connection } = await nodes(t, [accepting([A, B])], ANSWERED_MS, secret)
    await t.rejects(ask(connection(1), KEYS, NONE), error)
  }
})

t.test('a Secret that cannot be read after the time for a node is an error, too', async (t) => {
  const secret = async () => {
    await sleep(50)
    throw new KubernetesError('GET secrets got no answer')
  }
  const { ask, connection } = await nodes(t, [accepting([A, B])], 1, secret)
  await t.rejects(ask(connection(1), KEYS, NONE), { message: 'GET secrets got no answer' })
})

t.test('calls end with the pass that needs them', async (t) => {
  const { ask, connection, calls } = await nodes(t, [accepting([A, B]), never])
  await t.rejects(ask(connection(2), KEYS, AbortSignal.abort()), { name: 'AbortError' })
  t.strictSame(calls, [])
})

interface Token {
  name: string
  namespace?: string
  cluster?: { name: string; namespace?: string }
  phase?: string
  key?: string
}

async function accessKey({ api }: Embedded, token: Token): Promise<void> {
  const { name, namespace = 'ns', cluster = { name: 'a' }, phase = 'Ready', key } = token
  const metadata = { name, namespace }
  const spec = { clusterRef: cluster, access: 'r' }
  const created = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecAccessKey',
    metadata,
    spec,
  })
  const found = { phase, ...(key !== undefined && { keyFingerprint: key }) }
  await api.replaceStatus({ ...created, status: found })
}

t.test('tokens are found by the key that has signed them, in all namespaces', async (t) => {
  const embedded = await embeddedApi(t)
  const { api, kubernetes } = embedded
  const secret = async () => undefined
  const portsFor = (namespaces: string[]) => keyPorts({ kubernetes, secret, namespaces })
  const of = { namespace: 'ns', name: 'a' }
  const all = () => true
  t.strictSame(await portsFor([]).tokensSignedWith(of, a, all), [], 'the CRD is not installed')
  await installCrds(api)
  const elsewhere = { name: 'a', namespace: 'ns' }
  for (const token of [
    { name: 'z', key: a },
    { name: 'signed', key: a },
    { name: 'renewed', key: b },
    { name: 'no-longer-renewed', key: a, phase: 'Failed' },
    { name: 'never-signed' },
    { name: 'of-another', key: a, cluster: { name: 'b' } },
    { name: 'from-elsewhere', namespace: 'other', key: a, cluster: elsewhere },
    { name: 'of-a-namesake', namespace: 'other', key: a },
  ]) {
    await accessKey(embedded, token)
  }
  const metadata = { name: 'deleted', namespace: 'ns', finalizers: ['vec-operator.dev/test'] }
  const deleted = { apiVersion: API_VERSION, kind: 'VecAccessKey', metadata }
  const made = await api.create({ ...deleted, spec: { clusterRef: { name: 'a' }, access: 'r' } })
  await api.replaceStatus({ ...made, status: { phase: 'Ready', keyFingerprint: a } })
  await api.delete({
    apiVersion: API_VERSION,
    kind: 'VecAccessKey',
    namespace: 'ns',
    name: 'deleted',
  })
  const own = ['ns/signed', 'ns/z']
  t.strictSame(await portsFor([]).tokensSignedWith(of, a, all), [...own, 'other/from-elsewhere'])
  t.strictSame(await portsFor(['ns']).tokensSignedWith(of, a, all), own)
  t.strictSame(await portsFor([]).tokensSignedWith(of, 'unknown', all), [])
  const isOwn = (namespace: string) => namespace === 'ns'
  t.strictSame(await portsFor([]).tokensSignedWith(of, a, isOwn), own, 'others may not have one')
})

function keysSecret(type = KEYS_SECRET_TYPE) {
  const data = { [keyEntry(a)]: 'YQ==', [keyEntry(b)]: 'Yg==' }
  const metadata = { name: 'vec-a.keys', namespace: 'ns', labels: { app: 'x' } }
  return { apiVersion: 'v1', kind: 'Secret', type, metadata, data }
}

const KEYS_SECRET = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'vec-a.keys' }

t.test('only keys that are retained stay in the Secret of the operator', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  const ports = keyPorts({ kubernetes, secret: async () => undefined, namespaces: [] })
  const of = { namespace: 'ns', name: 'a' }
  await ports.keepKeys(of, [b])
  t.equal(await api.get(KEYS_SECRET), undefined, 'a missing one is not created')
  await api.create(keysSecret())
  await ports.keepKeys(of, [b, 'unknown'])
  t.match(await api.get(KEYS_SECRET), {
    metadata: { labels: { app: 'x' } },
    type: KEYS_SECRET_TYPE,
  })
  t.strictSame((await api.get(KEYS_SECRET))?.['data'], { [keyEntry(b)]: 'Yg==' })
})

t.test('a Secret of another owner, or one that changes meanwhile, stays', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  const secret = async () => undefined
  const of = { namespace: 'ns', name: 'a' }
  await api.create(keysSecret('Opaque'))
  const ports = keyPorts({ kubernetes, secret, namespaces: [] })
  await ports.keepKeys(of, [b])
  t.strictSame((await api.get(KEYS_SECRET))?.['data'], keysSecret().data)
  await api.delete(KEYS_SECRET)
  await api.create(keysSecret())
  const call = kubernetes.call.bind(kubernetes)
  kubernetes.call = async (method, ...rest) => {
    if (method === 'PUT') await api.patch(KEYS_SECRET, { data: { more: 'bW9yZQ==' } })
    return call(method, ...rest)
  }
  await ports.keepKeys(of, [b])
  t.strictSame((await api.get(KEYS_SECRET))?.['data'], { ...keysSecret().data, more: 'bW9yZQ==' })
})

t.test('Secrets are read live, or from the cache that the service has', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  const cached: Secret = { ...keysSecret(), apiVersion: 'v1', kind: 'Secret', data: {} }
  const ports = keyPorts({ kubernetes, secret: async () => cached, namespaces: [] })
  t.equal(await ports.secret('ns', 'vec-a.keys'), cached)
  t.equal(await ports.liveSecret('ns', 'vec-a.keys'), undefined)
  await api.create(keysSecret())
  t.match(await ports.liveSecret('ns', 'vec-a.keys'), { data: keysSecret().data })
})
