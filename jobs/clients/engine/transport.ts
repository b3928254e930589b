/**
 * Transports to an engine: by its host names from inside the Kubernetes cluster, by any URL, or
 * through the API server's pod proxy from outside. Each sends one call and returns its response
 * without interpreting either. Also holds the connection pools and the encoding of path segments.
 */
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import { Agent, request, type Dispatcher } from 'undici'
import { podUrl, serviceUrl, type Connection } from '../../../crds/contract/connection.ts'
import { EngineError, Rejected } from '../../../crds/contract/errors.ts'
import { ENGINE_CONNECTIONS } from '../../../crds/contract/limits.ts'
import { DEFAULT_CLUSTER_DOMAIN, HTTP_PORT, releaseName } from '../../../crds/contract/names.ts'
import type { Lookup } from '../http/address-guard.ts'
import { ByteBudget, MAX_RESPONSE_BYTES } from '../http/body.ts'
import { redact } from '../http/redact.ts'
import {
  certificateError,
  deadline,
  errorMessage,
  sendRequest,
  streamResponse,
  type HttpResponse,
  type StreamResponse,
} from '../http/request.ts'
import type { Kubernetes } from '../kubernetes/client.ts'

export interface EngineCall {
  method: Dispatcher.HttpMethod
  path: string
  headers: Record<string, string>
  body?: string | Readable
  timeoutMs: number
  signal?: AbortSignal | undefined
}

/** A call whose response is a stream: it fails if nothing arrives for `stallMs`. */
export interface StreamCall extends EngineCall {
  stallMs: number
}

export interface Transport {
  /** The name of the node in messages. */
  readonly node: string
  /** Trusts the given certificate authority, or those of the system without one. */
  send(call: EngineCall, ca: string | undefined): Promise<HttpResponse>
  open(call: StreamCall, ca: string | undefined): Promise<StreamResponse>
}

/** The engine closes an idle connection after 5 s; the client must close it earlier. */
const KEEP_ALIVE_MS = 4_000
const CONNECT_MS = 10_000
/** Certificate authorities are replaced now and then: the least recently used pools are closed. */
const MAX_POOLS = 256

/** Limits for a process: a Job has one tenant, the service has all of them. */
export interface EngineConnectionOptions {
  /** Maximum bytes of one response in memory. */
  maxBytes?: number
  /** Maximum bytes of all responses together. */
  budgetBytes?: number
  /** Used instead of DNS. */
  lookup?: Lookup
  /** DNS domain of the Kubernetes cluster that the engines run in. */
  clusterDomain?: string | undefined
}

/**
 * Connections to engines: one pool for each certificate authority, ten connections to each host.
 */
export class EngineConnections {
  /** Ordered by last use, the most recent last. */
  readonly #pools = new Map<string, Agent>()
  /** For a response that is read as a whole. */
  readonly maxBytes: number
  /** For all responses together. */
  readonly budget: ByteBudget | undefined
  readonly clusterDomain: string

  readonly #lookup: Lookup | undefined

  constructor({
    maxBytes = MAX_RESPONSE_BYTES,
    budgetBytes,
    lookup,
    clusterDomain = DEFAULT_CLUSTER_DOMAIN,
  }: EngineConnectionOptions = {}) {
    this.#lookup = lookup
    this.clusterDomain = clusterDomain
    this.maxBytes = maxBytes
    this.budget = budgetBytes === undefined ? undefined : new ByteBudget(budgetBytes)
  }

  pool(ca: string | undefined): Agent {
    const name = ca ?? ''
    const pool = this.#pools.get(name) ?? this.#open(ca)
    this.#pools.delete(name)
    this.#pools.set(name, pool)
    return pool
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()))
    this.#pools.clear()
  }

  #open(ca: string | undefined): Agent {
    const [oldest] = this.#pools
    if (this.#pools.size >= MAX_POOLS && oldest !== undefined) {
      this.#pools.delete(oldest[0])
      // Calls in progress are answered first; a call that is cut off is retried.
      void oldest[1].close()
    }
    return new Agent({
      connections: ENGINE_CONNECTIONS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // All calls to a node would share one HTTP/2 connection. One that its peer no longer answers (its machine fails) is
      // replaced only once it is idle, and a download that is read slowly would delay the other calls on it.
      allowH2: false,
      // The duration of a snapshot is unknown: each call has its own deadline.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: {
        timeout: CONNECT_MS,
        ...(ca !== undefined && { ca }),
        ...(this.#lookup !== undefined && { lookup: this.#lookup }),
      },
    })
  }
}

