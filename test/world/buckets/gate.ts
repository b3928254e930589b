/**
 * A proxy in front of the world's S3 store: every call of a pod or of the service goes through it to the
 * server behind. It records the calls and injects the faults of a scenario.
 */
import { once } from 'node:events'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import type { BucketCall, BucketFault } from '../world.ts'

export interface Gate {
  /** Where pods and the service reach the store. */
  url: string
  /** Calls on a bucket so far, oldest first. */
  calls(bucket: string): BucketCall[]
  /** When the last call came, in milliseconds since 1970 by the machine's clock. */
  heardAt(): number
  /** Decides call by call on one bucket; without a decision all is well again. */
  misbehave(bucket: string, decide?: Decide): void
  close(): Promise<void>
}

/** Longer than any client keeps an idle connection: one that ends under a call is no fault of a scenario. */
const KEEP_ALIVE_MS = 120_000

type Decide = (call: BucketCall) => BucketFault | undefined

/** Opens a gate to the server at this address, on an address of this machine that pods can reach. */
export async function openGate(endpoint: string, host: string): Promise<Gate> {
  const server = new URL(endpoint)
  const seen: (BucketCall & { bucket: string })[] = []
  const decisions = new Map<string, Decide>()
  let heardAt = 0

  const pass = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const call = callOf(incoming)
    seen.push(call)
    heardAt = Date.now()
    const fault = decisions.get(call.bucket)?.(call)
    if (fault === undefined) return forward(server, incoming, response)
    if ('hold' in fault) {
      await fault.hold
      return forward(server, incoming, response)
    }
    if ('cut' in fault) {
      incoming.socket.destroy()
      return
    }
    refuse(incoming, response, fault)
  }
  const gate = createServer((incoming, response) => {
    // A client that has disconnected gets no answer.
    pass(incoming, response).catch(() => response.destroy())
  })
  gate.keepAliveTimeout = KEEP_ALIVE_MS
  gate.listen(0, host)
  await once(gate, 'listening')
  return {
    url: `http://${host}:${(gate.address() as AddressInfo).port}`,
    calls: (bucket) => seen.filter((call) => call.bucket === bucket),
    heardAt: () => heardAt,
    misbehave(bucket, decide) {
      if (decide === undefined) decisions.delete(bucket)
      else decisions.set(bucket, decide)
    },
    async close() {
      gate.close()
      gate.closeAllConnections()
      await once(gate, 'close')
    },
  }
}

/** Unchanged: path and host are part of the signature. */
async function forward(server: URL, incoming: IncomingMessage, response: ServerResponse) {
  const { method, url: path, headers } = incoming
  // A connection of its own, for the same reason.
  const address = { host: server.hostname, port: server.port, agent: false as const }
  const passed = request({ ...address, method, path, headers })
  const answered = once(passed, 'response') as Promise<[IncomingMessage]>
  // A failed upload to the server shows as a missing response below.
  pipeline(incoming, passed).catch(() => undefined)
  const [answer] = await answered
  response.writeHead(answer.statusCode ?? 502, answer.headers)
  await pipeline(answer, response)
}

function refuse(
  incoming: IncomingMessage,
  response: ServerResponse,
  { status, code }: Extract<BucketFault, { status: number }>,
): void {
  // Read to its end, as stores do: a refusal in the middle of a body is often not seen.
  incoming.resume().once('end', () => {
    response.writeHead(status, { 'content-type': 'application/xml' })
    const words = `<Error><Code>${code}</Code><Message>${code}</Message></Error>`
    response.end(incoming.method === 'HEAD' ? undefined : words)
  })
}

/** Buckets stand in the path. */
function callOf({ method = 'GET', url = '/' }: IncomingMessage): BucketCall & { bucket: string } {
  const { pathname, searchParams } = new URL(url, 'http://s3')
  const [bucket = '', ...key] = pathname.slice(1).split('/').map(decodeURIComponent)
  return { bucket, method, key: key.join('/'), query: Object.fromEntries(searchParams) }
}
