/** The Kubernetes client, against the embedded API server and against one that answers garbage. */
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { rootCertificates } from 'node:tls'
import t, { type Test } from 'tap'
import { API_VERSION } from '../../../../crds/contract/names.ts'
import { AnyObject, Secret } from '../../../../crds/kubernetes.ts'
import { errorMessage } from '../../../../jobs/clients/http/request.ts'
import * as resources from '../../../../jobs/clients/kubernetes/api-resources.ts'
import { userAccess, serviceAccess } from '../../../../jobs/clients/kubernetes/access.ts'
import {
  SERVICE_ACCOUNT_FOLDER,
  Kubernetes,
  resourcePath,
  inClusterAccess,
  type ApiAccess,
} from '../../../../jobs/clients/kubernetes/client.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { http2Server } from '../../../doubles/http2-server.ts'
import { startScriptedApi, type ScriptedAnswer } from '../../../doubles/scripted-api.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ONE, TWO } from '../../../metacontroller/certificates.ts'
import { startApi, type EmbeddedApi } from '../../../world/api/server.ts'
import { ManualClock } from '../../../world/clock.ts'

const SECRETS = { apiVersion: 'v1', plural: 'secrets', namespace: 'ns' }
const log = jobLog({ LOG_LEVEL: 'ERROR' })

function secret(name: string, labels: Record<string, string> = {}) {
  const data = { key: 'dmFsdWU=' }
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'ns', labels }, data }
}

async function scripted(t: Test, answer: () => ScriptedAnswer | undefined) {
  const api = await startScriptedApi(answer)
  t.teardown(() => api.close())
  return { api, kubernetes: new Kubernetes(inClusterAccess({ VEC_API_SERVER: api.url }), log) }
}

const ACCESSES: Record<string, (api: EmbeddedApi, folder: string) => Promise<ApiAccess>> = {
  'a token file': async ({ url, token }, folder) => {
    writeFileSync(join(folder, 'token'), `${token}\n`)
    return inClusterAccess({ VEC_API_SERVER: url, VEC_API_TOKEN_FILE: join(folder, 'token') })
  },
  'a kubeconfig': async ({ url, token }, folder) => {
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig(url, token)))
    return serviceAccess(join(folder, 'kubeconfig'))
  },
}

function kubeconfig(server: string, token: string, namespace?: string) {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: { token } }],
    contexts: [
      { name: 'c', context: { cluster: 'c', user: 'u', ...(namespace && { namespace }) } },
    ],
  }
}

for (const [what, accessOf] of Object.entries(ACCESSES)) {
  t.test(`objects are created, read, listed, patched and deleted by ${what}`, async (t) => {
    const api = await startApi(new ManualClock(new Date('2030-01-01T00:00:00Z')))
    t.teardown(() => api.close())
    const kubernetes = new Kubernetes(await accessOf(api, t.testdir({})), log)
    const namespaces = { apiVersion: 'v1', plural: 'namespaces' }
    await kubernetes.create(namespaces, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'ns' },
    })
    await kubernetes.create(SECRETS, secret('one', { app: 'x' }))
    await kubernetes.create(SECRETS, secret('two'))
    t.match(await kubernetes.get(SECRETS, 'one', Secret), { data: { key: 'dmFsdWU=' } })
    t.equal(await kubernetes.get(SECRETS, 'none', Secret), undefined)
    const found = await kubernetes.list(SECRETS, Secret, { labelSelector: 'app=x' })
    t.strictSame(
      found.map(({ kind, metadata }) => [kind, metadata.name]),
      [['Secret', 'one']],
    )
    await kubernetes.patch(SECRETS, 'one', { metadata: { annotations: { a: 'b' } } })
    t.match(await kubernetes.get(SECRETS, 'one', Secret), { metadata: { annotations: { a: 'b' } } })
    await t.rejects(
      kubernetes.patch(SECRETS, 'one', { metadata: { uid: 'another' } }),
      { code: 'KubernetesError' },
      'a namesake is not patched',
    )
    await kubernetes.delete(SECRETS, 'one', { uid: 'another' })
    t.ok(await kubernetes.get(SECRETS, 'one', Secret), 'a namesake is not deleted')
    await kubernetes.delete(SECRETS, 'one', { propagation: 'Background' })
    await kubernetes.delete(SECRETS, 'one')
    t.equal(await kubernetes.get(SECRETS, 'one', Secret), undefined)
    await t.rejects(kubernetes.create(SECRETS, secret('two')), {
      message: 'POST /api/v1/namespaces/ns/secrets answered 409: secrets "two" already exists',
      status: 409,
    })
  })
}

