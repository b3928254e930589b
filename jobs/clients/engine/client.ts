/**
 * The engine's HTTP API. Each method is one endpoint and the schema of its response; one `call`
 * method does transport, error handling and validation for all of them. A key that is refused is read once more.
 */
import type { Readable } from 'node:stream'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { EngineError } from '../../../crds/contract/errors.ts'
import { SHORT_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { parseExactJson } from '../../../crds/engine/exact-json.ts'
import {
  MAX_ERROR_BYTES,
  MAX_RESPONSE_BYTES,
  readBody,
  readPrefix,
  type StreamBody,
} from '../http/body.ts'
import { errorMessage, firstSchemaError, type HttpResponse } from '../http/request.ts'
import type { EngineCredentials, KeyRotation } from './credentials.ts'
import { ClusterStatus, CollectionClusterInfo, CollectionList, VersionInfo } from './responses.ts'
import { collectionPath, loggedTransport, type EngineCall, type Transport } from './transport.ts'

interface EngineOptions {
  transport: Transport
  /** Read before each call: a rotated key is used at once. */
  credentials: () => Promise<EngineCredentials>
  /** Read once after a rejection: the credentials may have just been rotated. */
  freshCredentials?: () => Promise<EngineCredentials>
  /** Used instead in a Job: waits while a key that worked is being rotated. */
  rotation?: KeyRotation
  log: Logger
}

interface EngineCallOptions {
  body?: object
  /** Used instead of a body. A stream cannot be sent twice; a function creates one for each attempt. */
  stream?: StreamBody | (() => StreamBody)
  timeoutMs?: number
  signal?: AbortSignal | undefined
  /** Numbers of the response that JavaScript would change are `ExactNumber`. */
  exactNumbers?: true | undefined
}

interface RawCallOptions {
  body?: object
  timeoutMs?: number
  signal?: AbortSignal | undefined
  maxBytes?: number | undefined
}

const SHORT_CALL_MS = SHORT_CALL_TIMEOUT_SECONDS * 1000
const STALL_MS = 120_000
/** Paths that a node serves without a key. */
const UNAUTHENTICATED_PATHS = new Set(['/', '/readyz'])
/** The engine's error message for a bad request may be long; a status has limited space. */
const MAX_MESSAGE = 1024
/** Limit for an HTML page before its tags are removed. */
const MAX_HTML = 4 * MAX_MESSAGE
/** One point may be long, but not unbounded. */
const MAX_RAW_BYTES = 4 * MAX_RESPONSE_BYTES

export class Engine {
  readonly node: string
  readonly #options: EngineOptions

  constructor(options: EngineOptions) {
    this.node = options.transport.node
    this.#options = { ...options, transport: loggedTransport(options.transport, options.log) }
  }

  /** Why this node serves no requests, or does not answer; undefined if `/readyz` returns 200. */
  async notReadyReason(
    signal?: AbortSignal,
    timeoutMs = SHORT_CALL_MS,
  ): Promise<string | undefined> {
    try {
      const response = await this.#send('GET', '/readyz', { signal, timeoutMs })
      if (response.status === 200) return undefined
      return rejectionError(response, `GET /readyz on ${this.node}`).message
    } catch (error) {
      if (error instanceof EngineError) return error.message
      throw error
    }
  }

  /** Version of the engine that this node runs, for example `1.19.0`. */
  async version(signal?: AbortSignal): Promise<string> {
    const text = this.#requireSuccess(await this.#send('GET', '/', { signal }), 'GET /')
    return this.#validate(VersionInfo, parseJson(text), 'GET /').version
  }

  /** What this node reports about its peers and its own consensus thread. */
  cluster(signal?: AbortSignal): Promise<ClusterStatus> {
    return this.call('GET', '/cluster', ClusterStatus, { signal })
  }

  async collections(signal?: AbortSignal): Promise<string[]> {
    const { collections } = await this.call('GET', '/collections', CollectionList, { signal })
    return collections.map(({ name }) => name)
  }

  /** Where the shards of a collection are, as seen by this node. */
  collectionCluster(collection: string, signal?: AbortSignal): Promise<CollectionClusterInfo> {
    const path = `${collectionPath(collection)}/cluster`
    return this.call('GET', path, CollectionClusterInfo, { signal })
  }

  /** Also used by the endpoints in the other files of this folder. */
  async call<Schema extends TSchema>(
    method: EngineCall['method'],
    path: string,
    result: Schema,
    options: EngineCallOptions = {},
  ): Promise<Static<Schema>> {
    const call = `${method} ${path}`
    const text = this.#requireSuccess(await this.#send(method, path, options), call)
    const envelope = parseJson(text, options.exactNumbers === true ? parseExactJson : JSON.parse)
    return this.#validate(result, this.#validate(Envelope, envelope, call).result, call)
  }

  /** Returns a file as a stream; fails if no byte arrives for STALL_MS. */
  async open(path: string, timeoutMs: number, signal?: AbortSignal): Promise<Readable> {
    const { transport } = this.#options
    const { key, ca } = await this.#credentials()
    const headers = {
      // A download is measured and hashed in its stored form.
      'accept-encoding': 'identity',
      ...(key !== undefined && { 'api-key': key }),
    }
    const call = { method: 'GET' as const, path, headers, timeoutMs, signal, stallMs: STALL_MS }
    const { status, body } = await transport.open(call, ca)
    if (status === 200) return body
    const description = `GET ${path} on ${this.node}`
    const text = await readPrefix(body).catch(rethrowBrokenOff(description, signal))
    const response = { status, text }
    if (await this.#waitForRenewedKey(response, signal)) return this.open(path, timeoutMs, signal)
    throw rejectionError(response, description)
  }

  /**
   * The response as raw bytes: nothing in it is parsed, so no number is rounded. A response above
   * `maxBytes` is not read to the end: the error has status 413.
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
    const bytes = await readBody(response, { length, maxBytes }).catch(
      rethrowBrokenOff(description, signal),
    )
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
      // Probes and the version need no key, so their success proves nothing about it.
      if (response.status < 400 && !UNAUTHENTICATED_PATHS.has(path))
        rotation?.markAccepted(this.node, current)
      return response
    }
    if (rotation !== undefined && isRepeatable(options)) {
      return this.#sendWithRotation(rotation, current, response, (next) =>
        this.#sendWith(next, method, path, options),
      )
    }
    if (freshCredentials === undefined) return response
    const fresh = await freshCredentials()
    return fresh.key === current.key ? response : this.#sendWith(fresh, method, path, options)
  }

  /** Returns the last rejection if no key is accepted in time. */
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
   * For a call whose response is not read as a whole: makes a small request to the node, which
   * waits for a key that is being rotated. Returns whether the call is worth retrying.
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
    { body, stream: source, timeoutMs = SHORT_CALL_MS, signal }: EngineCallOptions,
  ): Promise<HttpResponse> {
    const { transport } = this.#options
    const stream = typeof source === 'function' ? source() : source
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

  #requireSuccess(response: HttpResponse, call: string): string {
    if (response.status < 400) return response.text
    throw rejectionError(response, `${call} on ${this.node}`)
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

function rejectionError(
  { status, text, retryAfterSeconds }: HttpResponse,
  description: string,
): EngineError {
  return new EngineError(`${description} answered ${status}: ${extractError(text)}`, {
    status,
    retryAfterSeconds,
  })
}

/** The connection was lost while the response was read: the caller's reason, if it aborted the call. */
function rethrowBrokenOff(description: string, signal: AbortSignal | undefined) {
  return (cause: unknown): never => {
    signal?.throwIfAborted()
    throw new EngineError(`${description} broke off: ${errorMessage(cause)}`, { cause })
  }
}

function isRepeatable({ stream }: EngineCallOptions): boolean {
  return stream === undefined || typeof stream === 'function'
}

const Envelope = Type.Object({ result: Type.Unknown() })
const ErrorEnvelope = Type.Object({ status: Type.Object({ error: Type.String() }) })
/** The API server's own message if its proxy cannot reach the pod. */
const ApiStatus = Type.Object({ kind: Type.Literal('Status'), message: Type.String() })

/**
 * An unknown, expired or foreign credential: reported in plain text, unlike insufficient access.
 */
function isUnauthorized({ status, text }: HttpResponse): boolean {
  return status === 401 || (status === 403 && parseJson(text) === undefined)
}

/** The engine's error message: in a JSON envelope, or in plain text from its authentication. */
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

/** A proxy in front of the engine may answer with an HTML page. */
function stripTags(text: string): string {
  const html = text.slice(0, MAX_HTML)
  if (!html.trimStart().startsWith('<')) return html
  return html
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

function parseJson(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  try {
    return parse(text)
  } catch {
    return undefined
  }
}
