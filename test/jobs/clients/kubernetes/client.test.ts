/** The Kubernetes client, against the embedded API server and against one that answers garbage. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { rootCertificates } from 'node:tls'
import t, { type Test } from 'tap'
import { AnyObject, Secret } from '../../../../crds/kubernetes.ts'
import { errorMessage } from '../../../../jobs/clients/http/request.ts'
import { userAccess, serviceAccess } from '../../../../jobs/clients/kubernetes/access.ts'
import {
  SERVICE_ACCOUNT_FOLDER,
  Kubernetes,
  resourcePath,
  inClusterAccess,
  type ApiAccess,
} from '../../../../jobs/clients/kubernetes/client.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { startScriptedApi, type ScriptedAnswer } from '../../../doubles/scripted-api.ts'
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

function kubeconfig(server: string, token: string) {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
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
  await t.rejects(kubernetes.call('GET', '/', { signal }), { message: 'SIGTERM' })
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
