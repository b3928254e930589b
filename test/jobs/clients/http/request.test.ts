/** Calls whose responses are read completely, against a server with unusual responses. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { sendRequest } from '../../../../jobs/clients/http/request.ts'

const CALL = { method: 'GET', headers: {}, timeoutMs: 30_000 }

async function served(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const DATE = 'Sun, 01 Mar 2026 12:00:00 GMT'

t.test('a response in several chunks is one text', async (t) => {
  const url = await served(t, (_, response) => {
    const bytes = Buffer.from('grün')
    response.setHeader('retry-after', '7')
    response.setHeader('date', DATE)
    response.write(bytes.subarray(0, 3))
    setImmediate(() => response.end(bytes.subarray(3)))
  })
  const whole = { status: 200, text: 'grün', retryAfterSeconds: 7, date: DATE }
  t.strictSame(await sendRequest(url, CALL), whole)
})

t.test('informational responses are not the response, and a response may be empty', async (t) => {
  const url = await served(t, (_, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload' })
    response.writeHead(404).end()
  })
  t.match(await sendRequest(url, CALL), { status: 404, text: '' })
})

t.test('a call that waits for a connection times out and is never sent', async (t) => {
  const paths: string[] = []
  const held = Promise.withResolvers<() => void>()
  const url = await served(t, ({ url: path = '' }, response) => {
    paths.push(path)
    if (path === '/first') held.resolve(() => response.end())
    else response.end()
  })
  const dispatcher = new Agent({ connections: 1 })
  t.teardown(() => dispatcher.destroy())
  const first = sendRequest(`${url}/first`, { ...CALL, dispatcher })
  const answerFirst = await held.promise
  await t.rejects(sendRequest(`${url}/second`, { ...CALL, dispatcher, timeoutMs: 1 }), {
    name: 'TimeoutError',
  })
  answerFirst()
  await first
  t.equal((await sendRequest(`${url}/third`, { ...CALL, dispatcher })).status, 200)
  t.strictSame(paths, ['/first', '/third'])
})

t.test(
  'a call ends with the reason of its signal, before it is sent and while it runs',
  async (t) => {
    const asked = Promise.withResolvers<undefined>()
    const url = await served(t, () => asked.resolve(undefined))
    const reason = new Error('over')
    await t.rejects(sendRequest(url, { ...CALL, signal: AbortSignal.abort(reason) }), reason)
    const abort = new AbortController()
    const call = sendRequest(url, { ...CALL, signal: abort.signal })
    await asked.promise
    abort.abort(reason)
    await t.rejects(call, reason)
  },
)

t.test('a stream whose sending has failed is closed', async (t) => {
  const url = await served(t, (request) => request.socket.destroy())
  const body = new Readable({ read: () => undefined })
  body.push('half')
  await t.rejects(sendRequest(url, { ...CALL, method: 'PUT', body }))
  t.ok(body.destroyed)
})