/** By host name: of one pod, or of the client Service if no ordinal is given. */
export function dnsTransport(
  connections: EngineConnections,
  connection: Connection,
  ordinal?: number,
): Transport {
  const { clusterDomain } = connections
  const base =
    ordinal === undefined
      ? serviceUrl(connection, clusterDomain)
      : podUrl(connection, ordinal, clusterDomain)
  return urlTransport(base, connections)
}

/** To any address, such as the source of a migration. */
export function urlTransport(base: string, connections: EngineConnections): Transport {
  const node = redact(base)
  return {
    node,
    async send(call, ca) {
      const { method, path, signal } = call
      const { maxBytes, budget } = connections
      try {
        return await sendRequest(base + path, {
          ...{ ...call, maxBytes, budget },
          dispatcher: connections.pool(ca),
        })
      } catch (cause) {
        throw unreachable(`${method} ${node}${path}`, cause, signal)
      }
    },
    async open({ method, path, headers, body, timeoutMs, stallMs, signal }, ca) {
      const limit = deadline(timeoutMs, signal)
      try {
        const response = await request(base + path, {
          method,
          headers,
          body: body ?? null,
          dispatcher: connections.pool(ca),
          headersTimeout: stallMs,
          bodyTimeout: stallMs,
          signal: limit.signal,
        })
        response.body.once('close', () => limit.clear())
        return streamResponse(response)
      } catch (cause) {
        limit.clear()
        throw unreachable(`${method} ${node}${path}`, cause, signal)
      }
    },
  }
}

/**
 * Through the API server, which reaches pods by itself and does not verify their certificates. A
 * request to the Service goes to the first pod, because every node serves every call.
 */
export function apiProxyTransport(
  kubernetes: Kubernetes,
  connection: Connection,
  ordinal = 0,
): Transport {
  const { namespace, name, tls } = connection
  const pod = `${releaseName(name)}-${ordinal}`
  const target = `${tls ? 'https' : 'http'}:${pod}:${HTTP_PORT}`
  const proxy = `/api/v1/namespaces/${namespace}/pods/${target}/proxy`
  const rethrow = ({ method, path, signal }: EngineCall) => {
    return (cause: unknown): never => {
      throw unreachable(`${method} ${pod}${path}`, cause, signal)
    }
  }
  return {
    node: `${pod}.${namespace}`,
    send: (call) =>
      kubernetes.call(call.method, proxy + call.path, requestOptions(call)).catch(rethrow(call)),
    open: (call) => {
      const options = { ...requestOptions(call), stallMs: call.stallMs }
      return kubernetes.open(call.method, proxy + call.path, options).catch(rethrow(call))
    },
  }
}

function requestOptions({ headers, timeoutMs, signal, body }: EngineCall) {
  return { headers, timeoutMs, signal, ...(body !== undefined && { body }) }
}

function unreachable(call: string, cause: unknown, signal: AbortSignal | undefined): EngineError {
  signal?.throwIfAborted()
  const prefix = certificateError(cause) !== undefined ? 'TLS verification failed: ' : ''
  return new EngineError(`${call} got no answer: ${prefix}${errorMessage(cause)}`, { cause })
}

export function loggedTransport(transport: Transport, log: Logger): Transport {
  const { node } = transport
  const withLog = async <T extends { status: number }>(
    { method, path }: { method: string; path: string },
    send: () => Promise<T>,
  ): Promise<T> => {
    const call = `${method} ${path}`
    try {
      const response = await send()
      log.debug({ node, call, status: response.status }, 'engine call')
      return response
    } catch (error) {
      log.debug({ node, call, reason: errorMessage(error) }, 'engine call failed')
      throw error
    }
  }
  return {
    node,
    send: (call, ca) => withLog(call, () => transport.send(call, ca)),
    open: (call, ca) => withLog(call, () => transport.open(call, ca)),
  }
}

/**
 * Encodes a name as one path segment. An empty name, `.` and `..` would address the parent
 * resource: a DELETE of the snapshot `..` is a DELETE of its collection.
 */
export function encodeSegment(name: string): string {
  if (name === '' || name === '.' || name === '..') {
    throw new Rejected(`${JSON.stringify(name)} is not a valid name in an engine path`)
  }
  return encodeURIComponent(name)
}

export function collectionPath(collection: string): string {
  return `/collections/${encodeSegment(collection)}`
}
