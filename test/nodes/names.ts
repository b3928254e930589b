/**
 * The way of Jobs to a node. Engines here know each other by addresses, and in Kubernetes by names of pods
 * from which the operator reads the ordinal: this proxy writes the names into answers that list peers.
 */
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface NameProxy {
  port: number
  close(): Promise<void>
}

/** Answers that contain addresses of peers. */
const LISTS_PEERS = /^\/(cluster|telemetry|collections\/[^/]+\/cluster)/

export async function openNames(
  target: () => number | undefined,
  rename: (text: string) => string,
): Promise<NameProxy> {
  const server = createServer((request, response) => {
    const { method, url: path = '/', headers } = request
    const onward = httpRequest({ host: '127.0.0.1', port: target(), method, path, headers })
    onward.on('response', (answer) => {
      if (!LISTS_PEERS.test(path)) {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
        answer.on('error', () => response.destroy())
        return
      }
      textOf(answer).then(
        (text) => {
          const { 'content-length': _, 'transfer-encoding': __, ...rest } = answer.headers
          response.writeHead(answer.statusCode ?? 502, rest).end(rename(text))
        },
        () => response.destroy(),
      )
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
