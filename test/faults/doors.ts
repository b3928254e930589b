/**
 * The doors between the parts of the operator and the outside: one per pair of client and server. Each call
 * is recorded, so that two runs can be compared, and a fault can be injected into it.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Watches } from './watches.ts'
import { forward, read, respond, type Answer } from './forward.ts'
import type { Exchange, Gate } from './machine/network.ts'
import type { SimulatedProcess } from './machine/process.ts'

/** A call of the operator. */
export interface Call {
  /** Client and server, such as `service>api`, `job>bucket`, `loop>hook`. */
  door: string
  method: string
  path: string
  /** Number of this call among all calls, and among those through its door; both start at 1. */
  number: number
  nth: number
  /** The response is a stream of events that stays open. */
  isWatch: boolean
  client: SimulatedProcess
}

/** What a fault does to a call. */
export type Effect =
  | { kind: 'refuse'; answer: Answer }
  /** The connection is closed before the server receives the request. */
  | { kind: 'cut' }
  /** The server handles the request and its response is lost. */
  | { kind: 'lost' }
  /** The server receives the request after `seconds`. */
  | { kind: 'late'; seconds: number }
  /** The server handles the request at once and its response arrives after `seconds`. */
  | { kind: 'slow'; seconds: number }
  /** The server handles the request twice, `seconds` apart; the client gets only the first response. */
  | { kind: 'again'; seconds: number }

/** Returns the fault of a call; undefined passes the call on unchanged. */
export type Decide = (call: Call) => Effect | undefined

/** Only the calls of these processes, which belong to the operator, are recorded. */
const CALLERS = new Set(['service', 'loop', 'job', 'helm'])

export class Doors {
  readonly #trace = createHash('sha256')
  readonly #counts = new Map<string, number>()
  #number = 0
  #decide: Decide = () => undefined
  #observe: (call: Call) => void = () => undefined
  readonly lines: string[] = []
  readonly watches = new Watches()

  decide(decide: Decide): void {
    this.#decide = decide
  }

  /** Sets a function that is called for each call, before its fault is decided. */
  observe(observe: (call: Call) => void): void {
    this.#observe = observe
  }

  /** Number of calls so far. */
  get count(): number {
    return this.#number
  }

  counts(): Record<string, number> {
    return Object.fromEntries([...this.#counts].sort(([one], [other]) => (one < other ? -1 : 1)))
  }

  /** Hash of everything recorded so far. */
  trace(): string {
    return this.#trace.copy().digest('hex').slice(0, 16)
  }

  /** Records an event that is not a call. */
  note(line: string): void {
    this.lines.push(line)
    this.#trace.update(`${line}\n`)
  }

  /** The gate that the network passes each request through. */
  gate(): Gate {
    return (exchange, pass) => {
      const { client, request } = exchange
      if (client === undefined || !CALLERS.has(client.name)) {
        pass()
        return
      }
      const call = this.#callOf(exchange, client)
      this.#observe(call)
      const effect = this.#decide(call)
      this.note(`${call.number} ${call.door} ${call.method} ${call.path} ${effect?.kind ?? ''}`)
      if (effect === undefined || (call.isWatch && effect.kind !== 'refuse')) {
        if (call.isWatch) this.watches.follow(exchange.response)
        pass()
      } else void carryOut(effect, request, exchange.response)
    }
  }

  #callOf({ server, request }: Exchange, client: SimulatedProcess): Call {
    const { method = 'GET', url = '/' } = request
    const door = `${client.name}>${targetOf(server?.name ?? '', url)}`
    const nth = (this.#counts.get(door) ?? 0) + 1
    this.#counts.set(door, nth)
    this.#number += 1
    const path = url.replace(/X-Amz-[^&]*&?/g, '')
    const isWatch = /[?&]watch=/.test(url)
    return { door, method, path, number: this.#number, nth, isWatch, client }
  }
}

/** Requests to an engine go through the proxy of the API server. */
function targetOf(server: string, url: string): string {
  return server === 'api' && /\/pods\/[^/]+\/proxy\//.test(url) ? 'engine' : server
}

async function carryOut(effect: Effect, request: IncomingMessage, response: ServerResponse) {
  try {
    const body = await read(request)
    switch (effect.kind) {
      case 'refuse':
        respond(response, effect.answer)
        return
      case 'cut':
        request.socket.destroy()
        return
      case 'lost':
        await forward(request, body)
        request.socket.destroy()
        return
      case 'late':
        await pause(effect.seconds)
        respond(response, await forward(request, body))
        return
      case 'slow': {
        const answer = await forward(request, body)
        await pause(effect.seconds)
        respond(response, answer)
        return
      }
      case 'again':
        respond(response, await forward(request, body))
        await pause(effect.seconds)
        await forward(request, body)
    }
  } catch {
    // The client or the server is gone: there is no response to send.
    request.socket.destroy()
  }
}

function pause(seconds: number): Promise<unknown> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}
