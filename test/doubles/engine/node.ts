/** One node of the engine double: HTTP in front of the shared cluster state. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import { checkAccess } from './access.ts'
import {
  failed,
  EngineFailure,
  UNKNOWN_ROUTE,
  type EngineAnswer,
  type EngineRequest,
} from './answers.ts'
import type { EngineCluster } from './cluster.ts'
import type { EngineConfig } from './config.ts'
import { accessOf } from './credentials.ts'
import { parseJson } from './json.ts'
import type { Misbehave, Misbehaviour } from './misbehaviour.ts'
import { isStuck } from './running.ts'
import { aliasRoutes } from './routes/aliases.ts'
import { clusterRoutes } from './routes/cluster.ts'
import { collectionRoutes, notApplied, timeoutOf } from './routes/collections.ts'
import { indexRoutes } from './routes/indexes.ts'
import { issueRoutes } from './routes/issues.ts'
import { pointRoutes } from './routes/points.ts'
import { recoveryRoutes } from './routes/recovery.ts'
import { serviceRoutes } from './routes/service.ts'
import { shardKeyRoutes } from './routes/shard-keys.ts'
import { cleanupRoutes, shardPointRoutes } from './routes/shard-points.ts'
import { shardSnapshotRoutes } from './routes/shard-snapshots.ts'
import { restartCreations } from './snapshots.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { telemetryRoutes } from './routes/telemetry.ts'

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
  /** Bad days, call by call; without one, good ones again. */
  misbehave(misbehave?: Misbehave): void
  /** How many connections are open, and how many ever were. */
  connections(): { open: number; ever: number }
  close(): Promise<void>
}

const MAX_BODY_BYTES = 32 * 1024 * 1024

export async function startEngineNode(options: EngineNodeOptions): Promise<EngineNode> {
  const { ordinal, cluster, config = {}, tls } = options
  const agreed = options.agreed ?? ((request) => answerAs(cluster, ordinal, request))
  cluster.join(ordinal)
  if (options.version === undefined) cluster.versions.delete(ordinal)
  else cluster.versions.set(ordinal, options.version)
  // A restart is what brings a dead consensus thread back.
  cluster.resumeConsensus(ordinal)
  restartCreations(cluster, ordinal)
  const state = {
    ready: options.ready ?? true,
    version: options.version ?? cluster.version,
    delay: 0,
    misbehave: undefined as Misbehave | undefined,
  }
  const connections = { open: 0, ever: 0 }

  const answer = async (incoming: IncomingMessage, request: EngineRequest) => {
    const access = accessOf(config, { path: request.path, headers: incoming.headers })
    const allowed = access === undefined ? request : { ...request, access }
    return serviceRoutes(request, state) ?? agreed(allowed)
  }
  const listener = async (incoming: IncomingMessage, response: ServerResponse) => {
    const bytes = await buffer(incoming)
    const read = formOf(incoming, bytes) ?? bodyOf(bytes)
    const body = read instanceof EngineFailure ? undefined : read
    const request = { ...requestOf(incoming), body }
    const bad = state.misbehave?.(request)
    if (state.delay > 0) await setTimeout(state.delay, undefined, { ref: false })
    if (bad !== undefined && 'until' in bad) await bad.until
    if (bad !== undefined && 'delayMs' in bad)
      await setTimeout(bad.delayMs, undefined, { ref: false })
    // The request is processed nevertheless.
    if (bad !== undefined && 'cut' in bad && bad.cut === 'meanwhile') incoming.socket.destroy()
    if (bad !== undefined && 'cut' in bad && bad.cut === 'before') incoming.socket.destroy()
    else if (bad !== undefined && 'status' in bad) write(response, bad)
    else {
      const result = await catchFailures(async () =>
        read instanceof EngineFailure ? read.answer : answer(incoming, request),
      )
      if (bad !== undefined && 'cut' in bad) cut(response, result, bad)
      else write(response, result)
    }
  }
  const listen = (incoming: IncomingMessage, response: ServerResponse) => {
    // A caller that went away gets no answer.
    listener(incoming, response).catch(() => response.destroy())
  }
  const server = tls === undefined ? createServer(listen) : createTlsServer(tls, listen)
  server.on('connection', (socket: Socket) => {
    connections.ever += 1
    connections.open += 1
    socket.once('close', () => (connections.open -= 1))
  })
  const host = options.host ?? '127.0.0.1'
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    setReady: (ready) => (state.ready = ready),
    setDelay: (ms) => (state.delay = ms),
    misbehave: (misbehave) => (state.misbehave = misbehave),
    connections: () => ({ ...connections }),
    close: () =>
      new Promise((resolve) => {
        cluster.unreachable.add(ordinal)
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
): Promise<EngineAnswer> {
  return catchFailures(async () => {
    checkAccess(request, cluster)
    if (isMetadataWrite(request) && cluster.consensusError(ordinal) !== undefined) return DEAD
    if (isMetadataWrite(request) && isStuck(cluster)) return notApplied(timeoutOf(request))
    return (
      clusterRoutes(request, cluster, ordinal) ??
      telemetryRoutes(request, cluster, ordinal) ??
      issueRoutes(request, cluster) ??
      aliasRoutes(request, cluster) ??
      indexRoutes(request, cluster) ??
      pointRoutes(request, cluster) ??
      (await recoveryRoutes(request, cluster, ordinal)) ??
      (await snapshotRoutes(request, cluster, ordinal)) ??
      shardPointRoutes(request, cluster, ordinal) ??
      cleanupRoutes(request, cluster, ordinal) ??
      shardSnapshotRoutes(request, cluster, ordinal) ??
      shardKeyRoutes(request, cluster) ??
      (await collectionRoutes(request, cluster, ordinal)) ??
      UNKNOWN_ROUTE
    )
  })
}

const DEAD = failed(500, 'Service internal error: Channel closed: sending on a closed channel')

function isMetadataWrite({ method, path }: EngineRequest): boolean {
  return method !== 'GET' && !['points', 'snapshots'].includes(path[2] ?? '')
}

async function catchFailures(answer: () => Promise<EngineAnswer>): Promise<EngineAnswer> {
  try {
    return await answer()
  } catch (error) {
    if (error instanceof EngineFailure) return error.answer
    throw error
  }
}

function requestOf(incoming: IncomingMessage): EngineRequest {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://engine')
  return {
    method: incoming.method ?? 'GET',
    path: pathname
      .replace(/^\/+|\/+$/g, '')
      .split('/')
      .map(decodeURIComponent),
    query: Object.fromEntries(searchParams),
    body: {},
  }
}

/** The one file of a form; undefined for what is none. */
function formOf({ headers }: IncomingMessage, bytes: Buffer): object | undefined {
  const type = headers['content-type'] ?? ''
  const boundary = /^multipart\/form-data; *boundary="?([^"]+)/.exec(type)?.[1]
  if (boundary === undefined) return undefined
  const start = bytes.indexOf('\r\n\r\n')
  const end = bytes.lastIndexOf(`\r\n--${boundary}--`)
  const file = /filename="([^"]*)"/.exec(bytes.subarray(0, start).toString())?.[1] ?? ''
  return { file, base64: bytes.subarray(start + 4, end).toString('base64') }
}

