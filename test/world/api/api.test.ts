/** The embedded API server behaves towards clients as Kubernetes does. */
import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Kubernetes } from '../../../jobs/clients/kubernetes/client.ts'
import { matchWhole } from '../../match-whole.ts'
import { ApiClient, type ApiObject, type WatchEvent } from '../client.ts'
import { ManualClock } from '../clock.ts'
import { startApi } from './server.ts'

const START = new Date('2030-01-01T00:00:00Z')
const CONTAINER = { name: 'a', image: 'i' }

async function world(t: Test) {
  const clock = new ManualClock(START)
  const api = await startApi(clock)
  const client = new ApiClient({ server: api.url, token: api.token })
  t.teardown(async () => {
    await client.close()
    await api.close()
  })
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  return { api, client, clock }
}

function secret(name: string, extra: object = {}) {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'ns' }, ...extra }
}

const at = (name: string) => ({ apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name })

const WIDGETS = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.dev' },
  spec: {
    group: 'example.dev',
    scope: 'Namespaced',
    names: { kind: 'Widget', plural: 'widgets', singular: 'widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: { size: { type: 'integer', minimum: 1, default: 3 } },
              },
              status: { type: 'object', properties: { phase: { type: 'string' } } },
            },
          },
        },
      },
    ],
  },
}

const widget = (extra: object = {}) => ({
  apiVersion: 'example.dev/v1',
  kind: 'Widget',
  metadata: { name: 'w', namespace: 'ns' },
  spec: {},
  ...extra,
})
const widgetAt = { apiVersion: 'example.dev/v1', kind: 'Widget', namespace: 'ns', name: 'w' }

t.test('a new object gets identity, the time of the clock, and its defaults', async (t) => {
  const { client } = await world(t)
  const made = await client.create(secret('a', { stringData: { key: 'value' } }))
  t.match(made, {
    type: 'Opaque',
    data: { key: 'dmFsdWU=' },
    metadata: { creationTimestamp: '2030-01-01T00:00:00Z', uid: /^[0-9a-f-]{36}$/ },
  })
  t.equal(made['stringData'], undefined)
  t.strictSame(await client.get(at('a')), made)
})

t.test('generateName makes a name of its own', async (t) => {
  const { client } = await world(t)
  const made = await client.create(
    secret('', { metadata: { generateName: 'a-', namespace: 'ns' } }),
  )
  t.match(made.metadata.name, /^a-[a-z0-9]{5}$/)
})

t.test('invalid requests are rejected with the reason of Kubernetes', async (t) => {
  const { client } = await world(t)
  const first = await client.create(secret('a'))
  await t.rejects(client.create(secret('a')), {
    name: 'Error',
    status: 409,
    reason: 'AlreadyExists',
  })
  await t.rejects(client.create(secret('A_B')), { status: 422, message: /metadata.name: Invalid/ })
  await t.rejects(client.create(secret('b', { metadata: { name: 'b', namespace: 'no' } })), {
    status: 404,
    message: 'namespaces "no" not found',
  })
  await t.rejects(client.replace({ ...first, metadata: { ...first.metadata, uid: 'x' } }), {
    name: 'Error',
    status: 409,
    reason: 'Conflict',
  })
  await t.rejects(client.create({ apiVersion: 'no/v1', kind: 'No', metadata: {} }), {
    name: 'Error',
    status: 404,
  })
  t.equal(await client.get({ ...widgetAt, name: 'x' }), undefined)
  await t.rejects(client.delete(at('z')), { status: 404, message: 'secrets "z" not found' })
  const wrong = new ApiClient({ server: client.server, token: 'wrong' })
  t.teardown(() => wrong.close())
  await t.rejects(wrong.list('v1', 'Secret'), { name: 'Error', status: 401 })
})

