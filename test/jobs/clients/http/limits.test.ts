/** Responses that are too long, endless, or slow to parse, for each client. */
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Type } from '@sinclair/typebox'
import t, { type Test } from 'tap'
import { AnyObject } from '../../../../crds/kubernetes.ts'
import { ResponseTooLarge, ByteBudget } from '../../../../jobs/clients/http/body.ts'
import {
  EngineConnections,
  urlTransport,
  type EngineConnectionOptions,
} from '../../../../jobs/clients/engine/transport.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { Kubernetes, inClusterAccess } from '../../../../jobs/clients/kubernetes/client.ts'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { sendRequest } from '../../../../jobs/clients/http/request.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { instantClock } from '../../job-world.ts'

const log = jobLog({ LOG_LEVEL: 'CRITICAL' }, { write: () => undefined })
const MIB = 1024 * 1024

async function served(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Writes until the client stops reading. */
function endless(response: ServerResponse, text: string): Promise<unknown> {
  const chunk = Buffer.from(text.repeat(Math.ceil(65_536 / text.length)))
  const write = () => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', write)
  write()
  return once(response, 'close')
}

function engineAt(t: Test, url: string, limits: EngineConnectionOptions): Engine {
  const connections = new EngineConnections(limits)
  t.teardown(() => connections.close())
  return new Engine({
    transport: urlTransport(url, connections),
    log,
    credentials: async () => ({}),
  })
}

function bucketAt(t: Test, endpoint: string): Bucket {
  const bucket = new Bucket({
    target: { bucket: 'b', region: 'us-east-1', endpoint, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'a', secretAccessKey: 's' }),
    time: instantClock(),
    log,
  })
  t.teardown(() => bucket.close())
  return bucket
}

t.test('an endless response ends at its limit and closes the connection', async (t) => {
  const closed = Promise.withResolvers<unknown>()
  const url = await served(t, (_, response) => {
    endless(response, 'x').then(closed.resolve, closed.reject)
  })
  const call = { method: 'GET' as const, headers: {}, timeoutMs: 60_000, maxBytes: MIB }
  await t.rejects(sendRequest(url, call), new ResponseTooLarge(MIB))
  await closed.promise
})

t.test('long responses share a budget, and short ones do not use it', async (t) => {
  const url = await served(t, ({ url: path = '' }, response) => {
    response.end('x'.repeat(path === '/long' ? MIB : 1000))
  })
  const budget = new ByteBudget(MIB)
  const call = { method: 'GET' as const, headers: {}, timeoutMs: 60_000, budget }
  t.ok(budget.acquire(MIB), 'the budget is used up')
  await t.rejects(sendRequest(`${url}/long`, call), { message: 'too many long answers at once' })
  t.equal((await sendRequest(`${url}/short`, call)).text.length, 1000)
  budget.release(MIB)
  t.equal((await sendRequest(`${url}/long`, call)).text.length, MIB)
  t.ok(budget.acquire(MIB), 'released')
})

t.test('the error of an endless engine response names the limit', async (t) => {
  const url = await served(t, (_, response) => void endless(response, '[],'))
  const engine = engineAt(t, url, { maxBytes: MIB })
  await t.rejects(engine.collections(), { message: /the answer has more than 1048576 bytes$/ })
  await t.rejects(engine.bytes('GET', '/collections', { maxBytes: MIB }), {
    code: 'EngineError',
    status: 413,
  })
})

t.test('only the beginning of an endless error on a stream is read', async (t) => {
  const url = await served(t, (_, response) => {
    response.writeHead(500)
    void endless(response, 'no ')
  })
  const engine = engineAt(t, url, {})
  await t.rejects(engine.open('/snapshots/x', 60_000), { status: 500, message: /: no no no/ })
})

t.test('an answer that breaks off, or is no file, is an error of the engine', async (t) => {
  const url = await served(t, ({ url: path }, response) => {
    if (path === '/moved') response.writeHead(302, { location: '/' }).end('moved')
    else {
      response.writeHead(path === '/error' ? 500 : 200, { 'content-length': '100' })
      response.write('half', () => response.destroy())
    }
  })
  const engine = engineAt(t, url, {})
  await t.rejects(engine.open('/error', 60_000), {
    code: 'EngineError',
    message: `GET /error on ${url} broke off: other side closed`,
  })
  await t.rejects(engine.bytes('GET', '/bytes', {}), {
    code: 'EngineError',
    message: `GET /bytes on ${url} broke off: other side closed`,
  })
  await t.rejects(engine.open('/moved', 60_000), { code: 'EngineError', status: 302 })
})

