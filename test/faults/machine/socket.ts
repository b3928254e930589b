/** One end of a connection of the simulated machine: data arrives at the other end in order. */
import type { AddressInfo } from 'node:net'
import { Duplex } from 'node:stream'
import type { SimulatedProcess } from './process.ts'

/** Delivers from one process to another. */
export interface Carrier {
  carry(deliver: () => void): void
}

/** The subset of `net.Socket` that HTTP uses. */
export class LocalSocket extends Duplex {
  readonly owner: SimulatedProcess | undefined
  readonly remoteAddress = '127.0.0.1'
  peer: LocalSocket | undefined
  connecting = true
  readonly #network: Carrier
  readonly #port: number
  readonly #unsent: Buffer[] = []
  readonly #forget: (() => void) | undefined

  constructor(network: Carrier, owner: SimulatedProcess | undefined, port = 0) {
    super({ allowHalfOpen: false })
    this.#network = network
    this.#port = port
    this.owner = owner
    // The machine closes the connections of a process that dies.
    this.#forget = owner?.onKill(() => this.peer?.hungUp())
  }

  join(other: LocalSocket): void {
    this.peer = other
    other.peer = this
    other.connecting = false
  }

  opened(): void {
    this.connecting = false
    this.emit('connect')
    this.emit('ready')
    for (const chunk of this.#unsent) this.#send(chunk)
  }

  refused(port: number): void {
    const error = new Error(`connect ECONNREFUSED 127.0.0.1:${port}`)
    this.destroy(Object.assign(error, { code: 'ECONNREFUSED' }))
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    if (this.connecting) this.#unsent.push(chunk)
    else this.#send(chunk)
    done()
  }

  override _final(done: () => void): void {
    this.#end()
    done()
  }

  override _read(): void {
    // Data is pushed as it arrives.
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#forget?.()
    this.#end()
    done(error)
  }

  /** The process at the other end was killed. */
  hungUp(): void {
    this.#network.carry(this.#ours(() => this.destroy(reset())))
  }

  /** The address of the server, at its end of the connection. */
  address(): AddressInfo {
    return { address: '127.0.0.1', family: 'IPv4', port: this.#port }
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  setTimeout(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  #send(chunk: Buffer): void {
    const { peer } = this
    if (peer === undefined || this.owner?.alive === false) return
    this.#network.carry(peer.#ours(() => peer.destroyed || peer.push(chunk)))
  }

  #end(): void {
    const { peer } = this
    if (peer === undefined || this.owner?.alive === false) return
    this.#network.carry(peer.#ours(() => peer.destroyed || peer.readableEnded || peer.push(null)))
  }

  /** A function that runs as the process that owns this end, unless it was killed. */
  #ours(run: () => unknown): () => void {
    return () => {
      if (this.owner === undefined) run()
      else if (this.owner.alive) this.owner.run(run)
    }
  }
}

function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
}