t.test(
  'a write with an old resourceVersion is a Conflict; one without change is none',
  async (t) => {
    const { client } = await world(t)
    const old = await client.create(secret('a'))
    const same = await client.replace(old)
    t.equal(same.metadata.resourceVersion, old.metadata.resourceVersion)
    await client.patch(at('a'), { metadata: { labels: { x: 'y' } } })
    await t.rejects(client.replace(old), { name: 'Error', status: 409, reason: 'Conflict' })
  },
)

t.test('a merge patch that carries the uid of another object is refused', async (t) => {
  const { client } = await world(t)
  await client.create(secret('a'))
  await t.rejects(client.patch(at('a'), { metadata: { uid: 'other', annotations: { x: 'y' } } }), {
    status: 422,
    message: /metadata.uid: Invalid value: "other": field is immutable/,
  })
})

t.test('annotations of more than 256 KiB are refused', async (t) => {
  const { client } = await world(t)
  await client.create(secret('a'))
  const annotations = { x: 'y'.repeat(256 * 1024) }
  await t.rejects(client.patch(at('a'), { metadata: { annotations } }), {
    name: 'Error',
    status: 422,
  })
})

t.test('lists are filtered by labels and fields', async (t) => {
  const { client } = await world(t)
  const names = async (selection: object) =>
    (await client.list('v1', 'Secret', { namespace: 'ns', ...selection })).items.map(
      ({ metadata }) => metadata.name,
    )
  await client.create(secret('a', { metadata: { name: 'a', namespace: 'ns', labels: { x: '1' } } }))
  await client.create(secret('b', { metadata: { name: 'b', namespace: 'ns', labels: { x: '2' } } }))
  await client.create(secret('c'))
  t.strictSame(await names({}), ['a', 'b', 'c'])
  t.strictSame(await names({ labelSelector: 'x=1' }), ['a'])
  t.strictSame(await names({ labelSelector: 'x!=1' }), ['b', 'c'])
  t.strictSame(await names({ labelSelector: 'x in (1, 2),x' }), ['a', 'b'])
  t.strictSame(await names({ labelSelector: '!x' }), ['c'])
  t.strictSame(await names({ fieldSelector: 'metadata.name=b,metadata.namespace=ns' }), ['b'])
})

t.test('a custom resource is pruned, defaulted and validated', async (t) => {
  const { client } = await world(t)
  await client.create(WIDGETS)
  const made = await client.create(widget({ spec: { other: 1 }, status: { phase: 'x' } }))
  t.strictSame(made.spec, { size: 3 })
  t.equal(made.status, undefined)
  await t.rejects(client.patch(widgetAt, { spec: { size: 0 } }), {
    status: 422,
    reason: 'Invalid',
    message: /^Widget\.example\.dev "w" is invalid: spec\.size: Invalid value: 0/,
  })
  const metadata = { name: 'w', namespace: 'ns' }
  await t.rejects(client.replace({ ...made, metadata }), {
    status: 422,
    message: /metadata.resourceVersion/,
  })
})

t.test('generation rises with spec and deletion, not with metadata or status', async (t) => {
  const { client } = await world(t)
  await client.create(WIDGETS)
  const { metadata } = await client.create(
    widget({ metadata: { name: 'w', namespace: 'ns', finalizers: ['example.dev/x'] } }),
  )
  t.equal(metadata.generation, 1)
  const labelled = await client.patch(widgetAt, { metadata: { annotations: { a: 'b' } } })
  t.equal(labelled.metadata.generation, 1)
  const written = await client.replaceStatus({
    ...labelled,
    spec: { size: 9 },
    status: { phase: 'p' },
  })
  t.match(written, { metadata: { generation: 1 }, spec: { size: 3 }, status: { phase: 'p' } })
  const changed = await client.patch(widgetAt, { spec: { size: 4 }, status: { phase: 'q' } })
  t.match(changed, { metadata: { generation: 2 }, status: { phase: 'p' } })
  await client.delete(widgetAt)
  t.match(await client.get(widgetAt), {
    metadata: { generation: 3, deletionTimestamp: '2030-01-01T00:00:00Z' },
  })
})

