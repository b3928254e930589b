/** What strangers on the hook port get: few connections, and none of Metacontroller's. */
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { ConnectionLimiter } from '../../hooks/authentication.ts'
import { buildServer } from '../../hooks/server.ts'
import { NOW, settings } from '../builders.ts'

const TOKEN = 'secret'

async function served(t: Test, extend: (server: FastifyInstance) => unknown = () => undefined) {
  const built = buildServer({
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
