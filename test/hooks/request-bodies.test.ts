/** What large bodies take in memory is limited, for one request and for all of them together. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fastify, { type FastifyError } from 'fastify'
import t, { type Test } from 'tap'
import { MAX_REQUEST_BYTES } from '../../crds/contract/limits.ts'
import { limitBodies, MAX_REQUEST_VALUES, scanRequest } from '../../hooks/request-bodies.ts'

/** Of two bodies of this size, only one has a place. */
const MOST = Math.ceil(MAX_REQUEST_BYTES * 0.6)
const PAUSE_MS = 50
/** Of a body that waits for no other. */
const SMALL_BYTES = 64 * 1024
const SMALL_VALUES = 5000
const DISCONNECTED = 'the client has closed the connection'

/** A route that answers when it may; the bodies that have reached it, by their `name`. */
async function serve(t: Test, maxWaitMs?: number) {
  const server = fastify({ bodyLimit: MAX_REQUEST_BYTES, forceCloseConnections: true })
  const preParsing = limitBodies(server, maxWaitMs)
  const requests: IncomingMessage[] = []
  server.addHook('onRequest', async ({ raw, headers }, reply) => {
    requests.push(raw)
    if (headers['x-gone'] === undefined) return
    raw.socket.destroy()
    await once(reply.raw, 'close')
  })
  const errors: string[] = []
  server.setErrorHandler(({ message, statusCode = 500 }: FastifyError, _, reply) => {
    errors.push(message)
    return reply.code(statusCode).send({ message })
  })
  const arrived: string[] = []
  const answers = new Map<string, () => void>()
  server.get('/', async () => 'small')
  server.post('/', { preParsing }, async ({ body }) => {
    const { name, held } = body as { name: string; held?: boolean }
    arrived.push(name)
    if (held === true) await new Promise<void>((resolve) => answers.set(name, resolve))
    return { name }
  })
  server.post('/unlimited', async ({ body }) => Object.keys(body as object))
  server.post('/own-keys', { preParsing }, async ({ body }) => {
    const { parent } = body as { parent: { constructor: object } }
    return [
      Object.keys(parent),
      parent.constructor,
      Object.getPrototypeOf(parent) === Object.prototype,
    ]
  })
  await server.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => server.close())
  const { port } = server.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/`
  const headers = { 'content-type': 'application/json' }
  const post = async (name: string, bytes: number, held = false) => {
    const body = JSON.stringify({ name, held, padding: 'x'.repeat(bytes) })
    const response = await fetch(url, { method: 'POST', headers, body })
    return [response.status, await response.json()]
  }
  const answer = async (name: string) => {
    while (!answers.has(name)) await sleep(PAUSE_MS)
    answers.get(name)?.()
  }
  const until = async (name: string) => {
    while (!arrived.includes(name)) await sleep(PAUSE_MS)
  }
  /** Resolves once this many requests have sent their headers: they wait in that order. */
  const untilSent = async (count: number) => {
    while (requests.length < count) await sleep(PAUSE_MS)
  }
  /** Resolves once the body of the last request was read: it waits, or was parsed. */
  const untilRead = async () => {
    while (requests.at(-1)?.readableEnded !== true) await sleep(PAUSE_MS)
  }
  /** A body with this many values. */
  const postValues = async (name: string, values: number, held = false) => {
    const bodyOf = (length: number) =>
      JSON.stringify({ name, held, padding: Array.from({ length }, () => 1) })
    // An empty list has no comma.
    const rest = scanRequest(bodyOf(1)).values - 1
    const response = await fetch(url, { method: 'POST', headers, body: bodyOf(values - rest) })
    return [response.status, await response.json()]
  }
  /** A body whose size is exactly this many bytes. */
  const postBytes = (name: string, bytes: number) =>
    post(name, bytes - JSON.stringify({ name, held: false, padding: '' }).length)
  const methods = { post, postValues, postBytes, answer, until, untilSent, untilRead }
  return { ...methods, url, port, headers, arrived, errors }
}

t.test('a large body waits until those before it were answered; small ones do not', async (t) => {
  const { post, answer, until, untilSent, arrived } = await serve(t)
  const first = post('first', MOST, true)
  await until('first')
  const second = post('second', MOST)
  await untilSent(2)
  // It would have a place, and does not overtake the one before it.
  const third = post('third', MAX_REQUEST_BYTES * 0.3)
  await untilSent(3)
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  t.strictSame(arrived, ['first', 'small'])
  await answer('first')
  for (const [name, answered] of Object.entries({ first, second, third }))
    t.strictSame(await answered, [200, { name }])
  t.strictSame(arrived.toSorted(), ['first', 'second', 'small', 'third'])
})

t.test('a client that disconnects releases its place, whether it waits or not', async (t) => {
  const { port, headers, post, until, untilSent, arrived } = await serve(t)
  const start = (name: string) => {
    const body = JSON.stringify({ name, held: true, padding: 'x'.repeat(MOST) })
    const options = { port, method: 'POST', headers: { ...headers, 'content-length': body.length } }
    return request(options)
      .on('error', () => undefined)
      .end(body)
  }
  const held = start('held')
  await until('held')
  const waiting = start('waiting')
  await untilSent(2)
  const last = post('last', MOST)
  await untilSent(3)
  waiting.destroy()
  t.strictSame(arrived, ['held'])
  held.destroy()
  t.strictSame(await last, [200, { name: 'last' }])
  t.strictSame(await post('again', MOST), [200, { name: 'again' }])
})

t.test('all values together have a limit, and those of one request', async (t) => {
  const { post, postValues, answer, until, arrived } = await serve(t)
  const first = postValues('first', MAX_REQUEST_VALUES * 0.6, true)
  await until('first')
  const second = postValues('second', MAX_REQUEST_VALUES * 0.6)
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  const message = 'the request has more than 800000 values'
  t.strictSame(await postValues('too many', MAX_REQUEST_VALUES + 1), [413, { message }])
  t.strictSame(arrived, ['first', 'small'])
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  t.strictSame(await second, [200, { name: 'second' }])
  t.strictSame(await postValues('most', MAX_REQUEST_VALUES), [200, { name: 'most' }])
})

t.test('a small body with many values waits for those of others, up to a bound', async (t) => {
  const { postValues, answer, until, arrived } = await serve(t)
  const first = postValues('first', MAX_REQUEST_VALUES, true)
  await until('first')
  const second = postValues('second', SMALL_VALUES + 1)
  t.strictSame(await postValues('few', SMALL_VALUES), [200, { name: 'few' }])
  // Sent before it, so it has arrived as well.
  t.strictSame(await postValues('few again', SMALL_VALUES), [200, { name: 'few again' }])
  t.strictSame(arrived, ['first', 'few', 'few again'])
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  t.strictSame(await second, [200, { name: 'second' }])
})

t.test('a body waits for others only above 64 KiB', async (t) => {
  const { post, postBytes, answer, until, untilSent, arrived } = await serve(t)
  const first = postBytes('first', SMALL_BYTES)
  t.strictSame(await first, [200, { name: 'first' }])
  const held = post('held', MAX_REQUEST_BYTES - 1000, true)
  await until('held')
  const above = postBytes('above', SMALL_BYTES + 1)
  await untilSent(3)
  t.strictSame(await postBytes('small', SMALL_BYTES), [200, { name: 'small' }])
  t.strictSame(arrived, ['first', 'held', 'small'])
  await answer('held')
  t.strictSame(await held, [200, { name: 'held' }])
  t.strictSame(await above, [200, { name: 'above' }])
})

t.test('a request whose client has disconnected before takes nothing', async (t) => {
  const { url, headers, post, errors } = await serve(t)
  const body = JSON.stringify({ name: 'gone', padding: 'x'.repeat(MOST) })
  const gone = { ...headers, 'x-gone': 'yes' }
  await t.rejects(fetch(url, { method: 'POST', headers: gone, body }))
  while (errors.length === 0) await sleep(PAUSE_MS)
  t.strictSame(errors, [DISCONNECTED])
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
})

t.test('names of JavaScript are keys as any other, in a small body and a large one', async (t) => {
  const { url, headers } = await serve(t)
  const parent = '{"__proto__":{"a":1},"constructor":{"prototype":{"b":2}}}'
  for (const bytes of [0, MOST]) {
    const body = `{"parent":${parent},"padding":"${'x'.repeat(bytes)}"}`
    const response = await fetch(`${url}own-keys`, { method: 'POST', headers, body })
    const own = [['__proto__', 'constructor'], { prototype: { b: 2 } }, true]
    t.strictSame([response.status, await response.json()], [200, own])
  }
})

t.test('a body that waits too long is answered with 503 and takes no place', async (t) => {
  const { post, answer, until, untilSent, arrived } = await serve(t, 300)
  const busy = 'the memory for large requests is in use: too many of them at once'
  const statusOf = async (answered: ReturnType<typeof post>) => {
    const [status, { message }] = (await answered) as [number, { message?: string }]
    return [status, message]
  }
  const first = post('first', MOST, true)
  await until('first')
  const second = post('second', MOST)
  await untilSent(2)
  const third = post('third', MAX_REQUEST_BYTES * 0.3)
  t.strictSame(await statusOf(second), [503, busy])
  t.strictSame(await third, [200, { name: 'third' }], 'one that waited behind it begins')
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  const held = post('held', MOST, true)
  await until('held')
  t.strictSame(await statusOf(post('fifth', MOST)), [503, busy])
  await answer('held')
  t.strictSame(await held, [200, { name: 'held' }])
  t.strictSame(arrived, ['first', 'third', 'held'])
})

t.test('a body whose values wait too long is answered with 503 and not parsed', async (t) => {
  const { postValues, answer, until, arrived } = await serve(t, 300)
  const first = postValues('first', MAX_REQUEST_VALUES * 0.6, true)
  await until('first')
  const [status] = await postValues('second', MAX_REQUEST_VALUES * 0.6)
  t.equal(status, 503)
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  const third = await postValues('third', MAX_REQUEST_VALUES * 0.6)
  t.strictSame(third, [200, { name: 'third' }])
  t.strictSame(arrived, ['first', 'third'])
})

t.test('a request whose client disconnects while it waits is not parsed', async (t) => {
  const { port, headers, post, arrived, errors, ...served } = await serve(t)
  const { answer, until, untilSent, untilRead } = served
  const dense = (name: string, held: boolean) => {
    const padding = Array.from({ length: MAX_REQUEST_VALUES * 0.6 }, () => 1)
    const body = JSON.stringify({ name, held, padding })
    const options = { port, method: 'POST', headers: { ...headers, 'content-length': body.length } }
    return request(options)
      .on('error', () => undefined)
      .end(body)
  }
  const first = dense('first', true)
  await until('first')
  const second = dense('second', false)
  await untilSent(2)
  await untilRead()
  second.destroy()
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  await answer('first')
  await once(first, 'response')
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
  t.strictSame(arrived, ['first', 'small', 'after'])
  t.strictSame(errors, [DISCONNECTED])
})

t.test('a body of a route without the limit takes no place', async (t) => {
  const { url, port, postValues, answer, until, ...served } = await serve(t)
  const first = postValues('first', MAX_REQUEST_VALUES, true)
  await until('first')
  const body = JSON.stringify({ list: Array.from({ length: SMALL_VALUES }, () => 1) })
  const json = { method: 'POST', headers: served.headers, body }
  t.strictSame(await (await fetch(`${url}unlimited`, json)).json(), ['list'])
  const headers = { 'transfer-encoding': 'chunked' }
  const other = request({ port, headers }).end()
  const [response] = (await once(other, 'response')) as [IncomingMessage]
  t.equal(response.statusCode, 200)
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
})

t.test('a chunked body counts as the largest one, and is refused above the limit', async (t) => {
  const { url, headers, post, answer, until, arrived } = await serve(t)
  const chunked = async (text: string) => {
    const body = new Blob([text]).stream()
    const response = await fetch(url, { method: 'POST', headers, body, duplex: 'half' })
    return response.status
  }
  const first = post('first', MOST, true)
  await until('first')
  const second = chunked('{"name":"chunked"}')
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  t.strictSame(arrived, ['first', 'small'])
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  t.equal(await second, 200)
  t.equal(await chunked(JSON.stringify('x'.repeat(MAX_REQUEST_BYTES))).catch(() => 413), 413)
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
})

t.test('a body that is not JSON is rejected, and its capacity is released', async (t) => {
  const { url, headers, post } = await serve(t)
  for (const body of ['', '{', `[${'x'.repeat(MOST)}`, `"${'x'.repeat(MOST)}`]) {
    const response = await fetch(url, { method: 'POST', headers, body })
    t.equal(response.status, 400, `${body.length} bytes`)
  }
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
})

t.test(
  'a body with a place is parsed although its time to wait has passed, without a warning',
  async (t) => {
    const warnings: Error[] = []
    const record = (warning: Error) => void warnings.push(warning)
    process.on('warning', record)
    t.teardown(() => process.off('warning', record))
    const { post } = await serve(t, -1)
    t.strictSame(await post('late', MOST), [200, { name: 'late' }])
    t.strictSame(
      warnings.map(({ name }) => name),
      [],
    )
  },
)
