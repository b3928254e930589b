/**
 * The network of the simulated machine: in-memory connections between its processes. Data arrives in the
 * order in which it was sent, one cycle of the event loop later. Only a test can make it behave differently.
 */
import http from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { bound, currentProcess, type SimulatedProcess } from './process.ts'
import { LocalSocket } from './socket.ts'

/** A request as its server receives it. */
export interface Exchange {
  client: SimulatedProcess | undefined
  server: SimulatedProcess | undefined
  request: http.IncomingMessage
  response: http.ServerResponse
}

/** Called for each request to a server; `pass` hands the request to the server. */
export type Gate = (exchange: Exchange, pass: () => void) => void

export interface Network {
  /** Number of deliveries in transit. */
  pending(): number
  /** Number of deliveries so far. */
  arrived(): number
  guard(gate: Gate): void
  /** With true, connections to the server are refused until it is called with false. */
  cutOff(server: string, isOff: boolean): void
  /** Removes all servers: a server that remains would keep its whole world in memory. */
  reset(): void
}

interface Listening {
  server: net.Server
  process: SimulatedProcess | undefined
  accept: (socket: LocalSocket) => void
}

const FIRST_PORT = 20_000

/** Replaces the network of this process: servers listen and clients connect on the simulated one only. */
export function installNetwork(): Network {
  const network = new LocalNetwork()
  const connect = (options: unknown) => network.connect(portOf(options))
  Object.assign(net, { connect, createConnection: connect })
  Object.assign(http.Agent.prototype, { createConnection: connect })
  Object.assign(net.Server.prototype, {
    listen(this: net.Server, ...values: unknown[]) {
      network.listen(this, values)
      return this
    },
    address(this: net.Server) {
      return network.addressOf(this)
    },
    close(this: net.Server, done?: () => void) {
      network.close(this)
      if (done !== undefined) this.once('close', done)
      process.nextTick(() => this.emit('close'))
      return this
    },
  })
  Object.defineProperty(net.Server.prototype, 'listening', {
    get(this: net.Server) {
      return network.addressOf(this) !== null
    },
  })
  syncBuiltinESMExports()
  return network
}

function portOf(options: unknown): number {
  return typeof options === 'number' ? options : Number((options as { port: unknown }).port)
}

class LocalNetwork implements Network {
  readonly #listening = new Map<number, Listening>()
  readonly #ports = new WeakMap<net.Server, number>()
  readonly #off = new Set<string>()
  readonly #accepted = new Set<LocalSocket>()
  #queue: (() => void)[] = []
  #scheduled = false
  #arrived = 0
  #nextPort = FIRST_PORT
  #gate: Gate = (_, pass) => pass()

  pending(): number {
    return this.#queue.length
  }

  arrived(): number {
    return this.#arrived
  }

  guard(gate: Gate): void {
    this.#gate = gate
  }

  cutOff(server: string, isOff: boolean): void {
    if (!isOff) {
      this.#off.delete(server)
      return
    }
    this.#off.add(server)
    for (const socket of this.#accepted) if (socket.owner?.name === server) socket.destroy()
  }

  reset(): void {
    this.#listening.clear()
    this.#accepted.clear()
    this.#off.clear()
  }

  /** Delivers in the next cycle of the event loop, in the order of the calls. */
  carry(deliver: () => void): void {
    this.#queue.push(deliver)
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      const queue = this.#queue
      this.#queue = []
      this.#arrived += queue.length
      for (const each of queue) each()
    })
  }

  listen(server: net.Server, values: unknown[]): void {
    this.#nextPort += 1
    const port = this.#nextPort
    const owner = currentProcess()
    this.#ports.set(server, port)
    this.#guard(server, owner)
    let accepted: LocalSocket | undefined
    const accept = bound(() => server.emit('connection', accepted))
    this.#listening.set(port, {
      server,
      process: owner,
      accept(socket) {
        accepted = socket
        accept()
      },
    })
    const done = values.find((value) => typeof value === 'function')
    if (done !== undefined) server.once('listening', done as () => void)
    process.nextTick(() => server.emit('listening'))
  }

  addressOf(server: net.Server): net.AddressInfo | null {
    const port = this.#ports.get(server)
    if (port === undefined || !this.#listening.has(port)) return null
    return { address: '127.0.0.1', family: 'IPv4', port }
  }

  close(server: net.Server): void {
    this.#listening.delete(this.#ports.get(server) ?? 0)
  }

  connect(port: number): LocalSocket {
    const socket = new LocalSocket(this, currentProcess())
    const opened = bound(() => socket.opened())
    const refused = bound(() => socket.refused(port))
    this.carry(() => {
      const found = this.#listening.get(port)
      const owner = found?.process
      if (found === undefined || owner?.alive === false || this.#off.has(owner?.name ?? '')) {
        refused()
        return
      }
      const other = new LocalSocket(this, owner, port)
      socket.join(other)
      this.#accepted.add(other)
      other.once('close', () => this.#accepted.delete(other))
      found.accept(other)
      opened()
    })
    return socket
  }

  /** Passes the requests of an HTTP server through the gate. */
  #guard(server: net.Server, owner: SimulatedProcess | undefined): void {
    if (!(server instanceof http.Server)) return
    const answer = server.listeners('request') as http.RequestListener[]
    server.removeAllListeners('request')
    server.on('request', (request: http.IncomingMessage, response: http.ServerResponse) => {
      const client = (request.socket as unknown as LocalSocket).peer?.owner
      this.#gate({ client, server: owner, request, response }, () => {
        for (const listener of answer) listener.call(server, request, response as never)
      })
    })
  }
}