function bodyOf(bytes: Buffer): unknown {
  if (bytes.length > MAX_BODY_BYTES) {
    const words = `JSON payload (${bytes.length} bytes) is larger than allowed (limit: ${MAX_BODY_BYTES} bytes).`
    return new EngineFailure(failed(400, words))
  }
  try {
    return parseJson(bytes.toString())
  } catch {
    if (bytes.length === 0) return undefined
    return new EngineFailure(
      failed(400, 'Format error in JSON body: EOF while parsing an object at line 1 column 1'),
    )
  }
}

function cut(
  response: ServerResponse,
  { status, body }: EngineAnswer,
  { cut }: Extract<Misbehaviour, { cut: string }>,
): void {
  if (cut === 'after' || cut === 'meanwhile') {
    response.destroy()
    return
  }
  const bytes = bytesOf(body)
  if (cut === 'short') {
    response.writeHead(status, { 'content-type': 'application/octet-stream' })
    response.end(bytes.subarray(0, bytes.length / 2))
    return
  }
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
  })
  response.write(bytes.subarray(0, bytes.length / 2), () => {
    if (cut !== 'silent') response.destroy()
  })
}

function write(response: ServerResponse, { status, body, headers }: EngineAnswer): void {
  const isText = typeof body === 'string'
  const type = { 'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json' }
  response.writeHead(status, headers ?? type)
  response.end(bytesOf(body))
}

/** JSON, text, or a file in base64. */
function bytesOf(body: unknown): Buffer {
  if (typeof body === 'string') return Buffer.from(body)
  const { base64 } = body as { base64?: unknown }
  if (typeof base64 === 'string') return Buffer.from(base64, 'base64')
  return Buffer.from(JSON.stringify(body))
}