t.test(
  'an HTML error becomes text without tags, truncated to the length of a status',
  async (t) => {
    const page = `<html><head>${'<'.repeat(200_000)}`
    const url = await served(t, (_, response) => response.writeHead(502).end(page))
    const engine = engineAt(t, url, {})
    const error = await engine.collections().catch((cause: unknown) => cause as Error)
    t.match(error, { status: 502 })
    t.ok((error as Error).message.length < 2000)

    const endlessUrl = await served(t, (_, response) => {
      response.writeHead(502).end('<html><h1>502</h1> <p class="a">Bad  Gateway</p></html>')
    })
    await t.rejects(engineAt(t, endlessUrl, {}).collections(), {
      message: /answered 502: 502 Bad Gateway$/,
    })
  },
)

t.test('an endless response of a store ends at its limit and is not retried', async (t) => {
  let calls = 0
  const url = await served(t, (_, response) => {
    calls += 1
    void endless(response, '<a/>')
  })
  const bucket = bucketAt(t, url)
  const tooLarge = { code: 'StorageError', reason: 'ResponseTooLarge' }
  await t.rejects(bucket.getJson('owner.json', undefined, MIB), tooLarge)
  await t.rejects(bucket.list('p/'), tooLarge)
  await t.rejects(bucket.openUploads('p/'), tooLarge)
  await t.rejects(bucket.delete(['p/a']), tooLarge)
  t.equal(calls, 4)
})

t.test('an endless list of uploads ends after ten pages', async (t) => {
  let pages = 0
  const url = await served(t, (_, response) => {
    pages += 1
    const upload = `<Upload><Key>p/${pages}</Key><UploadId>u</UploadId></Upload>`
    const next = `<IsTruncated>true</IsTruncated><NextKeyMarker>p/${pages}</NextKeyMarker>`
    response.setHeader('content-type', 'application/xml')
    response.end(`<ListMultipartUploadsResult>${next}${upload}</ListMultipartUploadsResult>`)
  })
  await t.rejects(bucketAt(t, url).openUploads('p/'), {
    code: 'StorageError',
    message: 'LIST UPLOADS s3://b/p/ has more than 10 pages: abort the unfinished uploads there',
  })
  t.equal(pages, 10)
})

t.test('a list is read by pages, with fewer objects when they are large', async (t) => {
  const all = Array.from({ length: 600 }, (_, at) => ({ metadata: { name: `s-${at}` } }))
  const limits: number[] = []
  const url = await served(t, ({ url: path = '' }, response) => {
    const query = new URL(path, 'http://api').searchParams
    const limit = Number(query.get('limit'))
    const from = Number(query.get('continue') ?? 0)
    limits.push(limit)
    // 40 kB an object: of 250 it is more than a page may have.
    const items = all
      .slice(from, from + limit)
      .map((item) => ({ ...item, text: 'x'.repeat(40_000) }))
    const metadata = from + limit < all.length ? { continue: String(from + limit) } : {}
    response.end(JSON.stringify({ kind: 'SecretList', metadata, items }))
  })
  const kubernetes = new Kubernetes(inClusterAccess({ VEC_API_SERVER: url }), log)
  const secrets = { apiVersion: 'v1', plural: 'secrets' }
  const names = await kubernetes.collect(secrets, {}, (item) => (item as AnyObject).metadata.name)
  t.strictSame(
    names,
    all.map(({ metadata }) => metadata.name),
  )
  t.strictSame(limits.slice(0, 3), [250, 63, 63])
})

t.test('a list whose continue token expired is restarted a few times', async (t) => {
  let expired = 1
  let calls = 0
  const url = await served(t, ({ url: path = '' }, response) => {
    calls += 1
    const isSecond = path.includes('continue=')
    if (isSecond && expired > 0) {
      expired -= 1
      response.writeHead(410).end(JSON.stringify({ message: 'too old' }))
      return
    }
    const metadata = isSecond ? {} : { continue: 'x' }
    const items = [{ metadata: { name: isSecond ? 'b' : 'a' } }]
    response.end(JSON.stringify({ kind: 'SecretList', metadata, items }))
  })
  const kubernetes = new Kubernetes(inClusterAccess({ VEC_API_SERVER: url }), log)
  const secrets = { apiVersion: 'v1', plural: 'secrets' }
  const found = await kubernetes.list(secrets, AnyObject)
  t.strictSame(
    found.map(({ metadata }) => metadata.name),
    ['a', 'b'],
  )
  t.equal(calls, 4)
  expired = 100
  await t.rejects(kubernetes.list(secrets, AnyObject), { code: 'KubernetesError', status: 410 })
})

t.test('reads of one API object are limited too', async (t) => {
  const url = await served(t, (_, response) => void endless(response, '[],'))
  const kubernetes = new Kubernetes(inClusterAccess({ VEC_API_SERVER: url }), log)
  const secrets = { apiVersion: 'v1', plural: 'secrets', namespace: 'ns' }
  await t.rejects(kubernetes.get(secrets, 'a', Type.Object({})), {
    code: 'KubernetesError',
    message: /the answer has more than \d+ bytes$/,
  })
})
