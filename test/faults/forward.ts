/** A call that is passed on by somebody else than the caller, whole: as often and as late as one likes. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { outside } from './machine/process.ts'

/** An answer, whoever gives it. */
export interface Answer {
  status: number
  headers?: NodeJS.Dict<string | string[]>
  body: Buffer | string
}

export function read(request: IncomingMessage): Promise<Buffer> {
  return buffer(request)
}

/** Makes the call that came, once, and answers with what the server said. */
export function forward(request: IncomingMessage, body: Buffer): Promise<Answer> {
  return outside(() => pass(request, body))
}

export function respond(response: ServerResponse, { status, headers = {}, body }: Answer): void {
  // It is sent in one piece, however it came.
  const kept = Object.entries(headers).filter(([name]) => name !== 'transfer-encoding')
  response.writeHead(status, Object.fromEntries(kept) as Record<string, string>)
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
  const { statusCode: status = 502, headers: told } = answer
  return { status, headers: told, body: await buffer(answer) }
}
