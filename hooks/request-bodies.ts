/**
 * Limits what the bodies of hooks take in memory. A tenant can add children to a resource of theirs until the
 * request is full, and Metacontroller sends several requests at once. The JSON text of a request is looked through
 * before it is parsed.
 */
import type { ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyRequest, preParsingAsyncHookHandler } from 'fastify'
import { MAX_REQUEST_BYTES } from '../crds/contract/limits.ts'

/** A body of at most this size waits for no other, unless it has more values than the next constant. */
export const SMALL_BODY_BYTES = 64 * 1024
/**
 * So many values are not counted. A body that is small and has few values takes at most 64 KiB and 320 KB; Metacontroller has
 * five workers for each of seven kinds, so that 35 of them take 13 MB. Without this bound, small bodies full of `{}` would take
 * 49 MB. Objects without managed fields have one value for each 14 bytes or more: 4,700 in 64 KiB.
 */
const SMALL_VALUES = 5_000
/** A parsed value takes up to 64 bytes, whatever its text takes. The densest backups have one for each 14 bytes. */
export const MAX_REQUEST_VALUES = 800_000
/**
 * How long a request waits for memory, in milliseconds. Below the ten seconds after which Metacontroller disconnects, so that
 * it receives the reason, and below the limit of Node (TIME_LIMITS), which only closes the connection.
 */
const MAX_WAIT_MS = 8_000

interface Caller {
  response: ServerResponse
  /** When the wait ends, in the time of `performance.now()`. */
  waitsUntil: number
}

/**
 * Bodies of the routes with this hook that are large or have many values wait until those before them have been answered, so
 * that all together stay within the limits. Only for routes that authenticate: a client holds its place until it has read
 * the answer.
 */
export function limitBodies(
  server: FastifyInstance,
  maxWaitMs = MAX_WAIT_MS,
): preParsingAsyncHookHandler {
  const bytes = new Budget(MAX_REQUEST_BYTES)
  const values = new Budget(MAX_REQUEST_VALUES)
  const callers = new WeakMap<FastifyRequest, Caller>()
  const parse = server.getDefaultJsonParser('ignore', 'ignore')
  const options = { parseAs: 'string' } as const
  server.addContentTypeParser<string>('application/json', options, (request, text, done) => {
    const caller = callers.get(request)
    const scanned = scanRequest(text)
    if (caller === undefined || scanned.values <= SMALL_VALUES) {
      void parse(request, scanned.json, done)
      return
    }
    if (scanned.values > MAX_REQUEST_VALUES) {
      done(new TooManyValues(), undefined)
      return
    }
    void values.take(scanned.values, caller).then(
      // Other requests continue before this one is validated.
      () => void parse(request, scanned.json, (...result) => setImmediate(done, ...result)),
      (error: unknown) => done(error as Error, undefined),
    )
  })
  return async (request, { raw: response }) => {
    const size = bodySize(request) ?? MAX_REQUEST_BYTES
    // One above the limit is rejected by its route, unread.
    if (size > MAX_REQUEST_BYTES) return
    const caller = { response, waitsUntil: performance.now() + maxWaitMs }
    callers.set(request, caller)
    if (size > SMALL_BODY_BYTES) await bytes.take(size, caller)
  }
}

/** In bytes; undefined if the body is chunked, which Metacontroller does not send. */
export function bodySize({ headers }: FastifyRequest): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return undefined
  return Number(headers['content-length'] ?? 0)
}

interface Claim {
  amount: number
  isTaken: boolean
  begin: () => void
}

/** What is taken is released when the response is closed. */
class Budget {
  #remaining: number
  /** In order of arrival: no large body waits for ever because smaller ones fit. */
  readonly #waiting = new Set<Claim>()

  constructor(amount: number) {
    this.#remaining = amount
  }

