/**
 * Limits of the hook port. Whoever has not shown the token yet gets few connections and little time, so
 * that strangers can neither fill the memory of the process nor keep Metacontroller out.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** Connections of one server, with or without TLS. */
type ListeningServer = Pick<Server, 'on'> & { maxConnections: number }

/** Connections on which nobody has shown the token. Past it, the oldest of them is closed. */
const MAX_UNAUTHENTICATED = 200
/** Metacontroller has five workers for each of seven kinds. */
const MAX_CONNECTIONS = 1000

/** Time limits that Node applies by itself, in milliseconds. */
export const TIME_LIMITS = {
  /** From the first byte to the last one of a request. */
  requestTimeout: 15_000,
  /** From the connection to the end of the headers. */
  headersTimeout: 10_000,
  /** How often both are checked. */
  connectionsCheckingInterval: 5_000,
}

export class ConnectionLimiter {
  /** By address and port of the client; the oldest one comes first. */
  readonly #unauthenticated = new Map<string, Socket>()
  readonly #maxUnauthenticated: number

  constructor(maxUnauthenticated = MAX_UNAUTHENTICATED) {
    this.#maxUnauthenticated = maxUnauthenticated
  }

  /** Watches the connections of a server. */
  attach(server: ListeningServer): void {
    server.maxConnections = MAX_CONNECTIONS
    // Below TLS: a handshake that is never finished counts as well.
    server.on('connection', (socket: Socket) => {
      const address = clientAddress(socket)
      this.#unauthenticated.set(address, socket)
      socket.once('close', () => {
        if (this.#unauthenticated.get(address) === socket) this.#unauthenticated.delete(address)
      })
      this.#closeOldest()
    })
  }

  /** The client of this connection has shown the token. */
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

/** The same for a connection and for the TLS session on it. */
function clientAddress({
  remoteAddress,
  remotePort,
}: Pick<Socket, 'remoteAddress' | 'remotePort'>) {
  return `${remoteAddress ?? ''} ${remotePort ?? 0}`
}
