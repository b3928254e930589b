/**
 * Limits of the hook port. Clients that have not presented the token yet get few connections and
 * little time, so that they can neither exhaust the memory of the process nor block Metacontroller.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

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

export class ConnectionLimiter {
  /** Keyed by address and port of the client; the oldest is first. */
  readonly #unauthenticated = new Map<string, Socket>()
  readonly #maxUnauthenticated: number

  constructor(maxUnauthenticated = MAX_UNAUTHENTICATED) {
    this.#maxUnauthenticated = maxUnauthenticated
  }

  /** Tracks the connections of a server. */
  attach(server: ListeningServer): void {
    server.maxConnections = MAX_CONNECTIONS
    // Below TLS, so that an unfinished handshake counts as well.
    server.on('connection', (socket: Socket) => {
      const address = clientAddress(socket)
      this.#unauthenticated.set(address, socket)
      socket.once('close', () => {
        if (this.#unauthenticated.get(address) === socket) this.#unauthenticated.delete(address)
      })
      this.#closeOldest()
    })
  }

  /** The client of this connection has presented the token. */
  markAuthenticated(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): void {
    this.#unauthenticated.delete(clientAddress(socket))
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
