/** A hook service that gives the answers of a case and records its requests. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { ApiObject } from '../../world/client.ts'

export type HookName = 'sync' | 'finalize' | 'customize'

type Objects = Record<string, Record<string, ApiObject>>

/** What arrives; children, related and finalizing are not sent to customize. */
export interface HookBody {
  controller: ApiObject
  parent: ApiObject
  children: Objects
  related: Objects
  finalizing: boolean
}

export interface HookCall {
  hook: HookName
  body: HookBody
  /** When it arrived, by the clock of the subject, in milliseconds. */
  at: number
  headers: Record<string, string>
}

/** Anything but a 200 with this JSON. */
export class Reply {
  readonly status: number
  readonly body: string
  readonly headers: Record<string, string>

  constructor(status: number, body = '', headers: Record<string, string> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/** No answer at all: the connection ends. */
export const BROKEN = Symbol('broken')

type Answer = (body: HookBody) => unknown

export class HookServer {
  readonly calls: HookCall[] = []
  readonly url: string
  /** The largest number of concurrent calls for one parent. */
  mostAtOnce = 0
  readonly #server: ReturnType<typeof createServer>
  readonly #answers: Record<HookName, Answer> = {
    sync: () => ({}),
    finalize: () => ({ finalized: true }),
    customize: () => ({ relatedResources: [] }),
  }
  #underWay = 0

  private constructor(server: ReturnType<typeof createServer>, now: () => number) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request, response) => void this.#serve(request, response, now))
  }

  static async start(now: () => number): Promise<HookServer> {
    const server = createServer()
    server.keepAliveTimeout = 120_000
    const { promise, resolve } = Promise.withResolvers<undefined>()
    server.listen(0, '127.0.0.1', () => resolve(undefined))
    await promise
    return new HookServer(server, now)
  }

  /** A Reply is sent as it is, anything else as a 200 with that JSON. */
  answer(hook: HookName, answer: Answer): void {
    this.#answers[hook] = answer
  }

  of(hook: HookName): HookCall[] {
    return this.calls.filter((call) => call.hook === hook)
  }

  get underWay(): number {
    return this.#underWay
  }

  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.#server.close(() => resolve(undefined))
    this.#server.closeAllConnections()
    await promise
  }

  async #serve(request: IncomingMessage, response: ServerResponse, now: () => number) {
    const hook = (request.url ?? '/').slice(1) as HookName
    const body = JSON.parse(await text(request)) as HookBody
    const headers = request.headers as Record<string, string>
    this.calls.push({ hook, body, at: now(), headers })
    this.#underWay += 1
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#underWay)
    try {
      send(response, await this.#answers[hook](body))
    } finally {
      this.#underWay -= 1
    }
  }
}

function send(response: ServerResponse, answer: unknown): void {
  if (answer === BROKEN) {
    response.destroy()
    return
  }
  if (answer instanceof Reply) {
    response.writeHead(answer.status, answer.headers).end(answer.body)
    return
  }
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
}
