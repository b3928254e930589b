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
import { ask } from '../../restore/collection-state.ts'
import { engineNodes } from './engine-stage.ts'

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
  t.test(`the offset ${next} of the next page is sent unchanged`, async (t) => {
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

const NEXT = `{"result":{"points":${POINTS},"next_page_offset":9},"status":"ok","time":0.1}`

for (const [how, body] of [
  ['as the engine writes it', NEXT],
  ['in another order', `{"status":"ok","result":{"next_page_offset":9,"points":${POINTS}}}`],
  ['with a long end', `${NEXT.slice(0, -1)},"usage":{"x":"${'x'.repeat(5000)}"}}`],
] as const) {
  t.test(`a page ${how} says where the next one begins`, async (t) => {
    const { points } = await answering(t, { body })
    const page = await points.scroll('docs', { limit: 2 })
    t.equal(page.points.toString(), POINTS)
    t.strictSame([page.count, page.bytes, page.next], [2, POINTS.length, '9'])
  })
}

t.test(
  'a page that is not the last is not scanned, where the engine writes it as usual',
  async (t) => {
    const usual =
      '{"result":{"points":[NOT SCANNED],"next_page_offset":9},"status":"ok","time":0.1}'
    const { points } = await answering(t, { body: usual })
    const page = await points.scroll('docs', { limit: 7 })
    t.strictSame([page.points.toString(), page.count, page.next], ['[NOT SCANNED]', 7, '9'])
    for (const body of [` ${usual}`, usual.replace('9}', '"9"}'), `${usual.slice(0, -1)},"x":1}`]) {
      const other = await answering(t, { body })
      await t.rejects(other.points.scroll('docs', { limit: 7 }), { code: 'EngineError' }, body)
    }
  },
)

t.test(
  'a range ends before its last id, and continues while the next page is before',
  async (t) => {
    const items = ['{"id":5,"payload":{}}', '{"id":7,"payload":{}}']
    const page = (next: string) =>
      `{"result":{"points":[${items.join(',')}],"next_page_offset":${next}},"status":"ok","time":0.1}`
    for (const [next, endId, expected] of [
      ['9', '10', [2, '9']],
      ['9', '9', [2, undefined]],
      ['9', '7', [1, undefined]],
      ['9', '"6f1c5a3e-0000-4000-8000-000000000001"', [2, '9']],
      ['null', '6', [1, undefined]],
      ['null', '5', [0, undefined]],
      ['null', '10', [2, undefined]],
    ] as const) {
      const { points } = await answering(t, { body: page(next) })
      const found = await points.scroll('docs', { limit: 2, endId })
      t.strictSame([found.count, found.next], expected, `${next} until ${endId}`)
      t.equal(Buffer.concat(found.points).toString(), `[${items.slice(0, found.count).join(',')}]`)
    }
  },
)

t.test('ids alone, samples and single points are asked for as they are named', async (t) => {
  const body = `{"result":{"points":[],"next_page_offset":null},"status":"ok","time":0.1}`
  const { points, asked } = await answering(t, { body })
  await points.scroll('docs', { limit: 1, idsOnly: true })
  await points.sampleIds('docs', 3)
  await points.sampleIds('docs', 3, 'k')
  const single = await answering(t, { body: '{"result":[]}' })
  t.strictSame(
    await single.points.retrieve('docs', ['1'], { idsOnly: true, shardKey: 7 }),
    new Map(),
  )
  const without = '"with_payload":false'
  const sample = `{"query":{"sample":"random"},"limit":3,${without}`
  t.strictSame(
    [...asked, ...single.asked],
    [
      {
        call: 'POST /collections/docs/points/scroll',
        body: `{"limit":1,${without},"with_vector":false}`,
      },
      { call: 'POST /collections/docs/points/query', body: `${sample}}` },
      { call: 'POST /collections/docs/points/query', body: `${sample},"shard_key":"k"}` },
      {
        call: 'POST /collections/docs/points',
        body: `{"ids":[1],${without},"with_vector":false,"shard_key":7}`,
      },
    ],
  )
})

t.test('a page or points above their byte limit are not read', async (t) => {
  const { points } = await answering(t, { body: `{"result":${POINTS}}` })
  const tooLarge = { code: 'EngineError', status: 413, message: /answered more than 50 bytes$/ }
  await t.rejects(points.scroll('docs', { limit: 2, maxBytes: 50 }), tooLarge)
  await t.rejects(points.retrieve('docs', ['1'], { maxBytes: 50 }), tooLarge)
})

for (const [what, body] of [
  ['no result', '{"status":"ok"}'],
  ['no points', '{"result":{}}'],
  ['points without ids', '{"result":{"points":[{"payload":{}}]}}'],
  ['no JSON', 'points'],
] as const) {
  t.test(`an answer with ${what} is an EngineError that names the call`, async (t) => {
    const { points } = await answering(t, { body })
    const message = (path: string) =>
      new RegExp(`POST /collections/docs/points${path} on http.* did not answer valid JSON`)
    await t.rejects(points.sampleIds('docs', 1), {
      code: 'EngineError',
      message: message('/query'),
    })
    const wrong = body.replace('{"points":[{"payload":{}}]}', '[{"payload":{}}]')
    const other = await answering(t, { body: wrong })
    await t.rejects(other.points.retrieve('docs', ['1']), {
      code: 'EngineError',
      message: message(''),
    })
  })
}

t.test('shard keys are listed with their numbers of shards, wherever these are', async (t) => {
  const { cluster, first } = await engineNodes(t, 2)
  cluster.createCollection('docs', 2)
  const points = new EnginePoints(first.engine)
  t.strictSame(await points.shardKeys('docs'), [])
  await ask(first.url, 'PUT', '/collections/keyed', { sharding_method: 'custom', vectors: {} })
  for (const [shard_key, shards_number] of [
    ['a', 3],
    [7, 1],
  ] as const) {
    const body = { shard_key, shards_number, replication_factor: 2 }
    await ask(first.url, 'PUT', '/collections/keyed/shards', body)
  }
  t.strictSame(await points.shardKeys('keyed'), [
    { key: 'a', shards: 3 },
    { key: 7, shards: 1 },
  ])
})
