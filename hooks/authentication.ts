/**
 * Authentication of hook requests: which routes need a token. Also the limits of their connections. Clients that have not presented the token yet get few connections and
 * little time, so that they can neither exhaust the memory of the process nor block Metacontroller.
 */
import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Maximum connections of one server, with or without TLS. */
type ListeningServer = Pick<Server, 'on'> & { maxConnections: number }

/** Maximum connections without a valid token. Beyond it, the oldest of them is closed. */
const MAX_UNAUTHENTICATED = 200
/** Metacontroller has five workers for each of seven kinds. */
const MAX_CONNECTIONS = 1000

/** Timeouts that Node enforces, in milliseconds. */
export const TIME_LIMITS = {
  /** From the first to the last byte of a request. */
  requestTimeout: 15_000,
  /** From the connection to the end of the headers. */
  headersTimeout: 10_000,
  /** How often both are checked. */
  connectionsCheckingInterval: 5_000,
}

/** Served without a token: probes and Prometheus have none. */
const UNAUTHENTICATED_ROUTES = new Set(['GET /healthz', 'GET /metrics'])

/** Also for a route that does not exist. */
export function needsToken({ method, is404, routeOptions: { url } }: FastifyRequest): boolean {
  return is404 || !UNAUTHENTICATED_ROUTES.has(`${method} ${url}`)
}

/** Rejects a request without one of the tokens; with an empty list, every request is accepted. */
export function authenticate(request: FastifyRequest, reply: FastifyReply, tokens: string[]): void {
  if (tokens.length === 0) return
  const received = Buffer.from(request.headers.authorization ?? '')
  const matches = tokens.map((token) => constantTimeEqual(received, Buffer.from(`Bearer ${token}`)))
  if (matches.includes(true)) return
  // Do not read the body.
  void reply.header('connection', 'close')
  throw new Unauthorized('the bearer token is missing or wrong')
}

export class ConnectionLimiter {
  /** Keyed by address and port of the client; the oldest is first. */
  readonly #unauthenticated = new Map<string, Socket>()
  readonly #maxUnauthenticated: number
  /** The answer of each connection that is not sent yet. */
  readonly #answers = new WeakMap<Socket, ServerResponse>()
  /** No connection is accepted any more. */
  isClosing = false

  constructor(maxUnauthenticated = MAX_UNAUTHENTICATED) {
    this.#maxUnauthenticated = maxUnauthenticated
  }

  /** Tracks the connections of a server. */
  attach(server: ListeningServer): void {
    server.maxConnections = MAX_CONNECTIONS
    // Below TLS, so that an unfinished handshake counts as well.
    server.on('connection', (socket: Socket) => {
      if (this.isClosing) {
        socket.destroy()
        return
      }
      const address = clientAddress(socket)
      this.#unauthenticated.set(address, socket)
      socket.once('close', () => {
        if (this.#unauthenticated.get(address) === socket) this.#unauthenticated.delete(address)
      })
      this.#closeOldest()
    })
  }

  /**
   * Closes a connection with a request before the answer to the one before: our clients send none, and answers
   * that are not read would take memory without end.
   */
  async refusePipelining({ socket }: IncomingMessage, response: ServerResponse): Promise<boolean> {
    // On TLS, Node says that an answer is sent one round of its event loop later. Its client may have read it before.
    if (this.#answers.get(socket)?.writableEnded === true) await setImmediate()
    if (socket.destroyed || this.#answers.has(socket)) {
      socket.destroy()
      return true
    }
    this.#answers.set(socket, response)
    response.once('close', () => this.#answers.delete(socket))
    return false
  }

  /** The client of this connection has presented the token. */
  markAuthenticated(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): void {
    this.#unauthenticated.delete(clientAddress(socket))
  }

  /**
   * Closes the connections without a valid token: a server that closes waits for its connections, and Node enforces none of
   * its timeouts meanwhile.
   */
  close(): void {
    this.isClosing = true
    for (const socket of this.#unauthenticated.values()) socket.destroy()
  }

  #closeOldest(): void {
    if (this.#unauthenticated.size <= this.#maxUnauthenticated) return
    const [oldest] = this.#unauthenticated
    if (oldest === undefined) return
    this.#unauthenticated.delete(oldest[0])
    oldest[1].destroy()
  }
}

/** Identical for a connection and for the TLS session on it. */
function clientAddress({
  remoteAddress,
  remotePort,
}: Pick<Socket, 'remoteAddress' | 'remotePort'>) {
  return `${remoteAddress ?? ''} ${remotePort ?? 0}`
}

class Unauthorized extends Error {
  readonly statusCode = 401
}

/** Takes the same time for any token of the right length; the length of ours is no secret. */
function constantTimeEqual(received: Buffer, expected: Buffer): boolean {
  return received.length === expected.length && timingSafeEqual(received, expected)
}