t.test('a token that is renewed while the process runs is used', async (t) => {
  const file = join(t.testdir({}), 'token')
  const api = await startScriptedApi(() => ({ status: 404, body: {} }))
  t.teardown(() => api.close())
  const access = inClusterAccess({ VEC_API_SERVER: api.url, VEC_API_TOKEN_FILE: file })
  const kubernetes = new Kubernetes(access, log)
  for (const token of ['first', 'second']) {
    writeFileSync(file, token)
    await kubernetes.get(SECRETS, 'any', Secret)
  }
  t.strictSame(
    api.calls.map(({ headers }) => headers['authorization']),
    ['Bearer first', 'Bearer second'],
  )
})

t.test('the error of an invalid response names the field, never its value', async (t) => {
  const body = { ...secret('s'), data: { key: { hidden: 'topsecret' } } }
  const { kubernetes } = await scripted(t, () => ({ status: 200, body }))
  await t.rejects(kubernetes.get(SECRETS, 's', Secret), {
    code: 'KubernetesError',
    message:
      'GET /api/v1/namespaces/ns/secrets/s answered without a valid /data/key: Expected string',
  })
})

t.test('a response that is not JSON is an error without its text', async (t) => {
  const { kubernetes } = await scripted(t, () => ({ status: 200, body: '<html>' }))
  await t.rejects(kubernetes.get(SECRETS, 's', Secret), {
    message: 'GET /api/v1/namespaces/ns/secrets/s answered something that is not JSON',
  })
})

t.test('a list without items is empty', async (t) => {
  const { kubernetes } = await scripted(t, () => ({
    status: 200,
    body: { kind: 'SecretList', items: null },
  }))
  t.strictSame(await kubernetes.list(SECRETS, Secret), [])
})

t.test('an error that is not a Status is reported as text', async (t) => {
  const { kubernetes } = await scripted(t, () => ({ status: 502, body: 'bad gateway' }))
  await t.rejects(kubernetes.list(SECRETS, AnyObject), { status: 502, message: /: bad gateway$/ })
})

t.test('a missing response is an error without a status', async (t) => {
  const { kubernetes } = await scripted(t, () => undefined)
  const error: unknown = await kubernetes.get(SECRETS, 's', Secret).catch((error: unknown) => error)
  t.match(error, { code: 'KubernetesError', message: /^GET .* got no answer: / })
  t.equal((error as { status?: number }).status, undefined)
})

t.test('an error names each of several addresses that do not answer', async (t) => {
  const tried = [
    new Error('connect ECONNREFUSED ::1:80'),
    new Error('connect ECONNREFUSED 127.0.0.1:80'),
  ]
  t.equal(
    errorMessage(new AggregateError(tried)),
    'connect ECONNREFUSED ::1:80; connect ECONNREFUSED 127.0.0.1:80',
  )
  t.equal(errorMessage('a word'), 'a word')
})

t.test('a call that is aborted ends with the reason', async (t) => {
  const { kubernetes } = await scripted(t, () => ({ status: 200, body: {} }))
  const signal = AbortSignal.abort(new Error('SIGTERM'))
  await t.rejects(kubernetes.call('GET', '/', { signal }), { message: /^SIGTERM$/ })
})

t.test('in a pod the service account is used, and an IPv6 address is bracketed', async (t) => {
  const root = podRoot(t)
  const headersOf = async (access: ApiAccess) => (await access.authorize()).headers
  const byName = inClusterAccess({ KUBERNETES_SERVICE_HOST: 'fd00::1' }, root)
  t.equal(byName.server, 'https://[fd00::1]:443')
  t.strictSame(await headersOf(byName), { authorization: 'Bearer mounted' })

  restored(t, { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '6443' })
  t.equal(inClusterAccess(process.env, root).server, 'https://10.0.0.1:6443')
  const service = await serviceAccess(undefined, root)
  t.equal(service.server, 'https://10.0.0.1:6443')
  t.match(await headersOf(service), { authorization: 'Bearer mounted' })
})