  /** Rejects, and nothing is taken, if the response is closed before, or the caller has waited too long. */
  async take(amount: number, { response, waitsUntil }: Caller): Promise<void> {
    if (response.closed) throw new ClientDisconnected()
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const claim = { amount, isTaken: false, begin: () => resolve(undefined) }
    const leave = (error: Error) => {
      this.#waiting.delete(claim)
      reject(error)
      this.#beginNext()
    }
    response.once('close', () => {
      if (claim.isTaken) this.#remaining += amount
      leave(new ClientDisconnected())
    })
    this.#waiting.add(claim)
    this.#beginNext()
    const timer = setTimeout(
      () => leave(new WaitTimeout()),
      Math.max(0, waitsUntil - performance.now()),
    )
    await promise.finally(() => clearTimeout(timer))
  }

  #beginNext(): void {
    for (const claim of this.#waiting) {
      if (claim.amount > this.#remaining) return
      this.#waiting.delete(claim)
      this.#remaining -= claim.amount
      claim.isTaken = true
      claim.begin()
    }
  }
}

class TooManyValues extends Error {
  readonly statusCode = 413

  constructor() {
    super(`the request has more than ${MAX_REQUEST_VALUES} values`)
  }
}

/** Metacontroller sends the request again. */
export class WaitTimeout extends Error {
  readonly statusCode = 503

  constructor() {
    super('the memory for large requests is in use: too many of them at once')
  }
}

/** No client reads this answer. */
class ClientDisconnected extends Error {
  readonly statusCode = 503

  constructor() {
    super('the client has closed the connection')
  }
}

interface RequestText {
  /** Without the managed fields of its objects, which no hook reads: up to half of it, in many small values. */
  json: string
  /** Number of values in it; more if the text is not JSON. */
  values: number
}

const [QUOTE, BACKSLASH, COMMA, COLON] = codesOf('"\\,:')
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = codesOf('[]{}')
const MANAGED_FIELDS = 'managedFields'

function codesOf(characters: string): number[] {
  return Array.from(characters, (character) => character.charCodeAt(0))
}

export function scanRequest(text: string): RequestText {
  const parts: string[] = []
  /** Key of each list and map around the position; '' in a list, and for the request itself. */
  const path: string[] = []
  let copiedUntil = 0
  let values = 1
  let key = ''
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfString(text, at)
      const isKey = text.charCodeAt(end + 1) === COLON
      if (isKey) key = text.slice(at + 1, end)
      const isList = isKey && text.charCodeAt(end + 2) === OPEN_LIST
      if (isList && key === MANAGED_FIELDS && isMetadataOfObject(path)) {
        const list = endOfList(text, end + 2)
        if (list === undefined) return { json: text, values: text.length }
        // With the comma after it, or else the one before it.
        const hasNext = text.charCodeAt(list) === COMMA
        const isLast = !hasNext && text.charCodeAt(at - 1) === COMMA
        parts.push(text.slice(copiedUntil, isLast ? at - 1 : at))
        copiedUntil = hasNext ? list + 1 : list
        at = copiedUntil - 1
      } else at = end
    } else if (code === COMMA) {
      values += 1
      key = ''
    } else if (code === OPEN_LIST || code === OPEN_MAP) {
      values += 1
      path.push(key)
      key = ''
    } else if (code === CLOSE_LIST || code === CLOSE_MAP) {
      path.pop()
    }
  }
  const json = parts.length === 0 ? text : parts.join('') + text.slice(copiedUntil)
  return { json, values }
}

/** As `parent.metadata`, or `children.<kind>.<name>.metadata`. */
function isMetadataOfObject(path: string[]): boolean {
  if (path.at(-1) !== 'metadata') return false
  const [, first] = path
  return first === 'parent' ? path.length === 3 : path.length === 5 && isGroup(first)
}

function isGroup(key: string | undefined): boolean {
  return key === 'children' || key === 'related'
}

/** Position after the list that begins here; undefined if it has no end. */
function endOfList(text: string, start: number): number | undefined {
  let depth = 0
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === OPEN_LIST) depth += 1
    else if (code === CLOSE_LIST && (depth -= 1) === 0) return at + 1
  }
  return undefined
}

/** Position of the quote that closes the string. */
function endOfString(text: string, start: number): number {
  let end = start
  do {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
  } while (isEscaped(text, end))
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1
  return backslashes % 2 === 1
}