t.test(
  'the scale of a StatefulSet changes its replicas, unless it was changed before',
  async (t) => {
    const { client } = await world(t)
    const template = { metadata: { labels: { app: 'a' } }, spec: { containers: [CONTAINER] } }
    const selector = { matchLabels: { app: 'a' } }
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'set' }
    await client.create({
      ...{ apiVersion: 'apps/v1', kind: 'StatefulSet', metadata: { name: 'set', namespace: 'ns' } },
      spec: { replicas: 3, serviceName: 'set', selector, template },
    })
    const before = await client.get(set)
    const { resourceVersion } = before?.metadata ?? {}
    const scale = { subresource: 'scale' } as const
    t.match(
      await client.patch(set, { metadata: { resourceVersion }, spec: { replicas: 2 } }, scale),
      {
        kind: 'Scale',
        metadata: { name: 'set', uid: before?.metadata.uid },
        spec: { replicas: 2 },
      },
    )
    const stale = { metadata: { resourceVersion }, spec: { replicas: 1 } }
    const caught = (error: unknown) => error
    t.match(await client.patch(set, stale, scale).catch(caught), {
      status: 409,
      reason: 'Conflict',
    })
    t.match(await client.get(set), { metadata: { generation: 2 }, spec: { replicas: 2, template } })
    await client.create(secret('a'))
    t.match(await client.patch(at('a'), stale, scale).catch(caught), { status: 404 })
  },
)

t.test('a finalizer keeps a deleted object until the last finalizer is removed', async (t) => {
  const { client } = await world(t)
  const metadata = { name: 'a', namespace: 'ns', finalizers: ['example.dev/x'] }
  const made = await client.create(secret('a', { metadata }))
  await t.rejects(client.delete(at('a'), { uid: 'other' }), {
    name: 'Error',
    status: 409,
    reason: 'Conflict',
  })
  await client.delete(at('a'), made.metadata.uid === undefined ? {} : { uid: made.metadata.uid })
  await t.rejects(
    client.patch(at('a'), { metadata: { finalizers: ['example.dev/x', 'example.dev/y'] } }),
    { status: 422, message: /no new finalizers can be added/ },
  )
  await client.patch(at('a'), { metadata: { finalizers: null } })
  t.equal(await client.get(at('a')), undefined)
})

t.test('foreground deletion is a finalizer; a Job without a policy orphans pods', async (t) => {
  const { client } = await world(t)
  await client.create(secret('a'))
  await client.delete(at('a'), { propagation: 'Foreground' })
  t.strictSame((await client.get(at('a')))?.metadata.finalizers, ['foregroundDeletion'])
  const spec = { template: { spec: { restartPolicy: 'Never', containers: [CONTAINER] } } }
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'j', namespace: 'ns' },
    spec,
  }
  await client.create(job)
  await client.delete({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'ns', name: 'j' })
  const left = await client.get({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'ns', name: 'j' })
  t.strictSame(left?.metadata.finalizers, ['orphan'])
})

t.test('the template of a Job is immutable', async (t) => {
  const { client } = await world(t)
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'b' }] } }
  const metadata = { name: 'j', namespace: 'ns' }
  const job = await client.create({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata,
    spec: { template },
  })
  t.match(job.spec, { backoffLimit: 6, template: { metadata: { labels: { 'job-name': 'j' } } } })
  const patch = { spec: { template: { spec: { containers: [] } } } }
  await t.rejects(
    client.patch({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'ns', name: 'j' }, patch),
    { status: 422, message: /spec\.template: Invalid value: .*field is immutable/ },
  )
})

t.test('nothing is created in a namespace that ends', async (t) => {
  const { client } = await world(t)
  await client.delete({ apiVersion: 'v1', kind: 'Namespace', namespace: '', name: 'ns' })
  await t.rejects(client.create(secret('a')), {
    status: 403,
    reason: 'Forbidden',
    message: /because it is being terminated/,
  })
})