t.test('calls of the service share connections while the kubeconfig is unchanged', async (t) => {
  const folder = t.testdir({ authority: 'first' })
  const server = 'https://10.0.0.1:6443'
  const config = {
    ...kubeconfig(server, 'x'),
    clusters: [
      { name: 'c', cluster: { server, 'certificate-authority': join(folder, 'authority') } },
    ],
  }
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(config))
  const access = await serviceAccess(join(folder, 'kubeconfig'))
  const { dispatcher } = await access.authorize()
  t.equal((await access.authorize()).dispatcher, dispatcher)
  writeFileSync(join(folder, 'authority'), 'renewed')
  t.not((await access.authorize()).dispatcher, dispatcher)
})

t.test('without a mounted service account KUBECONFIG is used', async (t) => {
  const config = JSON.stringify(kubeconfig('https://from.environment:6443/', 'x'))
  const folder = t.testdir({ kubeconfig: config })
  restored(t, { KUBECONFIG: join(folder, 'kubeconfig') })
  const { server } = await serviceAccess(undefined, folder)
  t.equal(server, 'https://from.environment:6443')
})

t.test('VEC_API_SERVER counts as a pod: a kubeconfig is not looked for', async (t) => {
  const folder = t.testdir({ config: JSON.stringify(kubeconfig('https://from.file:6443', 'x')) })
  restored(t, { VEC_API_SERVER: 'https://from.variable:6443', KUBECONFIG: join(folder, 'config') })
  t.equal((await serviceAccess(undefined, folder)).server, 'https://from.variable:6443')
  const { access, namespace } = await userAccess({}, { VEC_API_SERVER: 'https://own:6443' }, folder)
  t.strictSame([access.server, namespace], ['https://own:6443', undefined])
})

t.test('an empty KUBECONFIG counts as none: the file in the home directory is used', async (t) => {
  const config = JSON.stringify(kubeconfig('https://from.home:6443', 'x'))
  const folder = t.testdir({ '.kube': { config } })
  restored(t, { KUBECONFIG: '', HOME: folder })
  t.equal((await serviceAccess(undefined, folder)).server, 'https://from.home:6443')
})

t.test('of several files in KUBECONFIG the first that defines a name is used', async (t) => {
  const { contexts } = kubeconfig('', '')
  const second = kubeconfig('https://second.example:6443', 'x')
  const folder = t.testdir({
    first: JSON.stringify({ apiVersion: 'v1', kind: 'Config', contexts, 'current-context': 'c' }),
    second: JSON.stringify({ ...second, 'current-context': 'none' }),
    third: JSON.stringify(kubeconfig('https://third.example:6443', 'x')),
  })
  const files = ['missing', 'first', 'second', 'third'].map((name) => join(folder, name))
  const list = files.join(delimiter)
  t.equal((await serviceAccess(list)).server, 'https://second.example:6443', 'as an option')
  restored(t, { KUBECONFIG: list })
  t.equal((await serviceAccess(undefined, folder)).server, 'https://second.example:6443')
  t.equal((await userAccess({})).access.server, 'https://second.example:6443')
  await t.rejects(serviceAccess(join(folder, 'missing')), { message: /missing does not exist$/ })
})

/** A file system in which the kubelet has mounted a service account. */
function podRoot(t: Test): string {
  const folder = t.testdir({})
  const account = join(folder, SERVICE_ACCOUNT_FOLDER)
  mkdirSync(account, { recursive: true })
  writeFileSync(join(account, 'token'), 'mounted')
  writeFileSync(join(account, 'ca.crt'), rootCertificates[0] ?? '')
  writeFileSync(join(account, 'namespace'), 'ns')
  return folder
}

/** Sets environment variables for one test. */
function restored(t: Test, variables: Record<string, string>): void {
  const before = { ...process.env }
  Object.assign(process.env, variables)
  t.teardown(() => {
    for (const name of Object.keys(variables)) Reflect.deleteProperty(process.env, name)
    Object.assign(process.env, before)
  })
}

t.test('outside a pod, without VEC_API_SERVER, there is no access to the API', async (t) => {
  t.throws(() => inClusterAccess({}), {
    code: 'KubernetesError',
    message: /KUBERNETES_SERVICE_HOST/,
  })
})

