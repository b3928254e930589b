/**
 * Two ways to an engine: by its host names, from inside the Kubernetes cluster, or through the API
 * server's pod proxy, from outside. Both carry one call and its answer, and judge neither.
 */
import type { Readable } from 'node:stream'
import { Agent, request, type Dispatcher } from 'undici'
import { podEndpointOf, endpointOf, type Connection } from '../../crds/connection.ts'
import { EngineError } from '../../crds/errors.ts'
import { ENGINE_CONNECTIONS } from '../../crds/limits.ts'
import { HTTP_PORT, releaseName } from '../../crds/names.ts'
import type { Lookup } from './addresses.ts'
import { ANSWER_BYTES, ByteBudget } from './byte-limit.ts'
import { deadline, streamAnswerOf, wordsOf, type StreamAnswer } from './call.ts'
import type { Kubernetes } from './kubernetes.ts'
import { masked } from './masked.ts'
import { ask, type Answer } from './whole-answer.ts'

export interface EngineCall {
  method: Dispatcher.HttpMethod
  path: string
  headers: Record<string, string>
  body?: string | Readable
  timeoutMs: number
  signal?: AbortSignal | undefined
}

/** A call whose answer is a stream: it fails when nothing comes for `stallMs`. */
export interface StreamCall extends EngineCall {
  stallMs: number
}

export interface Route {
  /** How messages name the node. */
  readonly node: string
  /** With the certificate authority to trust; without one, those of the system. */
  send(call: EngineCall, ca: string | undefined): Promise<Answer>
  open(call: StreamCall, ca: string | undefined): Promise<StreamAnswer>
}

/** The engine closes an idle connection after 5 s; we must be earlier (facts 0.1). */
const KEEP_ALIVE_MS = 4_000
const CONNECT_MS = 10_000
/** Certificate authorities are replaced now and then: what was used long ago is closed. */
const MAX_POOLS = 256

/** A Job has one tenant, the service has all of them. */
export interface ConnectionOptions {
  /** How many bytes of an answer may be in memory. */
  maxBytes?: number
  /** Of all answers together. */
  budgetBytes?: number
  /** Instead of DNS. */
  lookup?: Lookup
}

/** Connections to engines, one pool for each certificate authority, ten connections to each host. */
export class EngineConnections {
  /** The one used last stands last. */
  readonly #pools = new Map<string, Agent>()
  /** Of an answer that is read as a whole. */
  readonly maxBytes: number
  /** Of all of them together. */
  readonly budget: ByteBudget | undefined

  readonly #lookup: Lookup | undefined

  constructor({ maxBytes = ANSWER_BYTES, budgetBytes, lookup }: ConnectionOptions = {}) {
    this.#lookup = lookup
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
      // Calls under way are answered first; one that is cut off is tried again.
      void oldest[1].close()
    }
    return new Agent({
      connections: ENGINE_CONNECTIONS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // A snapshot takes as long as it takes: each call has its own deadline.
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

/** By host name: of one pod, or of the client Service when no ordinal is given. */
export function directRoute(
  connections: EngineConnections,
  connection: Connection,
  ordinal?: number,
): Route {
  const base = ordinal === undefined ? endpointOf(connection) : podEndpointOf(connection, ordinal)
  return routeTo(base, connections)
}

/** To any address, such as the source of a migration. */
export function routeTo(base: string, connections: EngineConnections): Route {
  const node = masked(base)
  return {
    node,
    async send(call, ca) {
      const { method, path, signal } = call
      const { maxBytes, budget } = connections
      try {
        return await ask(base + path, {
          ...{ ...call, maxBytes, budget },
          dispatcher: connections.pool(ca),
        })
      } catch (cause) {
        throw noAnswer(`${method} ${node}${path}`, cause, signal)
      }
    },
    async open({ method, path, headers, body, timeoutMs, stallMs, signal }, ca) {
      const end = deadline(timeoutMs, signal)
      try {
        const answer = await request(base + path, {
          method,
          headers,
          body: body ?? null,
          dispatcher: connections.pool(ca),
          headersTimeout: stallMs,
          bodyTimeout: stallMs,
          signal: end.signal,
        })
        answer.body.once('close', () => end.clear())
        return streamAnswerOf(answer)
      } catch (cause) {
        end.clear()
        throw noAnswer(`${method} ${node}${path}`, cause, signal)
      }
    },
  }
}

/**
 * Through the API server, which reaches pods by itself; it does not verify their certificates. What
 * is asked of the Service goes to the first pod, for every node serves every call.
 */
export function proxyRoute(kubernetes: Kubernetes, connection: Connection, ordinal = 0): Route {
  const { namespace, name, tls } = connection
  const pod = `${releaseName(name)}-${ordinal}`
  const target = `${tls ? 'https' : 'http'}:${pod}:${HTTP_PORT}`
  const proxy = `/api/v1/namespaces/${namespace}/pods/${target}/proxy`
  const failed = ({ method, path, signal }: EngineCall) => {
    return (cause: unknown): never => {
      throw noAnswer(`${method} ${pod}${path}`, cause, signal)
    }
  }
  return {
    node: `${pod}.${namespace}`,
    send: (call) =>
      kubernetes.call(call.method, proxy + call.path, optionsOf(call)).catch(failed(call)),
    open: (call) => {
      const options = { ...optionsOf(call), stallMs: call.stallMs }
      return kubernetes.open(call.method, proxy + call.path, options).catch(failed(call))
    },
  }
}

function optionsOf({ headers, timeoutMs, signal, body }: EngineCall) {
  return { headers, timeoutMs, signal, ...(body !== undefined && { body }) }
}

function noAnswer(call: string, cause: unknown, signal: AbortSignal | undefined): EngineError {
  signal?.throwIfAborted()
  const why = isUntrusted(cause) ? 'TLS verification failed: ' : ''
  return new EngineError(`${call} got no answer: ${why}${wordsOf(cause)}`, { cause })
}

/** Node's codes of what is wrong with a certificate; they stand in the error or in its cause. */
const UNTRUSTED = /SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET_ISSUER)|CERT_|ALTNAME_INVALID/

function isUntrusted(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  return (typeof code === 'string' && UNTRUSTED.test(code)) || (cause != null && isUntrusted(cause))
}