t.test('a watch continues from a resourceVersion and reports every change', async (t) => {
  const { client } = await world(t)
  await client.create(secret('a'))
  const { resourceVersion } = await client.list('v1', 'Secret')
  const abort = new AbortController()
  const seen: string[] = []
  const note = ({ type, object }: WatchEvent) => seen.push(`${type} ${object.metadata.name}`)
  const watching = (async () => {
    const options = { namespace: 'ns', resourceVersion, signal: abort.signal }
    for await (const event of client.watch('v1', 'Secret', options)) {
      if (event.type !== 'BOOKMARK') note(event)
      if (seen.length === 3) abort.abort()
    }
  })()
  await client.create(secret('b'))
  await client.patch(at('a'), { metadata: { labels: { x: 'y' } } })
  await client.delete(at('b'))
  await watching
  t.strictSame(seen, ['ADDED b', 'MODIFIED a', 'DELETED b'])
})

t.test('discovery follows the definitions of custom kinds', async (t) => {
  const { client } = await world(t)
  const definition: ApiObject = await client.create(WIDGETS)
  matchWhole(t, definition.status, {
    conditions: [{ type: 'NamesAccepted' }, { type: 'Established' }],
  })
  const { groups } = JSON.parse(await client.raw('GET', '/apis')) as { groups: { name: string }[] }
  const names = groups.map(({ name }) => name)
  t.ok(
    ['apps', 'batch', 'example.dev'].every((name) => names.includes(name)),
    names.join(),
  )
  matchWhole(t, JSON.parse(await client.raw('GET', '/apis/example.dev/v1')), {
    resources: [{ name: 'widgets', namespaced: true }, { name: 'widgets/status' }],
  })
})

t.test(
  'a proxied call that its caller ends while the API is slow is no longer in flight',
  async (t) => {
    const { api, client } = await world(t)
    let calls = 0
    const engine = createServer((_, response) => {
      calls += 1
      response.end('{}')
    })
    await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve))
    t.teardown(() => engine.close())
    api.attach({ log: () => undefined, port: () => (engine.address() as AddressInfo).port })
    const account = { name: 'default', namespace: 'ns' }
    await client.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
    await client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'vec-a-0', namespace: 'ns' },
      spec: { containers: [{ name: 'engine', image: 'engine' }] },
    })
    api.hinder({ slowMs: 50 })
    const path = '/api/v1/namespaces/ns/pods/vec-a-0:6333/proxy/cluster'
    const headers = { authorization: `Bearer ${api.serviceToken}` }
    const caller = get(`${api.url}${path}`, { headers })
    caller.on('error', () => undefined)
    while (api.inFlight() === 0) await sleep(1)
    caller.destroy()
    while (api.inFlight() > 0) await sleep(1)
    t.equal((await fetch(`${api.url}${path}`, { headers })).status, 200)
    t.equal(api.inFlight(), 0)
    t.equal(calls, 1, 'the engine is not asked on behalf of a caller that has gone')
  },
)

/** A page of the list of Secrets; the error of the API if it sends none. */
async function secretsPage(client: ApiClient, query: string) {
  const path = `/api/v1/namespaces/ns/secrets?${query}`
  const { metadata, items } = JSON.parse(await client.raw('GET', path)) as {
    metadata: { continue?: string; resourceVersion: string }
    items: ApiObject[]
  }
  const names = items.map(({ metadata: { name, labels } }) => [name, labels?.['is'] ?? 'old'])
  return { names, next: metadata.continue, version: metadata.resourceVersion }
}

async function fiveSecrets(client: ApiClient): Promise<void> {
  for (const name of ['a', 'b', 'c', 'd', 'e']) await client.create(secret(name))
}

