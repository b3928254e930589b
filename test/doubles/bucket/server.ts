/**
 * An S3 server on loopback: buckets by path or by host name, signatures checked, and faults on
 * demand. What it does not know is 501, so that nothing passes by accident.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { operationOf, perform, type Operation, type S3Call } from './operations.ts'
import { checkSignature } from './signature.ts'
import { BucketStore } from './store.ts'
import { S3Error, type S3Answer } from './xml.ts'

export type S3Misbehaviour =
  /** Refused, after the body was read. */
  | { status: number; code: string; message?: string }
  /** Refused before the body was read, and the connection closed. */
  | { early: true; status: number; code: string; message?: string }
  /** The connection is cut: in the middle of the request body, or of the response body. */
  | { cut: 'in' | 'out' }
  /** It is done, and the answer is lost. */
  | { lost: true }
  /** The body is read so slowly: bytes in each hundredth of a second. */
  | { trickle: number }
  /** It is done so much later. */
  | { after: Promise<unknown> }
  /** The connection is cut, and the call is carried out once this has resolved. */
  | { late: Promise<unknown> }

/** Decides call by call; undefined lets it pass. */
export type S3Misbehave = (
  call: Pick<S3Call, 'operation' | 'key' | 'bucket' | 'query'>,
) => S3Misbehaviour | undefined

export interface BucketServerOptions {
  /** Names of the buckets there are. */
  buckets?: string[]
  /** Secret by access key id. */
  keys?: Record<string, string>
  region?: string
  /** For buckets by host name: `<bucket>.<host>`. */
  host?: string
  tls?: { cert: string; key: string }
  now?: () => Date
  /** How far the time of a signed call may be from `now`; any by default. Answers then have the time of the server. */
  maxSkewMs?: number
  port?: number
}

export interface BucketServer {
  url: string
  /** By name; deleting an entry makes the bucket missing. */
  buckets: Map<string, BucketStore>
  /** Replaces the keys that are known. */
  keys: Map<string, string>
  /** Session token by access key id: such a key is good only with its token. */
  tokens: Map<string, string>
  /** Session tokens whose time is over. */
  expired: Set<string>
  /** `payload`: the SHA-256 its signature names, or why it names none. */
  calls: { operation: Operation; bucket: string; key: string; payload: string }[]
  misbehave(misbehave?: S3Misbehave): void
  close(): Promise<void>
}

export async function startBucketServer(options: BucketServerOptions = {}): Promise<BucketServer> {
  const { tls, region = 'us-east-1', now = () => new Date(), maxSkewMs } = options
  const buckets = new Map((options.buckets ?? ['backups']).map((name) => [name, new BucketStore()]))
  const keys = new Map(Object.entries(options.keys ?? { id: 'secretsecret' }))
  const tokens = new Map<string, string>()
  const expired = new Set<string>()
  const calls: BucketServer['calls'] = []
  let misbehave: S3Misbehave | undefined

  const answer = async (request: IncomingMessage): Promise<S3Answer | 'cut' | 'cut out'> => {
    const named = nameOf(request, options.host)
    const call = { ...named, headers: request.headers }
    const payload = String(request.headers['x-amz-content-sha256'])
    calls.push({ operation: named.operation, bucket: named.bucket, key: named.key, payload })
    const bad = misbehave?.(named)
    if (bad !== undefined && 'early' in bad) throw errorAnswer(bad)
    if (bad !== undefined && 'cut' in bad && bad.cut === 'in') {
      await new Promise((resolve) => request.once('data', resolve).once('end', resolve))
      return 'cut'
    }
    const body = await buffer(
      bad !== undefined && 'trickle' in bad ? slowly(request, bad) : request,
    )
    if (bad !== undefined && 'after' in bad) await bad.after
    if (bad !== undefined && 'status' in bad) throw errorAnswer(bad)
    const { method = 'GET', url = '/', headers } = request
    const trust = { keys, tokens, expired, region, now, maxSkewMs }
    checkSignature({ method, target: url, headers, body }, trust)
    if (call.operation === 'CreateBucket') make(buckets, call.bucket)
    const store = buckets.get(call.bucket)
    if (store === undefined) {
      throw new S3Error(404, 'NoSuchBucket', 'The specified bucket does not exist')
    }
    if (bad !== undefined && 'late' in bad) {
      void bad.late.then(() => perform(store, { ...call, body }))
      return 'cut'
    }
    const result = perform(store, { ...call, body })
    if (bad !== undefined && 'lost' in bad) return 'cut'
    if (bad === undefined || !('cut' in bad)) return result
    const length = { 'content-length': String(result.body?.length ?? 0) }
    half.set(request, { ...result, headers: { ...result.headers, ...length } })
    return 'cut out'
  }
  const half = new WeakMap<IncomingMessage, S3Answer>()
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    if (maxSkewMs !== undefined) response.setHeader('date', now().toUTCString())
    answer(request)
      .catch((error: unknown) => {
        if (error instanceof S3Error) return { ...error.answer, close: !request.complete }
        throw error
      })
      .then((result) => {
        if (result === 'cut') request.socket.destroy()
        else if (result === 'cut out') writeHalf(response, half.get(request) ?? { status: 500 })
        else write(request, response, result)
      })
      .catch(() => request.socket.destroy())
  }
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  // Longer than clients keep an idle connection: one that ends under a call is a fault of its own.
  server.keepAliveTimeout = 120_000
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    buckets,
    keys,
    tokens,
    expired,
    calls,
    misbehave: (next) => (misbehave = next),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function make(buckets: BucketServer['buckets'], name: string): void {
  if (buckets.has(name)) {
    const words =
      'Your previous request to create the named bucket succeeded and you already own it.'
    throw new S3Error(409, 'BucketAlreadyOwnedByYou', words)
  }
  buckets.set(name, new BucketStore())
}

async function* slowly(
  request: AsyncIterable<Buffer>,
  { trickle }: { trickle: number },
): AsyncGenerator<Buffer> {
  for await (const chunk of request) {
    await setTimeout((10 * chunk.length) / trickle, undefined, { ref: false })
    yield chunk
  }
}

function nameOf(request: IncomingMessage, host: string | undefined) {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://s3')
  const [domain = ''] = (request.headers.host ?? '').split(':')
  const isByHost = host !== undefined && domain.endsWith(`.${host}`)
  const path = pathname.slice(1).split('/')
  const bucket = isByHost ? domain.slice(0, -host.length - 1) : decodeURIComponent(path[0] ?? '')
  const key = decodeURIComponent((isByHost ? path : path.slice(1)).join('/'))
  return { bucket, key, query, operation: operationOf(request.method ?? 'GET', key, query) }
}

function errorAnswer({
  status,
  code,
  message = code,
}: {
  status: number
  code: string
  message?: string
}): S3Error {
  return new S3Error(status, code, message)
}

function write(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body, close }: S3Answer & { close?: boolean },
): void {
  response.writeHead(status, { ...headers, ...(close === true && { connection: 'close' }) })
  // An answer to HEAD has no body, and so no words about what is wrong.
  response.end(request.method === 'HEAD' ? undefined : body)
}

function writeHalf(response: ServerResponse, { status, headers, body = '' }: S3Answer): void {
  response.writeHead(status, headers)
  response.write(body.slice(0, body.length / 2), () => response.destroy())
}
