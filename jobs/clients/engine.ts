/**
 * The engine's HTTP API. Each method is an endpoint and the shape of its answer; one private `#call`
 * does transport, errors and checking for all of them.
 */
import type { Readable } from 'node:stream'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { EngineError } from '../../crds/errors.ts'
import { SHORT_CALL_SECONDS } from '../../crds/limits.ts'
import { AddressRefused } from './addresses.ts'
import { ANSWER_BYTES, beginningOf, ERROR_BYTES } from './byte-limit.ts'
import { wordsOf } from './call.ts'
import { flawIn } from './checked.ts'
import { ClusterView, Collections, Placement, Version } from './engine-answers.ts'
import { collectionPath } from './engine-path.ts'
import type { EngineCall, Route } from './engine-route.ts'
import type { KeyRotation } from './key-rotation.ts'
import { loggedRoute } from './logged-route.ts'
import type { StreamBody } from './multipart.ts'
import { ownBytes } from './own-bytes.ts'
import type { Answer } from './whole-answer.ts'

/** The content of the Secrets a call needs. */
export interface EngineCredentials {
  key?: string | undefined
  /** Certificate authority, PEM. */
  ca?: string | undefined
}

interface Options {
  route: Route
  /** Asked before each call: a key that was rotated is used at once. */
  credentials: () => Promise<EngineCredentials>
  /** Asked once when those were refused: they may have been rotated a moment ago. */
  freshCredentials?: () => Promise<EngineCredentials>
  /** Instead, for a Job: waits while a key that worked is being rotated. */
  rotation?: KeyRotation
  log: Logger
}

interface CallOptions {
  body?: object
  /** Instead of a body: cannot be sent twice. */
  stream?: StreamBody
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

interface BytesOptions {
  body?: object
  timeoutMs?: number
  signal?: AbortSignal | undefined
  maxBytes?: number | undefined
}

const SHORT_CALL_MS = SHORT_CALL_SECONDS * 1000
const STALL_MS = 120_000
/** What a node answers without a key. */
const OPEN_PATHS = new Set(['/', '/readyz'])
/** What the engine says of a bad request may be long; a status has no room for it. */
const MAX_MESSAGE = 1024
/** A page before its tags are taken out. */
const MAX_PAGE = 4 * MAX_MESSAGE
/** One point may be long, but not endless. */
const MAX_BYTES = 4 * ANSWER_BYTES

export class Engine {
  readonly node: string
  readonly #options: Options

  constructor(options: Options) {
    this.node = options.route.node
    this.#options = { ...options, route: loggedRoute(options.route, options.log) }
  }

  /** Whether this node serves; one that does not answer is not ready. */
  async readyz(signal?: AbortSignal): Promise<boolean> {
    try {
      return (await this.#send('GET', '/readyz', { signal })).status === 200
    } catch (error) {
      const isRefused = error instanceof EngineError && error.cause instanceof AddressRefused
      if (error instanceof EngineError && !isRefused) return false
      throw error
    }
  }

  /** Version of the engine this node runs, such as `1.19.0`. */
  async version(signal?: AbortSignal): Promise<string> {
    const text = this.#succeeded(await this.#send('GET', '/', { signal }), 'GET /')
    return this.#checked(Version, parsed(text), 'GET /').version
  }

  /** What this node knows of its peers and of its own consensus thread. */
  cluster(signal?: AbortSignal): Promise<ClusterView> {
    return this.call('GET', '/cluster', ClusterView, { signal })
  }

  async collections(signal?: AbortSignal): Promise<string[]> {
    const { collections } = await this.call('GET', '/collections', Collections, { signal })
    return collections.map(({ name }) => name)
  }

  /** Where the shards of a collection are, as this node sees it. */
  collectionCluster(collection: string, signal?: AbortSignal): Promise<Placement> {
    const path = `${collectionPath(collection)}/cluster`
    return this.call('GET', path, Placement, { signal })
  }

  /** Also for the endpoints that stand in files beside this one. */
  async call<Schema extends TSchema>(
    method: EngineCall['method'],
    path: string,
    result: Schema,
    options: CallOptions = {},
  ): Promise<Static<Schema>> {
    const call = `${method} ${path}`
    const envelope = parsed(this.#succeeded(await this.#send(method, path, options), call))
    return this.#checked(result, this.#checked(Envelope, envelope, call).result, call)
  }

  /** A file as a stream; ends with an error when no byte comes for STALL_MS. */
  async open(path: string, timeoutMs: number, signal?: AbortSignal): Promise<Readable> {
    const { route } = this.#options
    const { key, ca } = await this.#credentials()
    const headers = {
      // What is downloaded is measured and hashed as it lies there.
      'accept-encoding': 'identity',
      ...(key !== undefined && { 'api-key': key }),
    }
    const call = { method: 'GET' as const, path, headers, timeoutMs, signal, stallMs: STALL_MS }
    const { status, body } = await route.open(call, ca)
    if (status === 200) return body
    const answer = { status, text: await beginningOf(body) }
    if (await this.#isRenewed(answer, signal)) return this.open(path, timeoutMs, signal)
    this.#succeeded(answer, `GET ${path}`)
    return body
  }

  /**
   * The answer as the bytes it came in: nothing in it is parsed, so no number in it is rounded. One above
   * `maxBytes` is not read to its end: the error has the status 413.
   */
  async bytes(
    method: EngineCall['method'],
    path: string,
    { body, timeoutMs = SHORT_CALL_MS, signal, maxBytes: most = ANSWER_BYTES }: BytesOptions,
  ): Promise<Buffer> {
    const maxBytes = Math.min(most, MAX_BYTES)
    const { route } = this.#options
    const { key, ca } = await this.#credentials()
    const headers = {
      'content-type': 'application/json',
      ...(key !== undefined && { 'api-key': key }),
    }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const call = { method, path, headers, ...sent, timeoutMs, stallMs: timeoutMs, signal }
    const { status, body: answer, length, retryAfterSeconds } = await route.open(call, ca)
    const named = `${method} ${path} on ${this.node}`
    const bytes = await ownBytes(answer, { length, maxBytes }).catch((cause: unknown) => {
      signal?.throwIfAborted()
      throw new EngineError(`${named} broke off: ${wordsOf(cause)}`, { cause })
    })
    if (bytes === undefined) {
      throw new EngineError(`${named} answered more than ${maxBytes} bytes`, { status: 413 })
    }
    if (status >= 400) {
      const refusal = { status, text: bytes.toString('utf8', 0, ERROR_BYTES), retryAfterSeconds }
      if (await this.#isRenewed(refusal, signal)) {
        return this.bytes(method, path, {
          ...(body && { body }),
          timeoutMs,
          signal,
          maxBytes: most,
        })
      }
      this.#succeeded(refusal, `${method} ${path}`)
    }
    return bytes
  }

  async #send(method: EngineCall['method'], path: string, options: CallOptions): Promise<Answer> {
    const { freshCredentials, rotation } = this.#options
    const known = await this.#credentials()
    const answer = await this.#sendAs(known, method, path, options)
    if (!isRefused(answer)) {
      // Probes and the version need no key: they prove nothing of it.
      if (answer.status < 400 && !OPEN_PATHS.has(path)) rotation?.accepted(this.node, known)
      return answer
    }
    // What is streamed cannot be sent twice.
    if (rotation !== undefined && options.stream === undefined) {
      return this.#sendRotated(rotation, known, answer, (next) =>
        this.#sendAs(next, method, path, options),
      )
    }
    if (freshCredentials === undefined) return answer
    const fresh = await freshCredentials()
    return fresh.key === known.key ? answer : this.#sendAs(fresh, method, path, options)
  }

  /** Answers with the last refusal where no key is accepted in time. */
  async #sendRotated(
    rotation: KeyRotation,
    known: EngineCredentials,
    refusal: Answer,
    send: (credentials: EngineCredentials) => Promise<Answer>,
  ): Promise<Answer> {
    const tried = new Set([known.key])
    let answer = refusal
    let next = await rotation.next(tried)
    while (next !== undefined) {
      answer = await send(next)
      if (!isRefused(answer)) {
        rotation.accepted(this.node, next)
        return answer
      }
      next = await rotation.next(tried)
    }
    return answer
  }