t.test('a list by pages is the list as it was at the first one', async (t) => {
  const { client } = await world(t)
  await fiveSecrets(client)
  const first = await secretsPage(client, 'limit=2')
  t.strictSame(first.names, [
    ['a', 'old'],
    ['b', 'old'],
  ])
  await client.patch(at('c'), { metadata: { labels: { is: 'new' } } })
  await client.delete(at('d'))
  await client.create(secret('f'))
  const second = await secretsPage(client, `limit=2&continue=${first.next}`)
  t.strictSame(second.names, [
    ['c', 'old'],
    ['d', 'old'],
  ])
  t.strictSame(await secretsPage(client, `limit=2&continue=${first.next}`), {
    ...second,
    next: 'page-3',
  })
  const last = await secretsPage(client, `limit=2&continue=${second.next}`)
  t.strictSame(last, { names: [['e', 'old']], next: undefined, version: first.version })
  t.equal(second.version, first.version)
  const whole = await secretsPage(client, 'limit=0')
  t.strictSame(whole.names, [
    ['a', 'old'],
    ['b', 'old'],
    ['c', 'new'],
    ['e', 'old'],
    ['f', 'old'],
  ])
  t.equal(whole.next, undefined)
  t.ok(Number(whole.version) > Number(first.version))
  const exactly = await secretsPage(client, 'limit=5')
  t.equal(exactly.next, undefined, 'no empty page follows a full one')
})

t.test('a list is begun again once the API has forgotten its pages', async (t) => {
  const { api, client } = await world(t)
  await fiveSecrets(client)
  const { next } = await secretsPage(client, 'limit=2')
  await t.rejects(secretsPage(client, 'limit=2&continue=other'), {
    status: 400,
    reason: 'BadRequest',
    message: /invalid continue token/,
  })
  api.resources.pages.compact()
  await t.rejects(secretsPage(client, `limit=2&continue=${next}`), {
    status: 410,
    reason: 'Expired',
    message: /too old/,
  })
  const headers = { authorization: `Bearer ${api.token}` }
  const authorize = () => Promise.resolve({ headers, dispatcher: undefined })
  const kubernetes = new Kubernetes({ server: api.url, authorize }, pino({ level: 'silent' }))
  const more = Array.from({ length: 246 }, (_, index) => client.create(secret(`more-${index}`)))
  await Promise.all(more)
  const { pages } = api.resources
  const before = pages.lists
  let read = 0
  const names = await kubernetes.collect(
    { apiVersion: 'v1', plural: 'secrets', namespace: 'ns' },
    {},
    (object) => {
      if ((read += 1) === 1) pages.compact()
      return (object as ApiObject).metadata.name
    },
  )
  t.equal(new Set(names).size, 251)
  t.equal(names.length, 251, 'what the first attempt read is not counted')
  t.equal(read, 250 + 251)
  t.equal(pages.lists - before, 2)
})

t.test('labels, keys of annotations and the size of data are checked', async (t) => {
  const { client } = await world(t)
  const rejected = async (extra: object, message: RegExp) => {
    await t.rejects(client.create(secret('s', extra)), { status: 422, message })
  }
  const meta = (fields: object) => ({ metadata: { name: 's', namespace: 'ns', ...fields } })
  await rejected(meta({ labels: { a: 'x'.repeat(64) } }), /metadata\.labels: .*valid label/)
  await rejected(meta({ labels: { a: 'with space' } }), /metadata\.labels: .*valid label/)
  await rejected(meta({ labels: { 'a/b/c': 'x' } }), /metadata\.labels: .*name part/)
  await rejected(meta({ labels: { 'Upper.Case/b': 'x' } }), /metadata\.labels: .*name part/)
  await rejected(meta({ labels: { ['n'.repeat(64)]: 'x' } }), /metadata\.labels: .*name part/)
  await rejected(meta({ annotations: { 'no space': 'x' } }), /metadata\.annotations: .*name part/)
  await rejected({ data: { 'a b': 'eA==' } }, /data\[a b\]: .*config key/)
  const large = Buffer.alloc(1024 * 1024 + 1, 'x').toString('base64')
  await rejected({ data: { a: large } }, /data: Too long: may not be more than 1048576 bytes/)
  const labels = { 'example.dev/a-b_c': 'x'.repeat(63), empty: '' }
  const annotations = { 'Example.dev/A': 'any text at all' }
  await client.create({ ...secret('s'), ...meta({ labels, annotations }) })
})
