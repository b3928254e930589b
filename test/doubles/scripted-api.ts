/** A loopback HTTP server whose answers a test writes: for refusals and garbage that no honest double gives. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ScriptedCall {
  method: string
  /** With its query. */
  path: string
  headers: Record<string, string | string[] | undefined>
  body: string
}

export interface ScriptedAnswer {
  status: number
  /** JSON, or text when it is a string. */
  body: unknown
}

export interface ScriptedApi {
  url: string
  calls: ScriptedCall[]
  close(): Promise<void>
}

/** An answer of `undefined` cuts the connection. */
export async function startScriptedApi(
  answer: (call: ScriptedCall) => ScriptedAnswer | undefined,
): Promise<ScriptedApi> {
  const calls: ScriptedCall[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { method = '', url = '', headers } = request
      const call = { method, path: url, headers, body }
      calls.push(call)
      const scripted = answer(call)
      if (scripted === undefined) request.socket.destroy()
      else {
        response.writeHead(scripted.status, { 'content-type': 'application/json' })
        response.end(
          typeof scripted.body === 'string' ? scripted.body : JSON.stringify(scripted.body),
        )
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