  #credentials(): Promise<EngineCredentials> {
    const { credentials, rotation } = this.#options
    return rotation?.credentialsFor(this.node) ?? credentials()
  }

  /**
   * Of a call whose answer is not read as a whole: asks the node for something small, which waits for a
   * key that is being rotated. Whether the call is worth another try.
   */
  async #isRenewed(refusal: Answer, signal: AbortSignal | undefined): Promise<boolean> {
    const { rotation } = this.#options
    if (rotation === undefined || !isRefused(refusal)) return false
    const { key } = await this.#credentials()
    await this.collections(signal)
    return (await this.#credentials()).key !== key
  }

  async #sendAs(
    { key, ca }: EngineCredentials,
    method: EngineCall['method'],
    path: string,
    { body, stream, timeoutMs = SHORT_CALL_MS, signal }: CallOptions,
  ): Promise<Answer> {
    const { route } = this.#options
    const headers = {
      ...(key !== undefined && { 'api-key': key }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(stream !== undefined && {
        'content-type': stream.contentType,
        'content-length': String(stream.contentLength),
      }),
    }
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    const sent = stream === undefined ? text : { body: stream.source }
    return route.send({ method, path, headers, ...sent, timeoutMs, signal }, ca)
  }

  #succeeded({ status, text, retryAfterSeconds }: Answer, call: string): string {
    if (status < 400) return text
    throw new EngineError(`${call} on ${this.node} answered ${status}: ${errorOf(text)}`, {
      status,
      retryAfterSeconds,
    })
  }

  #checked<Schema extends TSchema>(schema: Schema, answer: unknown, call: string): Static<Schema> {
    const flaw = flawIn(schema, answer)
    if (flaw === undefined) return answer
    throw new EngineError(
      `${call} on ${this.node} answered without a valid ${flaw.path || 'JSON body'}: ${flaw.message}`,
    )
  }
}

const Envelope = Type.Object({ result: Type.Unknown() })
const ErrorEnvelope = Type.Object({ status: Type.Object({ error: Type.String() }) })
/** The API server's own words, when its proxy cannot reach the pod. */
const ApiStatus = Type.Object({ kind: Type.Literal('Status'), message: Type.String() })

/** A credential that is unknown, old or foreign: said in plain text, other than too little access. */
function isRefused({ status, text }: Answer): boolean {
  return status === 401 || (status === 403 && parsed(text) === undefined)
}

/** The engine's words: in an envelope, or plain text from its authentication (facts 0). */
function errorOf(whole: string): string {
  const text = whole.slice(0, ERROR_BYTES)
  const body = parsed(text)
  const message = Value.Check(ErrorEnvelope, body)
    ? body.status.error
    : Value.Check(ApiStatus, body)
      ? body.message
      : withoutTags(text)
  return message.slice(0, MAX_MESSAGE) || 'no such route'
}

/** What stands between us and the engine may answer with a page. */
function withoutTags(text: string): string {
  const page = text.slice(0, MAX_PAGE)
  if (!page.trimStart().startsWith('<')) return page
  return page
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
