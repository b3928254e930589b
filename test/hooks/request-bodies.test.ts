/** What large bodies take in memory is limited, for one request and for all of them together. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { MAX_REQUEST_BYTES } from '../../crds/contract/limits.ts'
import { limitBodies, MAX_REQUEST_VALUES } from '../../hooks/request-bodies.ts'

/** Of two bodies of this size, only one has a place. */
const MOST = Math.ceil(MAX_REQUEST_BYTES * 0.6)
const PAUSE_MS = 50

/** A route that answers when it may; the bodies that have reached it, by their `name`. */
async function serve(t: Test, maxWaitMs?: number) {
  const server = fastify({ bodyLimit: MAX_REQUEST_BYTES, forceCloseConnections: true })
  const preParsing = limitBodies(server, maxWaitMs)
  let requests = 0
  server.addHook('onRequest', async () => void (requests += 1))
  const arrived: string[] = []
  const answers = new Map<string, () => void>()
  server.get('/', async () => 'small')
  server.post('/', { preParsing }, async ({ body }) => {
    const { name, held } = body as { name: string; held?: boolean }
    arrived.push(name)
    if (held === true) await new Promise<void>((resolve) => answers.set(name, resolve))
    return { name }
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
    while (requests < count) await sleep(PAUSE_MS)
  }
  return { url, port, headers, post, answer, until, untilSent, arrived }
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
  const { url, headers, post, answer, until, arrived } = await serve(t)
  const send = async (name: string, held: boolean, values: number) => {
    const padding = Array.from({ length: values }, () => 1)
    const body = JSON.stringify({ name, held, padding })
    const response = await fetch(url, { method: 'POST', headers, body })
    return [response.status, await response.json()] as const
  }
  const first = send('first', true, MAX_REQUEST_VALUES * 0.6)
  await until('first')
  const second = send('second', false, MAX_REQUEST_VALUES * 0.6)
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  const [status, text] = await send('too many', false, MAX_REQUEST_VALUES)
  t.strictSame(
    [status, (text as { message: string }).message],
    [413, 'the request has more than 800000 values'],
  )
  t.strictSame(arrived, ['first', 'small'])
  await answer('first')
  t.strictSame(await first, [200, { name: 'first' }])
  t.strictSame(await second, [200, { name: 'second' }])
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
  const { url, headers, answer, until, arrived } = await serve(t, 300)
  const send = async (name: string, held: boolean) => {
    const padding = Array.from({ length: MAX_REQUEST_VALUES * 0.6 }, () => 1)
    const body = JSON.stringify({ name, held, padding })
    return (await fetch(url, { method: 'POST', headers, body })).status
  }
  const first = send('first', true)
  await until('first')
  t.equal(await send('second', false), 503)
  await answer('first')
  t.equal(await first, 200)
  t.equal(await send('third', false), 200)
  t.strictSame(arrived, ['first', 'third'])
})

t.test('a request whose client disconnects while it waits is not parsed', async (t) => {
  const { port, headers, post, answer, until, arrived } = await serve(t)
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
  await once(second, 'finish')
  await sleep(PAUSE_MS)
  second.destroy()
  t.strictSame(await post('small', 10), [200, { name: 'small' }])
  await answer('first')
  await once(first, 'response')
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
  t.strictSame(arrived, ['first', 'small', 'after'])
})

t.test('a body of a route without the limit takes no place', async (t) => {
  const { port, post, answer, until } = await serve(t)
  const first = post('first', MOST, true)
  await until('first')
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

t.test('what is no JSON is refused, large or small, and its place released', async (t) => {
  const { url, headers, post } = await serve(t)
  for (const body of ['', '{', `[${'x'.repeat(MOST)}`, `"${'x'.repeat(MOST)}`]) {
    const response = await fetch(url, { method: 'POST', headers, body })
    t.equal(response.status, 400, `${body.length} bytes`)
  }
  t.strictSame(await post('after', MOST), [200, { name: 'after' }])
})
