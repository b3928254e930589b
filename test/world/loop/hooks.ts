/** Calls a hook over HTTP. Only a 200 whose body reads well is an answer; the rest is an error. */
import type { Static, TObject } from '@sinclair/typebox'
import { Agent, request, type Dispatcher } from 'undici'
import { parseDuration } from '../../../crds/units.ts'
import type { ApiClient } from '../client.ts'
import type { Clock } from '../clock.ts'
import { readAnswer } from './answer.ts'
import type { Webhook } from './composite.ts'
import { isRecord } from './object.ts'

const DEFAULT_TIMEOUT_MS = 10_000

/** The hook answered 429: call again after this time; it is no failure. */
export class TooManyRequests extends Error {
  readonly seconds: number

  constructor(seconds: number) {
    super(`too many requests, again after ${seconds} s`)
    this.seconds = seconds
  }
}

export interface HookSurroundings {
  api: ApiClient
  clock: Clock
  /** Where a URL is reached from here; asked at every call, because a service may move. */
  resolve: (url: string) => string
  stopped: AbortSignal
}

export class Hook<Schema extends TObject> {
  readonly #schema: Schema
  readonly #webhook: Webhook
  readonly #headers: Record<string, string>
  readonly #agent: Agent
  readonly #surroundings: HookSurroundings

  private constructor(
    webhook: Webhook,
    schema: Schema,
    authorization: Record<string, string>,
    surroundings: HookSurroundings,
  ) {
    this.#webhook = webhook
    this.#schema = schema
    this.#surroundings = surroundings
    this.#headers = { 'content-type': 'application/json', ...authorization }
    const ca = webhook.caBundle?.inline
    this.#agent = new Agent(ca === undefined ? {} : { connect: { ca } })
  }

  /** Credentials are read once, here: a new one takes a new controller. */
  static async open<Schema extends TObject>(
    webhook: Webhook,
    schema: Schema,
    surroundings: HookSurroundings,
  ): Promise<Hook<Schema>> {
    const authorization = await authorizationOf(webhook, surroundings.api)
    return new Hook(webhook, schema, authorization, surroundings)
  }

  async call(body: object): Promise<Static<Schema>> {
    const answer = await this.#post(JSON.stringify(body))
    if (answer.statusCode === 429) {
      await answer.body.dump()
      throw new TooManyRequests(this.#retryAfter(answer))
    }
    const text = await answer.body.text()
    if (answer.statusCode !== 200) {
      throw new Error(`unsupported status code: ${answer.statusCode} body: ${text}`)
    }
    return readAnswer(text, this.#schema, this.#webhook.responseUnMarshallMode !== 'loose')
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #post(body: string): Promise<Dispatcher.ResponseData> {
    const { stopped, resolve } = this.#surroundings
    // Real time, also where the world has a clock of its own: the other side is a real process.
    const signal = AbortSignal.any([stopped, AbortSignal.timeout(timeoutOf(this.#webhook))])
    // Resolved for each call: a restarted service has another address.
    const url = resolve(urlOf(this.#webhook))
    const options = { headers: this.#headers, body, signal, dispatcher: this.#agent }
    return request(url, { method: 'POST', ...options })
  }

  /** Seconds or a date; anything else is no wait at all. */
  #retryAfter({ headers }: Dispatcher.ResponseData): number {
    const text = String(headers['retry-after'] ?? '')
    if (/^[+-]?\d+$/.test(text)) return Number(text)
    const date = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN
    if (Number.isNaN(date)) return 0
    return Math.ceil((date - this.#surroundings.clock.now().getTime()) / 1000)
  }
}

const HTTP_DATE = /^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} \w+$/

function timeoutOf({ timeout }: Webhook): number {
  if (timeout === undefined) return DEFAULT_TIMEOUT_MS
  const milliseconds = /^(\d+)ms$/.exec(timeout)?.[1]
  return (
    (milliseconds === undefined ? parseDuration(timeout) * 1000 : Number(milliseconds)) ||
    DEFAULT_TIMEOUT_MS
  )
}

function urlOf({ url, service, path }: Webhook): string {
  if (url !== undefined) return url
  if (service === undefined || path === undefined) {
    throw new Error("invalid webhook config: must specify 'url', or both 'service' and 'path'")
  }
  const { protocol = 'http', name, namespace, port = 80 } = service
  return `${protocol}://${name}.${namespace}:${port}${path}`
}

async function authorizationOf(
  { authorization }: Webhook,
  api: ApiClient,
): Promise<Record<string, string>> {
  if (authorization === undefined) return {}
  const { type = 'Bearer', secretRef } = authorization
  const { name, namespace, key } = secretRef
  const secret = await api.get({ apiVersion: 'v1', kind: 'Secret', namespace, name })
  const encoded = isRecord(secret?.['data']) ? secret['data'][key] : undefined
  if (typeof encoded !== 'string') {
    throw new Error(`authorization: Secret ${namespace}/${name} has no key ${key}`)
  }
  const credential = Buffer.from(encoded, 'base64').toString().trim()
  return { authorization: `${type} ${credential}` }
}
