/** Pages and batches of points, byte by byte, against any server. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { EngineError } from '../../../../crds/contract/errors.ts'
import { EnginePoints, pageIds } from '../../../../jobs/clients/engine/points.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { jobLog } from '../../../../jobs/log.ts'

interface Answer {
  status?: number
  body: string
  headers?: Record<string, string>
}

/** An engine that gives one answer to every request, and records the requests. */
async function answering(t: Test, { status = 200, body, headers = {} }: Answer) {
  const asked: { call: string; body: string }[] = []
  const server = createServer((request, response) => {
    void buffer(request).then((bytes) => {
      asked.push({ call: `${request.method} ${request.url}`, body: bytes.toString() })
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      response.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const engine = new Engine({
    transport: urlTransport(`http://127.0.0.1:${port}`, connections),
    credentials: async () => ({ key: 'k' }),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  return { points: new EnginePoints(engine), asked }
}

const POINTS =
  '[{"id":18446744073709551615,"payload":{"x":[1],"next_page_offset":3},"vector":[1.0]},{"id":"6f1c5a3e-0000-4000-8000-000000000001","payload":{"t":"],\\"next_page_offset\\":7},\\"status\\""},"vector":{}}]'

const PAGES: [string, string][] = [
  [
    'as the engine writes it',
    `{"result":{"points":${POINTS},"next_page_offset":null},"status":"ok","time":0.001}`,
  ],
  [
    'with what it used',
    `{"result":{"points":${POINTS},"next_page_offset":null},"status":"ok","time":1e-6,"usage":{"hardware":{"cpu":1},"inference":null}}`,
  ],
  [
    'in another order',
    `{"time":0.1,"status":"ok","result":{"next_page_offset":null,"points":${POINTS}}}`,
  ],
  [
    'with spaces',
    `{ "result" : { "points" : ${POINTS} , "next_page_offset" : null } , "status" : "ok" }`,
  ],
]
for (const [how, body] of PAGES) {
  t.test(`a page ${how} is cut out byte by byte`, async (t) => {
    const { points } = await answering(t, { body })
    const page = await points.scroll('docs', { limit: 10 })
    t.equal(page.points.toString(), POINTS)
    t.equal(page.count, 2)
    t.equal(page.next, undefined)
  })
}

for (const next of ['18446744073709551615', '"6f1c5a3e-0000-4000-8000-000000000001"']) {
  t.test(`the offset ${next} of the next page is sent as it came`, async (t) => {
    const body = `{"result":{"points":${POINTS},"next_page_offset":${next}},"status":"ok","time":0.1}`
    const { points, asked } = await answering(t, { body })
    const page = await points.scroll('a b', { limit: 2 })
    t.equal(page.next, next)
    await points.scroll('a b', { limit: 2, offset: page.next, shardKey: 7 })
    t.match(asked[1]?.call, 'POST /collections/a%20b/points/scroll')
    t.equal(
      asked[1]?.body,
      `{"limit":2,"with_payload":true,"with_vector":true,"shard_key":7,"offset":${next}}`,
    )
  })
}

t.test('points are written in pieces, with their shard key behind them', async (t) => {
  const body = '{"result":{"operation_id":1,"status":"completed"},"status":"ok","time":0.1}'
  const { points, asked } = await answering(t, { body })
  await points.upsert('docs', [Buffer.from(POINTS)])
  await points.upsert('docs', [Buffer.from('['), Buffer.from('{"id":1}'), Buffer.from(']')], {
    shardKey: 'k"',
    wait: false,
  })
  t.strictSame(asked, [
    { call: 'PUT /collections/docs/points?wait=true', body: `{"points":${POINTS}}` },
    {
      call: 'PUT /collections/docs/points?wait=false',
      body: '{"points":[{"id":1}],"shard_key":"k\\""}',
    },
  ])
})

t.test('points are retrieved by ids of any size, byte by byte', async (t) => {
  const { points, asked } = await answering(t, { body: `{"result":${POINTS},"status":"ok"}` })
  const id = '18446744073709551615'
  const found = await points.retrieve('docs', [id, '"u"'])
  t.strictSame([...found.keys()], [id, '"6f1c5a3e-0000-4000-8000-000000000001"'])
  t.match(String(found.get(id)), /"vector":\[1\.0\]/)
  t.match(asked[0]?.body, `{"ids":[${id},"u"],`)
})

t.test('a sample is a list of ids, byte by byte', async (t) => {
  const body = '{"result":{"points":[{"id":18446744073709551615,"version":1,"score":1.0}]}}'
  const { points } = await answering(t, { body })
  t.strictSame(await points.sampleIds('docs', 5), ['18446744073709551615'])
})

const BAD: [string, string][] = [
  ['a page that breaks off', `{"result":{"points":[{"id":1}`],
  ['no page at all', '{"result":{"count":1}}'],
  ['HTML', '<html>'],
]
for (const [what, body] of BAD) {
  t.test(`${what} is an EngineError that names the call`, async (t) => {
    const { points } = await answering(t, { body })
    await t.rejects(points.scroll('docs', { limit: 1 }), {
      code: 'EngineError',
      message: /POST \/collections\/docs\/points\/scroll on http.* did not answer valid JSON/,
    })
  })
}

t.test('an error has the status, the message and Retry-After', async (t) => {
  const { points } = await answering(t, {
    status: 429,
    body: '{"status":{"error":"slow down"},"time":0}',
    headers: { 'retry-after': '7' },
  })
  const error = await points.scroll('docs', { limit: 1 }).catch((cause: unknown) => cause)
  t.ok(error instanceof EngineError)
  t.match(error, { status: 429, retryAfterSeconds: 7, message: /answered 429: slow down/ })
})

t.test('the ids of a page are read as JSON, from one chunk or from two', async (t) => {
  const chunks = ['[{"id":7,"payload":{"id":1}},{"id":"5c56c793-69f3-4fbf-87e6-c4bf54c28c26"}', ']']
  const idsOf = (...points: string[]) =>
    pageIds({ points: points.map((text) => Buffer.from(text)), bytes: 0, count: 2 })
  const ids = ['7', '"5c56c793-69f3-4fbf-87e6-c4bf54c28c26"']
  t.strictSame(idsOf(chunks.join('')), ids)
  t.strictSame(idsOf(...chunks), ids)
  t.strictSame(idsOf('[]'), [])
})
