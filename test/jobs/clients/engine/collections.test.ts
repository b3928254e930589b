/** The engine's endpoints for collections, against the engine double, with and without failures. */
import t, { type Test } from 'tap'
import { ENGINE_CONNECTIONS } from '../../../../crds/contract/limits.ts'
import { EngineCollections } from '../../../../jobs/clients/engine/collections.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import type { EngineCredentials } from '../../../../jobs/clients/engine/credentials.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import {
  HTML,
  TOO_MANY,
  UNAVAILABLE,
  type Misbehaviour,
} from '../../../doubles/engine/misbehaviour.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ONE } from '../../../metacontroller/certificates.ts'

const log = jobLog({ LOG_LEVEL: 'ERROR' })
const VECTORS = { vectors: { size: 4, distance: 'Cosine' } }

interface Options {
  key?: string
  credentials?: () => Promise<EngineCredentials>
  freshCredentials?: () => Promise<EngineCredentials>
  tls?: { cert: string; key: string }
}

async function stage(t: Test, { key, credentials, freshCredentials, tls }: Options = {}) {
  const cluster = new EngineCluster({ staleMs: 0 })
  const service = key === undefined ? {} : { api_key: key }
  const node = await startEngineNode({
    ordinal: 0,
    cluster,
    config: { service },
    ...(tls && { tls }),
  })
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    await node.close()
  })
  const url = `${tls ? 'https' : 'http'}://127.0.0.1:${node.port}`
  const engine = new Engine({
    transport: urlTransport(url, connections),
    log,
    credentials: credentials ?? (async () => ({ key })),
    ...(freshCredentials && { freshCredentials }),
  })
  return { cluster, node, url, engine: new EngineCollections(engine) }
}

t.test('a collection is created, read, changed and deleted', async (t) => {
  const { engine, cluster } = await stage(t)
  const name = 'a %ü'
  t.equal(await engine.collectionInfo(name), undefined)
  await engine.createCollection(name, VECTORS)
  matchWhole(t, await engine.collectionInfo(name), {
    status: 'green',
    points_count: 0,
    config: { params: { vectors: { size: 4 } }, quantization_config: null },
    payload_schema: {},
  })
  await engine.patchCollection(name, { params: { read_fan_out_factor: 2 } })
  t.match(await engine.collectionInfo(name), { config: { params: { read_fan_out_factor: 2 } } })
  matchWhole(t, await engine.collectionCluster(name), { local_shards: [{ state: 'Active' }] })
  await t.rejects(engine.createCollection(name, VECTORS), { code: 'EngineError', status: 409 })
  await engine.deleteCollection(name)
  t.equal(cluster.collections.size, 0)
  await engine.deleteCollection(name)
  t.pass('one that is gone is fine')
})

t.test('a read or a deletion that the engine rejects or does not answer is an error', async (t) => {
  const { engine, node, cluster } = await stage(t)
  await engine.createCollection('docs', VECTORS)
  const calls: (() => Promise<unknown>)[] = [
    () => engine.deleteCollection('docs'),
    () => engine.deleteIndex('docs', 'a'),
    () => engine.collectionInfo('docs'),
  ]
  for (const call of calls) {
    node.misbehave(() => UNAVAILABLE)
    await t.rejects(call(), { code: 'EngineError', status: 503 })
    node.misbehave(() => ({ cut: 'before' }))
    await t.rejects(call(), { code: 'EngineError', message: /got no answer/ })
  }
  t.ok(cluster.collections.has('docs'))
})

t.test("a rejected value has the engine's error message", async (t) => {
  const { engine, url } = await stage(t)
  const vectors = { size: 65_537, distance: 'Dot' }
  await t.rejects(engine.createCollection('docs', { vectors }), {
    status: 422,
    message: `PUT /collections/docs?timeout=60 on ${url} answered 422: Validation error in JSON body: [vectors.size: value 65537 invalid, must be from 1 to 65536]`,
  })
})

t.test('indexes are created and deleted by path, aliases in one call', async (t) => {
  const { engine, cluster } = await stage(t)
  await engine.createCollection('docs', VECTORS)
  await engine.putIndex('docs', { field_name: '"x y".a', field_schema: 'keyword' })
  t.strictSame(Object.keys((await engine.collectionInfo('docs'))?.payload_schema ?? {}), [
    '"x y".a',
  ])
  await engine.deleteIndex('docs', '"x y".a')
  await engine.deleteIndex('docs', '"x y".a')
  await engine.deleteIndex('none', 'a')
  t.strictSame((await engine.collectionInfo('docs'))?.payload_schema, {})
  await t.rejects(engine.putIndex('docs', { field_name: 'a b', field_schema: 'keyword' }), {
    status: 400,
    message: /Invalid json path: 'a b'/,
  })

  await engine.updateAliases([
    { create_alias: { collection_name: 'docs', alias_name: 'a' } },
    { create_alias: { collection_name: 'docs', alias_name: 'b' } },
    { delete_alias: { alias_name: 'a' } },
  ])
  t.strictSame(await engine.aliases(), [{ alias_name: 'b', collection_name: 'docs' }])
  t.strictSame([...cluster.aliases], [['b', 'docs']])
})

