/**
 * Limits what the bodies of hooks take in memory. A tenant can add children to a resource of theirs until the
 * request is full, and Metacontroller sends several requests at once.
 */
import type { ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyRequest, preParsingAsyncHookHandler } from 'fastify'
import { MAX_REQUEST_BYTES } from '../crds/contract/limits.ts'
import { scanRequest } from './request-text.ts'

/** A body of at most this size is neither counted nor looked through. */
const SMALL_BYTES = 64 * 1024
/** A parsed value takes 40 bytes and more, whatever its text takes. The densest backups have one for each 14 bytes. */
export const MAX_REQUEST_VALUES = 800_000

/**
 * Large bodies of the routes with this hook wait until those before them have been answered, so that all together
 * stay within the limits. Only for routes that authenticate: a client holds its place until it has read the answer.
 */
export function limitBodies(server: FastifyInstance): preParsingAsyncHookHandler {
  const bytes = new Budget(MAX_REQUEST_BYTES)
  const values = new Budget(MAX_REQUEST_VALUES)
  const responses = new WeakMap<FastifyRequest, ServerResponse>()
  const parse = server.getDefaultJsonParser('ignore', 'ignore')
  server.removeContentTypeParser('application/json')
  const options = { parseAs: 'string' } as const
  server.addContentTypeParser<string>('application/json', options, (request, text, done) => {
    const response = responses.get(request)
    if (response === undefined) {
      void parse(request, text, done)
      return
    }
    const scanned = scanRequest(text)
    if (scanned.values > MAX_REQUEST_VALUES) {
      done(new TooManyValues(), undefined)
      return
    }
    void values.take(scanned.values, response).then((isOpen) => {
      if (isOpen) void parse(request, scanned.json, done)
      else done(new ClientDisconnected(), undefined)
    })
  })
  return async (request, { raw: response }) => {
    const size = bodySize(request) ?? MAX_REQUEST_BYTES
    // One above the limit is rejected by its route, unread.
    if (size <= SMALL_BYTES || size > MAX_REQUEST_BYTES) return
    responses.set(request, response)
    if (!(await bytes.take(size, response))) throw new ClientDisconnected()
  }
}

/** In bytes; undefined if the body is chunked, which Metacontroller does not send. */
export function bodySize({ headers }: FastifyRequest): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return undefined
  return Number(headers['content-length'] ?? 0)
}

interface WaitingBody {
  amount: number
  begin: (isOpen: boolean) => void
}

/** What is taken is released when the response is closed. */
class Budget {
  #remaining: number
  /** In order of arrival: no large body waits for ever because smaller ones fit. */
  readonly #waiting = new Set<WaitingBody>()

  constructor(amount: number) {
    this.#remaining = amount
  }

  /** Resolves with false, and nothing is taken, if the response was closed before. */
  async take(amount: number, response: ServerResponse): Promise<boolean> {
    if (response.closed) return false
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const body = { amount, begin: resolve }
    this.#waiting.add(body)
    response.once('close', () => {
      if (this.#waiting.delete(body)) resolve(false)
      else this.#remaining += amount
      this.#beginNext()
    })
    this.#beginNext()
    return promise
  }

  #beginNext(): void {
    for (const body of this.#waiting) {
      if (body.amount > this.#remaining) return
      this.#waiting.delete(body)
      this.#remaining -= body.amount
      body.begin(true)
    }
  }
}

class TooManyValues extends Error {
  readonly statusCode = 413

  constructor() {
    super(`the request has more than ${MAX_REQUEST_VALUES} values`)
  }
}

/** No client reads this answer. */
class ClientDisconnected extends Error {
  readonly statusCode = 503

  constructor() {
    super('the client has closed the connection')
  }
}
