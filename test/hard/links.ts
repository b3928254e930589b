/**
 * TCP forwarders on loopback that can be cut and slowed down while connections are open. A cut is silent,
 * as on a network that drops packets: nothing arrives and neither side gets an error.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'

export interface Address {
  host: string
  port: number
}

export interface Condition {
  /** Nothing passes in either direction. */
  cut?: boolean
  /** Bytes per second, in each direction. */
  rate?: number
}

interface Passage {
  tag: string
  near: Socket
  far: Socket
}

/** Names each client by its address; connections with the same name share a condition. */
type TagOf = (near: Socket) => string

/** How long a piece of data waits before the condition is checked again. */
const POLL_MS = 25
const PIECE_MS = 50

export class Link {
  readonly #server: Server
  readonly #target: Address
  readonly #tagOf: TagOf
  readonly #passages = new Set<Passage>()
  readonly #conditions = new Map<string, Condition>()

  private constructor(target: Address, tagOf: TagOf) {
    this.#target = target
    this.#tagOf = tagOf
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (near) =>
      this.#accept(near),
    )
  }

  static async open(target: Address, at: Partial<Address> = {}, tagOf: TagOf = () => '') {
    const link = new Link(target, tagOf)
    const { host = '127.0.0.1', port = 0 } = at
    link.#server.listen(port, host)
    await once(link.#server, 'listening')
    return link
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** What connections of this name meet from now on; without a condition all is well again. */
  set(tag: string, condition?: Condition): void {
    if (condition === undefined) this.#conditions.delete(tag)
    else this.#conditions.set(tag, condition)
  }

  /** Ends every connection, as when the process behind is gone. */
  drop(): void {
    for (const { near, far } of this.#passages) {
      near.destroy()
      far.destroy()
    }
  }

  async close(): Promise<void> {
    this.drop()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #accept(near: Socket): void {
    const tag = this.#tagOf(near)
    const far = connect({ ...this.#target, allowHalfOpen: true })
    const passage: Passage = { tag, near, far }
    this.#passages.add(passage)
    const end = () => {
      near.destroy()
      far.destroy()
      this.#passages.delete(passage)
    }
    near.on('error', end).on('close', end)
    far.on('error', end).on('close', end)
    this.#pump(passage, near, far)
    this.#pump(passage, far, near)
  }

  /** Reads a piece only when the one before has left: a slow link fills the buffers of the sender. */
  #pump(passage: Passage, from: Readable, to: Writable): void {
    const move = async () => {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        let rest = chunk
        while (rest.length > 0 && to.writable) {
          await this.#whileCut(passage)
          const { rate } = this.#conditionOf(passage)
          const size = rate === undefined ? rest.length : pieceOf(rate)
          const piece = rest.subarray(0, size)
          rest = rest.subarray(size)
          if (!to.write(piece)) await Promise.race([once(to, 'drain'), once(to, 'close')])
          if (rate !== undefined) await delay((piece.length / rate) * 1000)
        }
      }
      await this.#whileCut(passage)
      to.end()
    }
    // When one side closes early, both sides are closed.
    move().catch(() => to.destroy())
  }

  async #whileCut(passage: Passage): Promise<void> {
    while (this.#conditionOf(passage).cut === true && !passage.near.destroyed) await delay(POLL_MS)
  }

  #conditionOf({ tag }: Passage): Condition {
    return this.#conditions.get(tag) ?? {}
  }
}

function pieceOf(rate: number): number {
  return Math.max(1, Math.round((rate * PIECE_MS) / 1000))
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