t.test('readiness and version are read from the node', async (t) => {
  const { engine, node } = await stage(t)
  t.equal(await engine.notReadyReason(), undefined)
  t.equal(await engine.version(), '1.18.3')
  node.setReady(false)
  t.match(await engine.notReadyReason(), /answered 503: some shards are not ready$/)
})

const BAD_DAYS: [string, Misbehaviour, object][] = [
  ['429', TOO_MANY, { status: 429, message: /answered 429: Rate limiting exceeded/ }],
  ['503', UNAVAILABLE, { status: 503, message: /answered 503: Service unavailable/ }],
  ['a page', HTML, { status: 502, message: /answered 502: 502 Bad Gateway$/ }],
  [
    '401',
    { status: 401, body: 'Invalid API key or JWT' },
    { status: 401, message: /: Invalid API/ },
  ],
  [
    '403',
    { status: 403, body: 'InvalidSignature' },
    { status: 403, message: /: InvalidSignature$/ },
  ],
  ['a page with 200', { status: 200, body: '<html>' }, { message: /without a valid JSON body/ }],
  ['half JSON', { status: 200, body: '{"result":tr' }, { message: /without a valid JSON body/ }],
  ['nothing', { status: 404, body: '' }, { status: 404, message: /no such route/ }],
  ['a cut connection', { cut: 'before' }, { status: undefined, message: /got no answer/ }],
  ['half a body', { cut: 'within' }, { status: undefined, message: /got no answer/ }],
  ['a lost answer', { cut: 'after' }, { status: undefined, message: /got no answer/ }],
]
for (const [what, misbehaviour, error] of BAD_DAYS) {
  t.test(`an engine that answers with ${what} is an EngineError that says so`, async (t) => {
    const { engine, node } = await stage(t)
    node.misbehave(() => misbehaviour)
    await t.rejects(engine.createCollection('docs', VECTORS), { code: 'EngineError', ...error })
    node.misbehave()
    t.strictSame(await engine.aliases(), [], 'a later call succeeds')
  })
}

t.test('the effect of a call whose response is lost is visible to the next read', async (t) => {
  const { engine, node } = await stage(t)
  node.misbehave(({ method }) => (method === 'PUT' ? { cut: 'after' } : undefined))
  await t.rejects(engine.createCollection('docs', VECTORS), {
    code: 'EngineError',
    message: /got no answer/,
  })
  t.ok(await engine.collectionInfo('docs'))
})

t.test('a call to a slow engine ends when its pass is aborted', async (t) => {
  const { engine, node } = await stage(t)
  const asked = Promise.withResolvers<undefined>()
  node.misbehave(() => {
    asked.resolve(undefined)
    return { delayMs: 600_000 }
  })
  const abort = new AbortController()
  const call = engine.aliases(abort.signal)
  await asked.promise
  abort.abort(new Error('ended'))
  await t.rejects(call, { message: /^ended$/ })
})

t.test('a thousand concurrent calls share ten connections', async (t) => {
  const { engine, node } = await stage(t)
  await engine.createCollection('docs', VECTORS)
  await Promise.all(Array.from({ length: 1000 }, () => engine.collectionInfo('docs')))
  t.equal(node.connections().ever, ENGINE_CONNECTIONS)
})

t.test('a rejected key is read again once', async (t) => {
  const reads: string[] = []
  const credentials = async () => ({ key: 'old' })
  const freshCredentials = async () => {
    reads.push('fresh')
    return { key: 'new' }
  }
  const rotated = await stage(t, { key: 'new', credentials, freshCredentials })
  t.strictSame(await rotated.engine.aliases(), [])
  t.strictSame(reads, ['fresh'])

  const wrong = await stage(t, { key: 'another', credentials, freshCredentials })
  await t.rejects(wrong.engine.aliases(), { code: 'EngineError', status: 401 })
  t.strictSame(reads, ['fresh', 'fresh'])

  const same = await stage(t, { key: 'another', credentials, freshCredentials: credentials })
  await t.rejects(same.engine.aliases(), { code: 'EngineError', status: 401 })
})

t.test('missing access does not cause another read of the key', async (t) => {
  const { engine, node } = await stage(t, {
    freshCredentials: () => Promise.reject(new Error('not expected')),
  })
  const body = '{"status":{"error":"Forbidden: Global access is required"},"time":0}'
  node.misbehave(() => ({ status: 403, body }))
  await t.rejects(engine.aliases(), { status: 403, message: /Global access is required$/ })
})

t.test('TLS is verified with the configured authority, or with those of the system', async (t) => {
  const tls = ONE
  const trusting = await stage(t, { tls, credentials: async () => ({ ca: tls.cert }) })
  t.equal(await trusting.engine.version(), '1.18.3')
  const wary = await stage(t, { tls })
  await t.rejects(wary.engine.version(), { message: /got no answer: .*certificate/ })
})

t.test('connection pools of authorities that were replaced long ago are closed', async (t) => {
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const first = connections.pool('pem 0')
  const reused = connections.pool('pem 1')
  for (let index = 2; index < 256; index += 1) connections.pool(`pem ${index}`)
  t.equal(connections.pool('pem 0'), first, 'the reused pool is open')
  connections.pool('pem 256')
  t.equal(connections.pool('pem 0'), first)
  t.not(connections.pool('pem 1'), reused)
})
