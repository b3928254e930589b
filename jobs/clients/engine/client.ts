/**
 * The engine's HTTP API. Each method is an endpoint and the shape of its answer; one private `#call`
 * does transport, errors and checking for all of them.
 */
import type { Readable } from 'node:stream'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { EngineError } from '../../../crds/contract/errors.ts'
import { SHORT_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { AddressRefused } from '../http/address-guard.ts'
import {
  MAX_ERROR_BYTES,
  MAX_RESPONSE_BYTES,
  readBody,
  readPrefix,
  type StreamBody,
} from '../http/body.ts'
import { errorMessage, firstSchemaError, type HttpResponse } from '../http/request.ts'
import type { KeyRotation } from './credentials.ts'
import { ClusterStatus, CollectionClusterInfo, CollectionList, VersionInfo } from './responses.ts'
import { collectionPath, loggedTransport, type EngineCall, type Transport } from './transport.ts'

/** The content of the Secrets a call needs. */
export interface EngineCredentials {
  key?: string | undefined
  /** Certificate authority, PEM. */
  ca?: string | undefined
}

interface EngineOptions {
  transport: Transport
  /** Asked before each call: a key that was rotated is used at once. */
  credentials: () => Promise<EngineCredentials>
  /** Asked once when those were refused: they may have been rotated a moment ago. */
  freshCredentials?: () => Promise<EngineCredentials>
  /** Instead, for a Job: waits while a key that worked is being rotated. */
  rotation?: KeyRotation
  log: Logger
}

interface EngineCallOptions {
  body?: object
  /** Instead of a body: cannot be sent twice. */
  stream?: StreamBody
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

interface RawCallOptions {
  body?: object
  timeoutMs?: number
  signal?: AbortSignal | undefined
  maxBytes?: number | undefined
}

const SHORT_CALL_MS = SHORT_CALL_TIMEOUT_SECONDS * 1000
const STALL_MS = 120_000
/** What a node answers without a key. */
const UNAUTHENTICATED_PATHS = new Set(['/', '/readyz'])
/** What the engine says of a bad request may be long; a status has no room for it. */
const MAX_MESSAGE = 1024
/** A page before its tags are taken out. */
const MAX_HTML = 4 * MAX_MESSAGE
/** One point may be long, but not endless. */
const MAX_RAW_BYTES = 4 * MAX_RESPONSE_BYTES

export class Engine {
  readonly node: string
  readonly #options: EngineOptions

  constructor(options: EngineOptions) {
    this.node = options.transport.node
    this.#options = { ...options, transport: loggedTransport(options.transport, options.log) }
  }

  /** Whether this node serves; one that does not answer is not ready. */
  async readyz(signal?: AbortSignal): Promise<boolean> {
    try {
      return (await this.#send('GET', '/readyz', { signal })).status === 200
    } catch (error) {
      const isAddressRefused = error instanceof EngineError && error.cause instanceof AddressRefused
      if (error instanceof EngineError && !isAddressRefused) return false
      throw error
    }
  }

  /** Version of the engine this node runs, such as `1.19.0`. */
  async version(signal?: AbortSignal): Promise<string> {
    const text = this.#requireSuccess(await this.#send('GET', '/', { signal }), 'GET /')
    return this.#validate(VersionInfo, parseJson(text), 'GET /').version
  }

  /** What this node knows of its peers and of its own consensus thread. */
  cluster(signal?: AbortSignal): Promise<ClusterStatus> {
    return this.call('GET', '/cluster', ClusterStatus, { signal })
  }

  async collections(signal?: AbortSignal): Promise<string[]> {
    const { collections } = await this.call('GET', '/collections', CollectionList, { signal })
    return collections.map(({ name }) => name)
  }

  /** Where the shards of a collection are, as this node sees it. */
  collectionCluster(collection: string, signal?: AbortSignal): Promise<CollectionClusterInfo> {
    const path = `${collectionPath(collection)}/cluster`
    return this.call('GET', path, CollectionClusterInfo, { signal })
  }

  /** Also for the endpoints that stand in files beside this one. */
  async call<Schema extends TSchema>(
    method: EngineCall['method'],
    path: string,
    result: Schema,
    options: EngineCallOptions = {},
  ): Promise<Static<Schema>> {
    const call = `${method} ${path}`
    const envelope = parseJson(this.#requireSuccess(await this.#send(method, path, options), call))
    return this.#validate(result, this.#validate(Envelope, envelope, call).result, call)
  }

  /** A file as a stream; ends with an error when no byte comes for STALL_MS. */
  async open(path: string, timeoutMs: number, signal?: AbortSignal): Promise<Readable> {
    const { transport } = this.#options
    const { key, ca } = await this.#credentials()
    const headers = {
      // What is downloaded is measured and hashed as it lies there.
      'accept-encoding': 'identity',
      ...(key !== undefined && { 'api-key': key }),
    }
    const call = { method: 'GET' as const, path, headers, timeoutMs, signal, stallMs: STALL_MS }
    const { status, body } = await transport.open(call, ca)
    if (status === 200) return body
    const response = { status, text: await readPrefix(body) }
    if (await this.#waitForRenewedKey(response, signal)) return this.open(path, timeoutMs, signal)
    this.#requireSuccess(response, `GET ${path}`)
    return body
  }

  /**
   * The answer as the bytes it came in: nothing in it is parsed, so no number in it is rounded. One above
   * `maxBytes` is not read to its end: the error has the status 413.
   */
  async bytes(
    method: EngineCall['method'],
    path: string,
    {
      body,
      timeoutMs = SHORT_CALL_MS,
      signal,
      maxBytes: requestedBytes = MAX_RESPONSE_BYTES,
    }: RawCallOptions,
  ): Promise<Buffer> {
    const maxBytes = Math.min(requestedBytes, MAX_RAW_BYTES)
    const { transport } = this.#options
    const { key, ca } = await this.#credentials()
    const headers = {
      'content-type': 'application/json',
      ...(key !== undefined && { 'api-key': key }),
    }
    const payload = body === undefined ? {} : { body: JSON.stringify(body) }
    const call = { method, path, headers, ...payload, timeoutMs, stallMs: timeoutMs, signal }
    const { status, body: response, length, retryAfterSeconds } = await transport.open(call, ca)
    const description = `${method} ${path} on ${this.node}`
    const bytes = await readBody(response, { length, maxBytes }).catch((cause: unknown) => {
      signal?.throwIfAborted()
      throw new EngineError(`${description} broke off: ${errorMessage(cause)}`, { cause })
    })
    if (bytes === undefined) {
      throw new EngineError(`${description} answered more than ${maxBytes} bytes`, { status: 413 })
    }
    if (status >= 400) {
      const rejection = {
        status,
        text: bytes.toString('utf8', 0, MAX_ERROR_BYTES),
        retryAfterSeconds,
      }
      if (await this.#waitForRenewedKey(rejection, signal)) {
        return this.bytes(method, path, {
          ...(body && { body }),
          timeoutMs,
          signal,
          maxBytes: requestedBytes,
        })
      }
      this.#requireSuccess(rejection, `${method} ${path}`)
    }
    return bytes
  }

  async #send(
    method: EngineCall['method'],
    path: string,
    options: EngineCallOptions,
  ): Promise<HttpResponse> {
    const { freshCredentials, rotation } = this.#options
    const current = await this.#credentials()
    const response = await this.#sendWith(current, method, path, options)
    if (!isUnauthorized(response)) {
      // Probes and the version need no key: they prove nothing of it.
      if (response.status < 400 && !UNAUTHENTICATED_PATHS.has(path))
        rotation?.markAccepted(this.node, current)
      return response
    }
    // What is streamed cannot be sent twice.
    if (rotation !== undefined && options.stream === undefined) {
      return this.#sendWithRotation(rotation, current, response, (next) =>
        this.#sendWith(next, method, path, options),
      )
    }
    if (freshCredentials === undefined) return response
    const fresh = await freshCredentials()
    return fresh.key === current.key ? response : this.#sendWith(fresh, method, path, options)
  }

  /** Answers with the last refusal where no key is accepted in time. */
  async #sendWithRotation(
    rotation: KeyRotation,
    current: EngineCredentials,
    rejection: HttpResponse,
    send: (credentials: EngineCredentials) => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const tried = new Set([current.key])
    let response = rejection
    let next = await rotation.next(tried)
    while (next !== undefined) {
      response = await send(next)
      if (!isUnauthorized(response)) {
        rotation.markAccepted(this.node, next)
        return response
      }
      next = await rotation.next(tried)
    }
    return response
  }

  #credentials(): Promise<EngineCredentials> {
    const { credentials, rotation } = this.#options
    return rotation?.credentialsFor(this.node) ?? credentials()
  }

  /**
   * Of a call whose answer is not read as a whole: asks the node for something small, which waits for a
   * key that is being rotated. Whether the call is worth another try.
   */
  async #waitForRenewedKey(
    rejection: HttpResponse,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { rotation } = this.#options
    if (rotation === undefined || !isUnauthorized(rejection)) return false
    const { key } = await this.#credentials()
    await this.collections(signal)
    return (await this.#credentials()).key !== key
  }

  async #sendWith(
    { key, ca }: EngineCredentials,
    method: EngineCall['method'],
    path: string,
    { body, stream, timeoutMs = SHORT_CALL_MS, signal }: EngineCallOptions,
  ): Promise<HttpResponse> {
    const { transport } = this.#options
    const headers = {
      ...(key !== undefined && { 'api-key': key }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(stream !== undefined && {
        'content-type': stream.contentType,
        'content-length': String(stream.contentLength),
      }),
    }
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    const payload = stream === undefined ? text : { body: stream.source }
    return transport.send({ method, path, headers, ...payload, timeoutMs, signal }, ca)
  }

  #requireSuccess({ status, text, retryAfterSeconds }: HttpResponse, call: string): string {
    if (status < 400) return text
    throw new EngineError(`${call} on ${this.node} answered ${status}: ${extractError(text)}`, {
      status,
      retryAfterSeconds,
    })
  }

  #validate<Schema extends TSchema>(
    schema: Schema,
    response: unknown,
    call: string,
  ): Static<Schema> {
    const schemaError = firstSchemaError(schema, response)
    if (schemaError === undefined) return response
    throw new EngineError(
      `${call} on ${this.node} answered without a valid ${schemaError.path || 'JSON body'}: ${schemaError.message}`,
    )
  }
}

const Envelope = Type.Object({ result: Type.Unknown() })
const ErrorEnvelope = Type.Object({ status: Type.Object({ error: Type.String() }) })
/** The API server's own words, when its proxy cannot reach the pod. */
const ApiStatus = Type.Object({ kind: Type.Literal('Status'), message: Type.String() })

/** A credential that is unknown, old or foreign: said in plain text, other than too little access. */
function isUnauthorized({ status, text }: HttpResponse): boolean {
  return status === 401 || (status === 403 && parseJson(text) === undefined)
}

/** The engine's words: in an envelope, or plain text from its authentication (facts 0). */
function extractError(responseText: string): string {
  const text = responseText.slice(0, MAX_ERROR_BYTES)
  const body = parseJson(text)
  const message = Value.Check(ErrorEnvelope, body)
    ? body.status.error
    : Value.Check(ApiStatus, body)
      ? body.message
      : stripTags(text)
  return message.slice(0, MAX_MESSAGE) || 'no such route'
}

/** What stands between us and the engine may answer with a page. */
function stripTags(text: string): string {
  const html = text.slice(0, MAX_HTML)
  if (!html.trimStart().startsWith('<')) return html
  return html
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
