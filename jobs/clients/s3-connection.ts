/**
 * One bucket's connection: a client made from the credentials of the moment, and the rule by which a
 * call is made again. The SDK's own retries are off, so that there is one rule, and one that tests
 * need not wait for.
 */
import { Readable } from 'node:stream'
import { getCACertificates } from 'node:tls'
import { S3Client } from '@aws-sdk/client-s3'
import type { Logger } from 'pino'
import { StorageError } from '../../crds/errors.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { Time } from '../time.ts'
import type { AddressGuard } from './addresses.ts'
import { limited } from './byte-limit.ts'
import { deadline } from './call.ts'
import type { BucketCredentials } from './s3-credentials.ts'
import { isForbidden, isTransient, storageError } from './s3-errors.ts'

/** Where a bucket is. */
export type BucketTarget = Pick<S3Target, 'bucket' | 'region' | 'endpoint' | 'forcePathStyle'>

export interface ConnectionOptions {
  target: BucketTarget
  /** Asked before each call: a key that was rotated is used at once. */
  credentials: () => Promise<BucketCredentials>
  time: Time
  log: Logger
  /** Default: 8. The service has no time for so many. */
  attempts?: number
  /** A key that worked and then is refused is perhaps being rotated: so long the new one is awaited. */
  rotationMs?: number
  /** Told again and again why that is waited for, and with undefined that it is there. */
  waiting?: ((refused: StorageError | undefined) => void) | undefined
  /** Which addresses may be called; without it all of them. */
  guard?: AddressGuard | undefined
  /** Told of each attempt; without a status it got no answer. */
  called?: (call: { method: string; status: number | undefined; seconds: number }) => void
}

export interface CallOptions {
  key?: string
  timeoutMs?: number
  /** Nothing comes and nothing goes for so long: the connection is dead. */
  silentMs?: number
  signal?: AbortSignal | undefined
}

const ATTEMPTS = 8
const FIRST_DELAY_MS = 500
const MAX_DELAY_MS = 20_000
const ROTATION_POLL_MS = 5_000
const CONNECT_MS = 10_000
const SILENT_MS = 60_000
const CALL_MS = 60_000
/** Of an answer in XML: a page has a thousand keys of at most a KiB each, escaped. */
const XML_BYTES = 4 * 1024 * 1024

export class S3Connection {
  readonly target: BucketTarget
  readonly #options: ConnectionOptions
  #current: Current | undefined
  /** True once the store accepted a call. */
  #wasAccepted = false

  constructor(options: ConnectionOptions) {
    this.target = options.target
    this.#options = options
  }

