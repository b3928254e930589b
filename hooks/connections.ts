/**
 * Limits of the hook port. Whoever has not shown the token yet gets few connections and little time, so
 * that strangers can neither fill the memory of the process nor keep Metacontroller out.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** Connections of one server, with or without TLS. */
type Listener = Pick<Server, 'on'> & { maxConnections: number }

/** Connections on which nobody has shown the token. Past it, the oldest of them is closed. */
const MAX_UNKNOWN = 200
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

export class Connections {
  /** By address and port of the client; the oldest one comes first. */
  readonly #unknown = new Map<string, Socket>()
  readonly #maxUnknown: number

  constructor(maxUnknown = MAX_UNKNOWN) {
    this.#maxUnknown = maxUnknown
  }

  /** Watches the connections of a server. */
  limit(server: Listener): void {
    server.maxConnections = MAX_CONNECTIONS
    // Below TLS: a handshake that is never finished counts as well.
    server.on('connection', (socket: Socket) => {
      const name = nameOf(socket)
      this.#unknown.set(name, socket)
      socket.once('close', () => {
        if (this.#unknown.get(name) === socket) this.#unknown.delete(name)
      })
      this.#closeOldest()
    })
  }

  /** The client of this connection has shown the token. */
  trust(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): void {
    this.#unknown.delete(nameOf(socket))
  }

  #closeOldest(): void {
    if (this.#unknown.size <= this.#maxUnknown) return
    const [oldest] = this.#unknown
    if (oldest === undefined) return
    this.#unknown.delete(oldest[0])
    oldest[1].destroy()
  }
}

/** The same for a connection and for the TLS session on it. */
function nameOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>) {
  return `${remoteAddress ?? ''} ${remotePort ?? 0}`
}
