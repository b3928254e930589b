/** What strangers on the hook port get: few connections, and none of Metacontroller's. */
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { ConnectionLimiter } from '../../hooks/authentication.ts'
import { buildServer } from '../../hooks/server.ts'
import { NOW, settings } from '../builders.ts'
import { ONE } from '../metacontroller/certificates.ts'

const TOKEN = 'secret'

async function served(
  t: Test,
  extend: (server: FastifyInstance) => unknown = () => undefined,
  tls?: { cert: string; key: string },
) {
  const built = buildServer({
    ...(tls !== undefined && { tls }),
    hooks: [],
    tokens: () => [TOKEN],
    log: pino({ level: 'silent' }),
    now: () => NOW,
    settings,
    metrics: { observe: () => undefined, text: async () => '', contentType: 'text/plain' },
  })
  extend(built)
  await built.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => built.close())
  return { built, port: (built.server.address() as AddressInfo).port }
}

async function opened(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

async function statusOf(port: number, agent: Agent, path = '/none'): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const sent = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent })
  sent.end('{}')
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode ?? 0
}

t.test('of connections without the token the oldest is closed, one with it never', async (t) => {
  const { port } = await served(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  t.equal(await statusOf(port, agent), 404, 'the token was shown, there is no such route')
  const own = Object.values(agent.freeSockets)[0]?.[0]

  const oldest = await opened(t, port)
  const isClosed = once(oldest, 'close')
  for (let count = 0; count < 250; count += 1) await opened(t, port)
  await isClosed
  t.equal(await statusOf(port, agent), 404)
  t.equal(Object.values(agent.freeSockets)[0]?.[0], own, 'on the connection it had')
  t.equal(await statusOf(port, new Agent()), 404, 'and a new one is let in')
})

t.test('a request before the answer to the one before closes the connection', async (t) => {
  const { port } = await served(t)
  const probe = 'GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n'
  const answers = async (requests: string) => {
    const socket = await opened(t, port)
    let received = ''
    socket.on('data', (chunk: Buffer) => (received += chunk.toString()))
    socket.write(requests)
    await once(socket, 'close')
    return received.split('200 OK').length - 1
  }
  t.ok((await answers(probe.repeat(1000))) <= 1)
  t.equal(await answers(probe.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')), 1)

  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  for (let count = 0; count < 100; count += 1) t.equal(await statusOf(port, agent), 404)
})

/** In a thread of its own, so that its next request arrives while the server is busy. */
const CLIENT = `
  const { Agent, request } = require('node:https')
  const { parentPort, workerData } = require('node:worker_threads')
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: workerData.ca })
  const results = []
  const next = () => {
    if (results.length === 20) return parentPort.postMessage(results)
    const sent = request({ ...workerData.target, agent })
    sent.on('response', (response) => response.resume().on('end', () => end(response.statusCode)))
    sent.on('error', (error) => end(error.message))
    sent.end()
  }
  const end = (result) => (results.push(result), next())
  next()
`

t.test('over TLS, a request after the whole answer to the one before is served', async (t) => {
  const busy = async () => {
    const answered = setImmediate()
    // Work of another request, between the last byte of this answer and what Node does after it.
    void setImmediate().then(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20))
    await answered
    return 'done'
  }
  const { port } = await served(t, (server) => server.get('/busy', busy), ONE)
  const headers = { authorization: `Bearer ${TOKEN}` }
  const target = { host: '127.0.0.1', port, path: '/busy', headers }
  const client = new Worker(CLIENT, { eval: true, workerData: { ca: ONE.cert, target } })
  t.teardown(() => client.terminate())
  const [results] = (await once(client, 'message')) as [unknown[]]
  t.strictSame(
    results,
    results.map(() => 200),
  )
})

t.test('a connection that its client closes is forgotten', async (t) => {
  const { built, port } = await served(t)
  const connections = new ConnectionLimiter(1)
  connections.attach(built.server)
  const first = await opened(t, port)
  first.destroy()
  await once(first, 'close')
  const second = await opened(t, port)
  const third = await opened(t, port)
  await once(second, 'close')
  t.notOk(third.destroyed)
})

t.test('a body without the token is not read to its end', async (t) => {
  const { port } = await served(t)
  const socket = await opened(t, port)
  socket.write('POST /vecclusters/sync HTTP/1.1\r\nhost: a\r\ncontent-length: 15000000\r\n\r\n{')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  t.match(answer.toString(), /^HTTP\/1.1 401 [^]*connection: close/i)
  await once(socket, 'close')
})

t.test(
  'a server that closes answers calls with the token, and waits for no other client',
  async (t) => {
    const called = Promise.withResolvers<undefined>()
    const released = Promise.withResolvers<undefined>()
    const { built, port } = await served(t, (server) =>
      server.get('/slow', async () => {
        called.resolve(undefined)
        return released.promise.then(() => 'done')
      }),
    )
    const silent = await opened(t, port)
    const incomplete = await opened(t, port)
    incomplete.write('GET /healthz HTTP/1.1\r\nhost: a\r\nx: ')
    const ended = Promise.all([once(silent, 'close'), once(incomplete, 'close')])
    const agent = new Agent({ keepAlive: true })
    t.teardown(() => agent.destroy())
    const headers = { authorization: `Bearer ${TOKEN}` }
    const sent = request({ host: '127.0.0.1', port, path: '/slow', headers, agent })
    sent.end()
    const answer = once(sent, 'response') as Promise<[IncomingMessage]>
    await called.promise
    const closed = built.close()
    await ended
    released.resolve(undefined)
    const [response] = await answer
    response.resume()
    t.strictSame([response.statusCode, response.headers.connection], [200, 'close'])
    await closed
  },
)