  /** Makes a call until it succeeds, or fails for good. */
  async call<Result>(
    name: string,
    { key, timeoutMs = CALL_MS, silentMs = SILENT_MS, signal }: CallOptions,
    send: (client: S3Client, signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const { attempts = ATTEMPTS } = this.#options
    const retry = new Retry(this.#options, attempts)
    for (;;) {
      signal?.throwIfAborted()
      const end = deadline(timeoutMs, signal)
      let used: string | undefined
      const started = performance.now()
      const tell = (status: number | undefined) =>
        this.#options.called?.({
          method: name,
          status,
          seconds: (performance.now() - started) / 1000,
        })
      try {
        const current = await this.#present()
        used = current.credentials
        const result = await send(this.#client(current, silentMs), end.signal)
        this.#wasAccepted = true
        tell(200)
        return result
      } catch (cause) {
        signal?.throwIfAborted()
        const words = end.signal.aborted
          ? new Error(`not done within ${timeoutMs / 1000} s`)
          : cause
        const error = storageError(words, { name, key, ...this.target })
        tell(error.status)
        const isNew = async () => (await this.#present()).credentials !== used
        if (isForbidden(error)) await retry.forbidden(error, this.#wasAccepted, isNew, signal)
        else await retry.failed(error, signal)
      } finally {
        end.clear()
      }
    }
  }

  close(): void {
    for (const client of this.#current?.clients.values() ?? []) client.destroy()
    this.#current = undefined
  }

  async #present(): Promise<Current> {
    const found = await this.#options.credentials()
    const credentials = JSON.stringify(found)
    if (this.#current?.credentials === credentials) return this.#current
    // Calls under way finish on the old ones; their idle connections end by themselves.
    this.#current = { credentials, found, clients: new Map() }
    return this.#current
  }

  /** How long a store may be silent cannot be said of a single call. */
  #client({ found, clients }: Current, silentMs: number): S3Client {
    const client =
      clients.get(silentMs) ?? clientOf(this.target, found, silentMs, this.#options.guard)
    clients.set(silentMs, client)
    return client
  }
}

/** The credentials of the moment, and clients that use them, by how long the store may be silent. */
interface Current {
  credentials: string
  found: BucketCredentials
  clients: Map<number, S3Client>
}

/** What is still to be tried of one call. */
class Retry {
  readonly #options: ConnectionOptions
  #left: number
  #delay = FIRST_DELAY_MS
  #waited = 0

  constructor(options: ConnectionOptions, attempts: number) {
    this.#options = options
    this.#left = attempts - 1
  }

  /** Waits for the next attempt, or throws when there is none. */
  async failed(error: StorageError, signal: AbortSignal | undefined): Promise<void> {
    if (!isTransient(error) || this.#left <= 0) throw error
    this.#left -= 1
    this.#options.log.warn({ reason: error.message, left: this.#left }, 'bucket: tries again')
    await this.#options.time.sleep(this.#delay, signal)
    this.#delay = Math.min(this.#delay * 2, MAX_DELAY_MS)
  }

  /** Credentials that were renewed are used; those that worked before are awaited for a while. */
  async forbidden(
    error: StorageError,
    workedBefore: boolean,
    isNew: () => Promise<boolean>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { rotationMs = 0, waiting, time, log } = this.#options
    try {
      while (!(await isNew())) {
        if (!workedBefore || this.#waited >= rotationMs) throw error
        log.warn({ reason: error.message }, 'bucket: refused, waits for new credentials')
        waiting?.(error)
        await time.sleep(ROTATION_POLL_MS, signal)
        this.#waited += ROTATION_POLL_MS
      }
    } finally {
      waiting?.(undefined)
    }
    await this.failed(new StorageError(error.message), signal)
  }
}

function clientOf(
  target: BucketTarget,
  credentials: BucketCredentials,
  silentMs: number,
  guard: AddressGuard | undefined,
): S3Client {
  const { region, endpoint, forcePathStyle } = target
  const { accessKeyId, secretAccessKey, sessionToken, ca } = credentials
  if (endpoint !== undefined) guard?.check(endpoint)
  const agent = {
    ...{ keepAlive: true, maxSockets: 16 },
    ...(guard !== undefined && { lookup: guard.lookup }),
  }
  // A private authority is trusted beside the known ones, not instead of them.
  const trusted = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
  const client = new S3Client({
    region,
    forcePathStyle,
    ...(endpoint !== undefined && { endpoint }),
    credentials: {
      accessKeyId,
      secretAccessKey,
      ...(sessionToken !== undefined && { sessionToken }),
    },
    maxAttempts: 1,
    followRegionRedirects: false,
    // All is signed with its SHA-256 already; an upload offers checksums only to stores that know them.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // With it, the SDK opens a connection for each part.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      socketTimeout: silentMs,
      httpAgent: agent,
      httpsAgent: { ...agent, ...trusted },
    },
  })
  // Next to the wire: what comes is counted before any of it is parsed.
  client.middlewareStack.add(limitBody, {
    step: 'deserialize',
    priority: 'low',
    name: 'limitBody',
  })
  return client
}

/** The body of an object may be of any length; all else that a store says is short. */
function limitBody<Args extends object, Output extends { response: unknown }>(
  next: (args: Args) => Promise<Output>,
  { commandName }: { commandName?: string },
) {
  return async (args: Args): Promise<Output> => {
    const output = await next(args)
    const response = output.response as { body?: unknown; statusCode: number }
    const isObject = commandName === 'GetObjectCommand' && response.statusCode < 300
    if (response.body instanceof Readable && !isObject) {
      response.body = limited(response.body, XML_BYTES)
    }
    return output
  }
}
