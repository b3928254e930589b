/** Forwards a complete request to its server, so that a fault can delay or repeat it. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { outside } from './machine/process.ts'

/** A response, of the server or of an injected fault. */
export interface Answer {
  status: number
  headers?: NodeJS.Dict<string | string[]>
  body: Buffer | string
}

export function read(request: IncomingMessage): Promise<Buffer> {
  return buffer(request)
}

/** Sends the request to its server once and returns the response. */
export function forward(request: IncomingMessage, body: Buffer): Promise<Answer> {
  return outside(() => pass(request, body))
}

export function respond(response: ServerResponse, { status, headers = {}, body }: Answer): void {
  // The body is sent in one piece, so the transfer encoding of the server does not apply.
  const forwarded = Object.entries(headers).filter(([name]) => name !== 'transfer-encoding')
  response.writeHead(status, Object.fromEntries(forwarded) as Record<string, string>)
  response.end(body)
}

async function pass(request: IncomingMessage, body: Buffer): Promise<Answer> {
  const { port } = request.socket.address() as AddressInfo
  const { method, url: path, headers } = request
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const made = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false })
    made.once('response', resolve)
    made.once('error', reject)
    made.end(body)
  })
  const { statusCode: status = 502, headers: responseHeaders } = answer
  return { status, headers: responseHeaders, body: await buffer(answer) }
}
