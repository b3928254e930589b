/**
 * A server that prefers HTTP/2, as API servers and engines with TLS do, behind a network that may lose all connections
 * silently: bytes are no longer delivered, and no connection is closed.
 */
import { once } from 'node:events'
import { createSecureServer } from 'node:http2'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'

export async function http2Server(
  t: Test,
  { cert, key, answer = '{}' }: { cert: string; key: string; answer?: string },
) {
  const server = createSecureServer({ cert, key, allowHTTP1: true }, (_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(answer)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const sockets: Socket[] = []
  const network = createServer((client) => {
    const upstream = connect((server.address() as AddressInfo).port, '127.0.0.1')
    for (const socket of [client, upstream]) sockets.push(socket.on('error', () => undefined))
    client.pipe(upstream).pipe(client)
  })
  await once(network.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    network.close()
    server.close()
  })
  return {
    url: `https://127.0.0.1:${(network.address() as AddressInfo).port}`,
    loseConnections: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
  }
}