t.test('a path holds the namespace, if any, and a name that is safe', async (t) => {
  const statefulSets = { apiVersion: 'apps/v1', plural: 'statefulsets' }
  t.equal(resourcePath(statefulSets), '/apis/apps/v1/statefulsets')
  t.equal(resourcePath(SECRETS, 'a/b'), '/api/v1/namespaces/ns/secrets/a%2Fb')
})

t.test('a kubeconfig without a context is rejected', async (t) => {
  const folder = t.testdir({ config: '{"apiVersion":"v1","kind":"Config"}' })
  await t.rejects(serviceAccess(join(folder, 'config')), { code: 'KubernetesError' })
})

t.test('outside a pod the API is trusted by its authority, and a token is optional', async (t) => {
  const calls: (string | undefined)[] = []
  const server = createServer(ONE, ({ headers }, response) => {
    calls.push(headers.authorization)
    response.writeHead(404).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  const folder = t.testdir({ 'ca.crt': ONE.cert, 'other.crt': TWO.cert })
  const kubernetesBy = (env: NodeJS.ProcessEnv) =>
    new Kubernetes(inClusterAccess({ VEC_API_SERVER: `https://127.0.0.1:${port}`, ...env }), log)
  const trusting = kubernetesBy({ VEC_API_CA_FILE: join(folder, 'ca.crt') })
  t.equal(await trusting.get(SECRETS, 'any', Secret), undefined)
  for (const env of [{}, { VEC_API_CA_FILE: join(folder, 'other.crt') }]) {
    await t.rejects(kubernetesBy(env).get(SECRETS, 'any', Secret), {
      code: 'KubernetesError',
      message: /got no answer: .*self-signed certificate/,
    })
  }
  t.strictSame(calls, [undefined])
})

t.test(
  'a connection on which nothing is answered any more fails no call but the one on it',
  async (t) => {
    const { url, loseConnections } = await http2Server(t, ONE)
    const folder = t.testdir({ 'ca.crt': ONE.cert })
    const env = { VEC_API_SERVER: url, VEC_API_CA_FILE: join(folder, 'ca.crt') }
    const kubernetes = new Kubernetes(inClusterAccess(env), log)
    const call = (timeoutMs = 2_000) => kubernetes.call('GET', '/version', { timeoutMs })
    t.equal((await call(30_000)).status, 200)
    loseConnections()
    const failures: string[] = []
    for (let count = 0; count < 3; count += 1)
      await call().catch((error: unknown) => failures.push(errorMessage(error)))
    t.ok(failures.length <= 1, failures.join('; '))
  },
)

t.test(
  'a user in a pod has its namespace, unless a kubeconfig or a context is named',
  async (t) => {
    const root = podRoot(t)
    const config = join(root, 'config')
    writeFileSync(config, JSON.stringify(kubeconfig('https://from.file:6443', 'x', 'of-context')))
    const env = { KUBERNETES_SERVICE_HOST: '10.0.0.1' }
    const found = async (...parameters: Parameters<typeof userAccess>) => {
      const { access, namespace } = await userAccess(...parameters)
      return [access.server, namespace]
    }
    const byFile = ['https://from.file:6443', 'of-context']
    t.strictSame(await found({}, env, root), ['https://10.0.0.1:443', 'ns'])
    t.strictSame(await found({ kubeconfig: config }, env, root), byFile)
    t.strictSame(await found({}, { ...env, KUBECONFIG: config }, root), byFile)
    t.strictSame(await found({ context: 'c' }, { ...env, KUBECONFIG: config }, root), byFile)
    rmSync(join(root, SERVICE_ACCOUNT_FOLDER, 'namespace'))
    t.strictSame(await found({}, env, root), ['https://10.0.0.1:443', undefined])
    restored(t, { KUBECONFIG: config })
    t.strictSame(await found({ context: 'c' }, env, root), byFile, 'a context is of a kubeconfig')
  },
)

t.test('a context is chosen by its name, and has to exist', async (t) => {
  const { clusters, users, contexts, ...rest } = kubeconfig('https://one:6443', 'x', 'first')
  const config = {
    ...{ ...rest, users },
    clusters: [...clusters, { name: 'other', cluster: { server: 'https://two:6443' } }],
    contexts: [...contexts, { name: 'second', context: { cluster: 'other', user: 'u' } }],
  }
  const file = join(t.testdir({ config: JSON.stringify(config) }), 'config')
  const { access, namespace } = await userAccess({ kubeconfig: file, context: 'second' }, {})
  t.strictSame([access.server, namespace], ['https://two:6443', undefined])
  await t.rejects(userAccess({ kubeconfig: file, context: 'third' }, {}), {
    code: 'KubernetesError',
    message: 'the kubeconfig has no context third',
  })
})

t.test('each kind of object is addressed in its API group, in a namespace or in all', async (t) => {
  const { apiResource: _, inNamespaces, ...kinds } = resources
  const paths = Object.entries(kinds).map(([name, kind]) => [name, resourcePath(kind())])
  t.strictSame(Object.fromEntries(paths), {
    namespaces: '/api/v1/namespaces',
    pods: '/api/v1/pods',
    persistentVolumeClaims: '/api/v1/persistentvolumeclaims',
    kubernetesNodes: '/api/v1/nodes',
    services: '/api/v1/services',
    configMaps: '/api/v1/configmaps',
    secrets: '/api/v1/secrets',
    serviceAccounts: '/api/v1/serviceaccounts',
    events: '/api/v1/events',
    jobs: '/apis/batch/v1/jobs',
    statefulSets: '/apis/apps/v1/statefulsets',
    podDisruptionBudgets: '/apis/policy/v1/poddisruptionbudgets',
    endpointSlices: '/apis/discovery.k8s.io/v1/endpointslices',
    leases: '/apis/coordination.k8s.io/v1/leases',
    crds: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
    compositeControllers: '/apis/metacontroller.k8s.io/v1alpha1/compositecontrollers',
    clusters: `/apis/${API_VERSION}/vecclusters`,
    accessKeys: `/apis/${API_VERSION}/vecaccesskeys`,
    collections: `/apis/${API_VERSION}/veccollections`,
    backups: `/apis/${API_VERSION}/vecbackups`,
    backupSchedules: `/apis/${API_VERSION}/vecbackupschedules`,
    restores: `/apis/${API_VERSION}/vecrestores`,
    migrations: `/apis/${API_VERSION}/vecmigrations`,
  })
  t.equal(resourcePath(kinds.secrets('ns'), 'a'), '/api/v1/namespaces/ns/secrets/a')
  const scale = { ...kinds.statefulSets('ns'), subresource: 'scale' }
  t.equal(resourcePath(scale, 'a'), '/apis/apps/v1/namespaces/ns/statefulsets/a/scale')
  const served = (names: string[]) =>
    inNamespaces(kinds.pods, names).map((one) => resourcePath(one))
  t.strictSame(served([]), ['/api/v1/pods'])
  t.strictSame(served(['a', 'b']), ['/api/v1/namespaces/a/pods', '/api/v1/namespaces/b/pods'])
})

t.test('a list asks for its selectors, and leaves out the field owners', async (t) => {
  const metadata = { name: 'a', managedFields: [{ manager: 'x' }] }
  const body = { kind: 'SecretList', metadata: {}, items: [{ metadata }, {}] }
  const { api, kubernetes } = await scripted(t, () => ({ status: 200, body }))
  const type = { apiVersion: 'v1', kind: 'Secret' }
  const selector = { labelSelector: 'app in (a,b)', fieldSelector: 'metadata.name=a' }
  const found = await kubernetes.collect(
    SECRETS,
    { ...selector, skipsUnreadable: true },
    (object) => object,
  )
  t.strictSame(found, [{ ...type, metadata: { name: 'a' } }, type])
  const { pathname, searchParams } = new URL(api.calls[0]?.path ?? '', api.url)
  t.equal(pathname, '/api/v1/namespaces/ns/secrets')
  t.strictSame(Object.fromEntries(searchParams), { ...selector, limit: '250' })
})

t.test('a list that is rejected is not repeated, one that has expired three times', async (t) => {
  const answer = { status: 403, body: { message: 'forbidden' } }
  const { api, kubernetes } = await scripted(t, () => answer)
  await t.rejects(kubernetes.list(SECRETS, AnyObject), { code: 'KubernetesError', status: 403 })
  t.equal(api.calls.length, 1)
  answer.status = 410
  await t.rejects(kubernetes.list(SECRETS, AnyObject), { code: 'KubernetesError', status: 410 })
  t.equal(api.calls.length, 1 + 4)
})

t.test('a deletion that conflicts without a uid is an error, and so is one denied', async (t) => {
  const answer = { status: 409, body: { message: 'conflict' } }
  const { api, kubernetes } = await scripted(t, () => answer)
  await kubernetes.delete(SECRETS, 's', { uid: 'u', propagation: 'Foreground' })
  t.strictSame(JSON.parse(api.calls[0]?.body ?? ''), {
    ...{ kind: 'DeleteOptions', apiVersion: 'v1' },
    ...{ propagationPolicy: 'Foreground', preconditions: { uid: 'u' } },
  })
  await t.rejects(kubernetes.delete(SECRETS, 's'), { code: 'KubernetesError', status: 409 })
  answer.status = 403
  await t.rejects(kubernetes.delete(SECRETS, 's', { uid: 'u' }), {
    code: 'KubernetesError',
    status: 403,
  })
})

t.test('the long message of an error is truncated, also where it is no Status', async (t) => {
  const long = 'x'.repeat(5000)
  for (const body of [{ message: long }, long]) {
    const { kubernetes } = await scripted(t, () => ({ status: 422, body }))
    await t.rejects(kubernetes.create(SECRETS, {}), { message: /answered 422: x{2048}$/ })
  }
})

t.test(
  'a check before changes runs before each of them, and its error ends the call',
  async (t) => {
    const api = await startScriptedApi(() => ({ status: 200, body: secret('s') }))
    t.teardown(() => api.close())
    let checks = 0
    const failure: { error?: Error } = {}
    const check = async () => {
      checks += 1
      if (failure.error !== undefined) throw failure.error
    }
    const access = inClusterAccess({ VEC_API_SERVER: api.url })
    const kubernetes = new Kubernetes(access, log, check)
    const changes = [
      () => kubernetes.create(SECRETS, secret('s')),
      () => kubernetes.patch(SECRETS, 's', {}),
      () => kubernetes.delete(SECRETS, 's'),
    ]
    for (const change of changes) await change()
    t.equal(checks, changes.length)
    await kubernetes.get(SECRETS, 's', Secret)
    t.match(await kubernetes.dryRunPatch(SECRETS, 's', { patch: { a: 1 }, schema: Secret }), {
      metadata: { name: 's' },
    })
    t.equal(checks, changes.length, 'nothing is changed by these')
    matchWhole(t, api.calls.at(-1), {
      method: 'PATCH',
      path: '/api/v1/namespaces/ns/secrets/s?dryRun=All',
      headers: { 'content-type': 'application/merge-patch+json' },
      body: '{"a":1}',
    })
    const error = new Error('replaced by another pod')
    failure.error = error
    const before = api.calls.length
    for (const change of changes) await t.rejects(change(), error)
    t.equal(api.calls.length, before)
  },
)

t.test('a response is streamed; a call that stalls, or is aborted, ends', async (t) => {
  const silent = Promise.withResolvers<undefined>()
  const server = createHttpServer((request, response) => {
    if (request.url === '/silent') {
      silent.resolve(undefined)
      return
    }
    response.writeHead(200, { 'content-length': '6' }).write('abc')
    if (request.url === '/whole') response.end(String(request.headers['x-call']))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  const access = inClusterAccess({ VEC_API_SERVER: `http://127.0.0.1:${port}` })
  const kubernetes = new Kubernetes(access, log)
  const options = { headers: { 'x-call': 'def' }, timeoutMs: 60_000, stallMs: 60_000 }
  const { status, length, body } = await kubernetes.open('GET', '/whole', options)
  t.strictSame([status, length, await text(body)], [200, 6, 'abcdef'])
  const half = await kubernetes.open('GET', '/half', { ...options, stallMs: 100 })
  await t.rejects(text(half.body), { message: 'Body Timeout Error' })
  const late = await kubernetes.open('GET', '/half', { ...options, timeoutMs: 100 })
  await t.rejects(text(late.body), { name: 'TimeoutError' })
  const abort = new AbortController()
  const { signal } = abort
  const call = kubernetes.open('GET', '/silent', { ...options, signal })
  await silent.promise
  abort.abort(new Error('SIGTERM'))
  await t.rejects(call, { message: /^SIGTERM$/ })
  await t.rejects(kubernetes.open('GET', '/silent', { ...options, timeoutMs: 100 }), {
    code: 'KubernetesError',
    message: 'GET /silent got no answer: The operation was aborted due to timeout',
  })
})
