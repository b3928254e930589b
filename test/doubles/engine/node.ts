/** One node of the engine double: HTTP in front of what all nodes agree on. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { json } from 'node:stream/consumers'
import { UNKNOWN_ROUTE, failed, type EngineAnswer, type EngineRequest } from './answers.ts'
import { refusal } from './auth.ts'
import type { EngineCluster } from './cluster.ts'
import type { EngineConfig } from './config.ts'
import { clusterRoutes } from './routes/cluster.ts'
import { collectionRoutes } from './routes/collections.ts'
import { serviceRoutes } from './routes/service.ts'

export interface EngineNodeOptions {
  ordinal: number
  cluster: EngineCluster
  /** Default: any that is free. */
  port?: number
  host?: string
  config?: EngineConfig
  tls?: { cert: string; key: string }
  /** Default: that of the cluster; nodes differ while an upgrade rolls. */
  version?: string
  ready?: boolean
  /** Answers what is agreed on; default: from `cluster`. */
  agreed?: (request: EngineRequest) => Promise<EngineAnswer>
}

export interface EngineNode {
  port: number
  /** A node that is not ready still answers everything else. */
  setReady(ready: boolean): void
  /** Every answer takes so much longer. */
  setDelay(ms: number): void
  close(): Promise<void>
}

export async function startEngineNode(options: EngineNodeOptions): Promise<EngineNode> {
  const { ordinal, cluster, config = {}, tls } = options
  const agreed = options.agreed ?? (async (request) => answerAs(cluster, ordinal, request))
  cluster.join(ordinal)
  // A restart is what brings a dead consensus thread back.
  cluster.resumeConsensus(ordinal)
  const state = {
    ready: options.ready ?? true,
    version: options.version ?? cluster.version,
    delay: 0,
  }

  const answer = async (request: IncomingMessage): Promise<EngineAnswer> => {
    const call = await readRequest(request)
    if (state.delay > 0) await setTimeout(state.delay)
    const refused = refusal(config, { ...call, headers: request.headers })
    return refused ?? serviceRoutes(call, state) ?? agreed(call)
  }
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    answer(request)
      .catch((error: unknown) => failed(400, `Format error in JSON body: ${String(error)}`))
      .then((result) => write(response, result))
  }
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  const host = options.host ?? '127.0.0.1'
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    setReady: (ready) => (state.ready = ready),
    setDelay: (ms) => (state.delay = ms),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** What the node with this ordinal answers to what all agree on. */
export function answerAs(
  cluster: EngineCluster,
  ordinal: number,
  request: EngineRequest,
): EngineAnswer {
  return (
    clusterRoutes(request, cluster, ordinal) ??
    collectionRoutes(request, cluster, ordinal) ??
    UNKNOWN_ROUTE
  )
}

async function readRequest(request: IncomingMessage): Promise<EngineRequest> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://engine')
  const length = Number(request.headers['content-length'] ?? 0)
  const chunked = request.headers['transfer-encoding'] !== undefined
  return {
    method: request.method ?? 'GET',
    path: pathname
      .replace(/^\/+|\/+$/g, '')
      .split('/')
      .map(decodeURIComponent),
    query: Object.fromEntries(searchParams),
    body: length > 0 || chunked ? await json(request) : {},
  }
}

function write(response: ServerResponse, { status, body }: EngineAnswer): void {
  const isText = typeof body === 'string'
  response.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' })
  response.end(isText ? body : JSON.stringify(body))
}
