/**
 * The doors between the parts of the operator and the outside. Every call goes through one; each is
 * noted, so that two runs can be compared, and may meet a fault.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Watches } from './watches.ts'
import { forward, read, respond, type Answer } from './forward.ts'
import type { Exchange, Gate } from './machine/network.ts'
import type { SimulatedProcess } from './machine/process.ts'

/** A call of the operator, as it came to a door. */
export interface Call {
  /** Who calls whom, such as `service>api`, `job>bucket`, `loop>hook`. */
  door: string
  method: string
  path: string
  /** Of this call among all, and among those through its door; from 1. */
  number: number
  nth: number
  /** A stream that lasts. */
  isWatch: boolean
  client: SimulatedProcess
}

/** What happens to a call instead of an answer. */
export type Verdict =
  | { kind: 'refuse'; answer: Answer }
  /** The connection is cut, and nothing was done. */
  | { kind: 'cut' }
  /** It is done, and the answer is lost. */
  | { kind: 'lost' }
  /** It is done so many seconds later. */
  | { kind: 'late'; seconds: number }
  /** It is done, and the answer takes so many seconds. */
  | { kind: 'slow'; seconds: number }
  /** It is done, and so many seconds later once more, of which nobody hears. */
  | { kind: 'again'; seconds: number }

/** Decides call by call; undefined lets it pass. */
export type Decide = (call: Call) => Verdict | undefined

/** Those whose calls count: the operator's own processes. */
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

  /** Called for each call, before a fault is decided. */
  observe(observe: (call: Call) => void): void {
    this.#observe = observe
  }

  /** How many calls went through. */
  get count(): number {
    return this.#number
  }

  counts(): Record<string, number> {
    return Object.fromEntries([...this.#counts].sort(([one], [other]) => (one < other ? -1 : 1)))
  }

  /** What happened so far, as a hash. */
  trace(): string {
    return this.#trace.copy().digest('hex').slice(0, 16)
  }

  /** What is no call, and belongs to the run. */
  note(line: string): void {
    this.lines.push(line)
    this.#trace.update(`${line}\n`)
  }

  /** For the network. */
  gate(): Gate {
    return (exchange, pass) => {
      const { client, request } = exchange
      if (client === undefined || !CALLERS.has(client.name)) {
        pass()
        return
      }
      const call = this.#callOf(exchange, client)
      this.#observe(call)
      const verdict = this.#decide(call)
      this.note(`${call.number} ${call.door} ${call.method} ${call.path} ${verdict?.kind ?? ''}`)
      if (verdict === undefined || (call.isWatch && verdict.kind !== 'refuse')) {
        if (call.isWatch) this.watches.follow(exchange.response)
        pass()
      } else void carryOut(verdict, request, exchange.response)
    }
  }

  #callOf({ server, request }: Exchange, client: SimulatedProcess): Call {
    const { method = 'GET', url = '/' } = request
    const door = `${client.name}>${placeOf(server?.name ?? '', url)}`
    const nth = (this.#counts.get(door) ?? 0) + 1
    this.#counts.set(door, nth)
    this.#number += 1
    const path = url.replace(/X-Amz-[^&]*&?/g, '')
    const isWatch = /[?&]watch=/.test(url)
    return { door, method, path, number: this.#number, nth, isWatch, client }
  }
}

/** An engine is reached through the API server. */
function placeOf(server: string, url: string): string {
  return server === 'api' && /\/pods\/[^/]+\/proxy\//.test(url) ? 'engine' : server
}

async function carryOut(verdict: Verdict, request: IncomingMessage, response: ServerResponse) {
  try {
    const body = await read(request)
    switch (verdict.kind) {
      case 'refuse':
        respond(response, verdict.answer)
        return
      case 'cut':
        request.socket.destroy()
        return
      case 'lost':
        await forward(request, body)
        request.socket.destroy()
        return
      case 'late':
        await pause(verdict.seconds)
        respond(response, await forward(request, body))
        return
      case 'slow': {
        const answer = await forward(request, body)
        await pause(verdict.seconds)
        respond(response, answer)
        return
      }
      case 'again':
        respond(response, await forward(request, body))
        await pause(verdict.seconds)
        await forward(request, body)
    }
  } catch {
    // Who cannot be reached, or went away, gets no answer.
    request.socket.destroy()
  }
}

function pause(seconds: number): Promise<unknown> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}
