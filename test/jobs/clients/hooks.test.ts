/** The call of a hook that checks an installation. */
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { callHook } from '../../../jobs/clients/hooks.ts'
import { ONE, TWO } from '../../metacontroller/certificates.ts'

async function service(t: Test, answer: string) {
  const calls: object[] = []
  const server = createServer(ONE, (request, response) => {
    const { method, url, headers } = request
    void text(request).then((body) => {
      const { authorization, 'content-type': type } = headers
      calls.push({ method, url, authorization, type, body })
      response.writeHead(422).end(answer)
    })
  })
  let open = 0
  server.on('connection', (socket) => {
    open += 1
    socket.once('close', () => (open -= 1))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  return { calls, url: `https://127.0.0.1:${port}/backup/sync`, open: () => open }
}

t.test('a hook is called with its token, by the authority of the service', async (t) => {
  const { calls, url, open } = await service(t, 'no')
  const call = { token: 'secret', body: { a: 1 } }
  t.match(await callHook(url, { ...call, caBundle: ONE.cert }), { status: 422, text: 'no' })
  const type = 'application/json'
  const sent = { method: 'POST', url: '/backup/sync', authorization: 'Bearer secret', type }
  t.strictSame(calls, [{ ...sent, body: '{"a":1}' }])
  for (const caBundle of [undefined, TWO.cert]) {
    await t.rejects(callHook(url, { ...call, caBundle }), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  }
  t.equal(calls.length, 1, 'the token is sent to no other service')
  while (open() > 0) await new Promise(setImmediate)
})

t.test('an answer that is too long for a hook is not read', async (t) => {
  const { url } = await service(t, 'x'.repeat(64 * 1024 + 1))
  const call = { token: 'secret', body: {}, caBundle: ONE.cert }
  await t.rejects(callHook(url, call), { message: 'the answer has more than 65536 bytes' })
})
