/**
 * HTTP calls with their deadlines, their error messages without credentials, and the validation of
 * responses.
 * Responses that are read as a whole do not use the streams of undici's own `request`: those
 * survive V8's young generation, 4 KiB per call, and a service that makes calls in every hook would
 * pause for a full garbage collection every thousand hooks.
 */
import { Readable } from 'node:stream'
import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { getGlobalDispatcher, type Dispatcher } from 'undici'
import { LONG_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { ByteCounter, freeBuffer, MAX_RESPONSE_BYTES, type ByteBudget } from './body.ts'

export interface HttpResponse {
  status: number
  text: string
  /** From the header Retry-After. */
  retryAfterSeconds?: number | undefined
  /** The header Date: the time of the server. */
  date?: string | undefined
}

interface HttpRequest {
  method: Dispatcher.HttpMethod
  headers: Record<string, string>
  body?: string | Readable | undefined
  timeoutMs: number
  /** Limit for the response: above it the call fails with `ResponseTooLarge`. */
  maxBytes?: number | undefined
  /** Shared with other calls. */
  budget?: ByteBudget | undefined
  signal?: AbortSignal | undefined
  dispatcher?: Dispatcher | undefined
}

/** Rejects with the reason of the signal, or once the deadline has passed. */
export async function sendRequest(
  url: string,
  { method, headers, body, timeoutMs, signal, ...call }: HttpRequest,
): Promise<HttpResponse> {
  signal?.throwIfAborted()
  const { maxBytes = MAX_RESPONSE_BYTES, budget, dispatcher = getGlobalDispatcher() } = call
  const { origin, pathname, search } = new URL(url)
  const counter = new ByteCounter(maxBytes, budget)
  const handler = new ResponseHandler(counter)
  const clear = abortAfter(timeoutMs, signal, (reason) => handler.abort(reason))
  try {
    const path = pathname + search
    dispatcher.dispatch({ origin, path, method, headers, body: body ?? null }, handler)
    return await handler.response
  } catch (error) {
    // A body that is no longer sent is no longer read.
    if (body instanceof Readable) body.on('error', () => undefined).destroy()
    throw error
  } finally {
    clear()
    counter.release()
  }
}

/** Collects a response as it arrives. */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #result = Promise.withResolvers<HttpResponse>()
  readonly #chunks: Buffer[] = []
  readonly #counter: ByteCounter
  #controller: Dispatcher.DispatchController | undefined
  #abortReason: Error | undefined
  #status = 0
  #retryAfter: string | string[] | undefined
  #date: string | string[] | undefined

  constructor(counter: ByteCounter) {
    this.#counter = counter
  }

  get response(): Promise<HttpResponse> {
    return this.#result.promise
  }

  /** A call that waits for a connection ends at once and is not sent when one becomes available. */
  abort(reason: Error): void {
    this.#abortReason = reason
    this.#chunks.length = 0
    this.#controller?.abort(reason)
    this.#result.reject(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abortReason !== undefined) controller.abort(this.#abortReason)
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    this.#retryAfter = headers['retry-after']
    this.#date = headers['date']
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#abortReason !== undefined) return
    const error = this.#counter.add(chunk.length)
    if (error === undefined) this.#chunks.push(chunk)
    else this.abort(error)
  }

  onResponseEnd(): void {
    const [first] = this.#chunks
    const bytes = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks)
    const text = bytes?.toString() ?? ''
    // A single chunk is a part of what the connection has received.
    if (bytes !== undefined && bytes !== first) freeBuffer(bytes)
    this.#result.resolve({
      status: this.#status,
      text,
      retryAfterSeconds: parseRetryAfter(this.#retryAfter),
      ...(typeof this.#date === 'string' && { date: this.#date }),
    })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#result.reject(error)
  }
}

/** The minimum throughput that is waited for: 1 MiB/s on average. */
const MIN_BYTES_PER_MS = 1024
/** The maximum delay of a timer. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * The time limit of a call that transfers this many bytes: an hour plus their duration at the
 * minimum throughput.
 */
export function longCallTimeoutMs(bytes = 0): number {
  return Math.min(
    LONG_CALL_TIMEOUT_SECONDS * 1000 + Math.ceil(bytes / MIN_BYTES_PER_MS),
    MAX_TIMER_MS,
  )
}

/** The deadline of a call; cancelled once the call has been answered. */
export interface Deadline {
  signal: AbortSignal
  clear(): void
}

/**
 * A call ends when its signal aborts or its deadline passes. AbortSignal.timeout would keep the
 * state of each call in memory until the timeout, AbortSignal.any until garbage collection, and a
 * service makes many calls in half a minute.
 */
export function deadline(timeoutMs: number, signal?: AbortSignal): Deadline {
  const controller = new AbortController()
  const clear = abortAfter(timeoutMs, signal, (reason) => controller.abort(reason))
  return { signal: controller.signal, clear }
}

/**
 * Aborts a call with the reason of the signal, or at its deadline; the returned value cancels that.
 */
export function abortAfter(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  onAbort: (reason: Error) => void,
): () => void {
  const abort = () => onAbort(signal?.reason as Error)
  if (signal?.aborted === true) abort()
  signal?.addEventListener('abort', abort, { once: true })
  const timer = setTimeout(() => {
    onAbort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  }, timeoutMs).unref()
  return () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

/** Seconds that Retry-After asks for, given as a number or as a date. */
export function parseRetryAfter(
  header: string | string[] | undefined,
  now = new Date(),
): number | undefined {
  const text = String(header ?? '').trim()
  if (text === '') return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - now.getTime()) / 1000
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined
}

/** A response whose body is still to be read. */
export interface StreamResponse {
  status: number
  body: Readable
  /** Bytes of the body, if announced. */
  length?: number | undefined
  /** From the header Retry-After. */
  retryAfterSeconds?: number | undefined
}

type ResponseHeaders = Record<string, string | string[] | undefined>

export function streamResponse({
  statusCode,
  headers,
  body,
}: {
  statusCode: number
  headers: ResponseHeaders
  body: Readable
}): StreamResponse {
  return {
    status: statusCode,
    body,
    length: contentLength(headers['content-length']),
    retryAfterSeconds: parseRetryAfter(headers['retry-after']),
  }
}

/** What went wrong, down to the socket: undici wraps the relevant message. */
export function errorMessage(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(errorMessage).join('; ')
  }
  return error instanceof Error ? error.message : String(error)
}

/** Node's error codes for certificate problems; they are in the error or in its cause. */
const CERTIFICATE_ERRORS = /SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET_ISSUER)|CERT_|ALTNAME_INVALID/

/** Why the certificate of a server is rejected, as a code; undefined for any other error. */
export function certificateError(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  if (typeof code === 'string' && CERTIFICATE_ERRORS.test(code)) return code
  return cause == null ? undefined : certificateError(cause)
}

function contentLength(header: ResponseHeaders[string]): number | undefined {
  return header === undefined ? undefined : Number(header)
}

/** A field by its JSON pointer, and what is wrong with it; never its value, which may be secret. */
export interface SchemaError {
  path: string
  message: string
}

const compiledSchemas = new WeakMap<TSchema, TypeCheck<TSchema>>()

/** The first field that violates the schema; undefined if there is none. */
export function firstSchemaError(schema: TSchema, value: unknown): SchemaError | undefined {
  const check = compiledSchemas.get(schema) ?? TypeCompiler.Compile(schema)
  compiledSchemas.set(schema, check)
  return check.Check(value) ? undefined : check.Errors(value).First()
}
