/**
 * The connection to one bucket: a client created from the current credentials, and the retry policy
 * of its calls. The SDK's own retries are off, so that there is one policy, and tests do not have
 * to wait for it.
 */
import { Readable } from 'node:stream'
import { getCACertificates } from 'node:tls'
import { S3Client } from '@aws-sdk/client-s3'
import type { Logger } from 'pino'
import { StorageError } from '../../../crds/contract/errors.ts'
import type { S3Target } from '../../../crds/storage.ts'
import type { Clock } from '../../clock.ts'
import type { AddressGuard } from '../http/address-guard.ts'
import { limitBytes } from '../http/body.ts'
import { deadline } from '../http/request.ts'
import type { BucketCredentials } from './credentials.ts'
import { isForbidden, isTransient, toStorageError } from './errors.ts'

/** The location of a bucket. */
export type BucketTarget = Pick<S3Target, 'bucket' | 'region' | 'endpoint' | 'forcePathStyle'>

export interface S3ConnectionOptions {
  target: BucketTarget
  /** Read before each call: a rotated key is used at once. */
  credentials: () => Promise<BucketCredentials>
  time: Clock
  log: Logger
  /** Default: 8. The service uses fewer, because it has less time. */
  attempts?: number
  /** A working key that is then rejected may be in rotation: how long to wait for the new one. */
  rotationMs?: number
  /**
   * Called repeatedly with the error that is being waited out, and with undefined once it is
   * resolved.
   */
  onWaiting?: ((refused: StorageError | undefined) => void) | undefined
  /** Which addresses may be called; without it all of them. */
  guard?: AddressGuard | undefined
  /** Called for each attempt; the status is undefined if there was no response. */
  onCall?: (call: { method: string; status: number | undefined; seconds: number }) => void
}

export interface S3CallOptions {
  key?: string
  timeoutMs?: number
  /** A connection without any traffic for this long is dead. */
  idleMs?: number
  signal?: AbortSignal | undefined
}

const ATTEMPTS = 8
const FIRST_DELAY_MS = 500
const MAX_DELAY_MS = 20_000
const ROTATION_POLL_MS = 5_000
const CONNECT_MS = 10_000
const IDLE_MS = 60_000
const CALL_MS = 60_000
/** Limit for an XML response: a page has a thousand keys of at most 1 KiB each, escaped. */
const MAX_XML_BYTES = 4 * 1024 * 1024

export class S3Connection {
  readonly target: BucketTarget
  readonly #options: S3ConnectionOptions
  #current: CurrentClients | undefined
  /** True once the store accepted a call. */
  #hasSucceeded = false

  constructor(options: S3ConnectionOptions) {
    this.target = options.target
    this.#options = options
  }

  /** Makes a call until it succeeds or fails permanently. */
  async call<Result>(
    name: string,
    { key, timeoutMs = CALL_MS, idleMs = IDLE_MS, signal }: S3CallOptions,
    send: (client: S3Client, signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const { attempts = ATTEMPTS } = this.#options
    const retry = new RetryState(this.#options, attempts)
    for (;;) {
      signal?.throwIfAborted()
      const limit = deadline(timeoutMs, signal)
      let used: string | undefined
      const started = performance.now()
      const reportCall = (status: number | undefined) =>
        this.#options.onCall?.({
          method: name,
          status,
          seconds: (performance.now() - started) / 1000,
        })
      try {
        const current = await this.#refresh()
        used = current.fingerprint
        const result = await send(this.#client(current, idleMs), limit.signal)
        this.#hasSucceeded = true
        reportCall(200)
        return result
      } catch (cause) {
        signal?.throwIfAborted()
        const failure = limit.signal.aborted
          ? new Error(`not done within ${timeoutMs / 1000} s`)
          : cause
        const error = toStorageError(failure, { name, key, ...this.target })
        reportCall(error.status)
        const isRotated = async () => (await this.#refresh()).fingerprint !== used
        if (isForbidden(error))
          await retry.onForbidden(error, this.#hasSucceeded, isRotated, signal)
        else await retry.onFailure(error, signal)
      } finally {
        limit.clear()
      }
    }
  }

  close(): void {
    for (const client of this.#current?.clients.values() ?? []) client.destroy()
    this.#current = undefined
  }

  async #refresh(): Promise<CurrentClients> {
    const credentials = await this.#options.credentials()
    const fingerprint = JSON.stringify(credentials)
    if (this.#current?.fingerprint === fingerprint) return this.#current
    // Calls in progress finish on the old clients, whose idle connections close by themselves.
    this.#current = { fingerprint, credentials, clients: new Map() }
    return this.#current
  }

  /** The idle timeout cannot be set for a single call. */
  #client({ credentials, clients }: CurrentClients, idleMs: number): S3Client {
    const client =
      clients.get(idleMs) ?? createClient(this.target, credentials, idleMs, this.#options.guard)
    clients.set(idleMs, client)
    return client
  }
}

/** The current credentials and their clients, by idle timeout. */
interface CurrentClients {
  fingerprint: string
  credentials: BucketCredentials
  clients: Map<number, S3Client>
}

/** The remaining attempts of one call. */
class RetryState {
  readonly #options: S3ConnectionOptions
  #remaining: number
  #delayMs = FIRST_DELAY_MS
  #waitedMs = 0

  constructor(options: S3ConnectionOptions, attempts: number) {
    this.#options = options
    this.#remaining = attempts - 1
  }

  /** Waits for the next attempt; throws if there is none. */
  async onFailure(error: StorageError, signal: AbortSignal | undefined): Promise<void> {
    if (!isTransient(error) || this.#remaining <= 0) throw error
    this.#remaining -= 1
    this.#options.log.warn({ reason: error.message, left: this.#remaining }, 'bucket: tries again')
    await this.#options.time.sleep(this.#delayMs, signal)
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_DELAY_MS)
  }

  /** Uses renewed credentials; waits for a while if the old ones worked before. */
  async onForbidden(
    error: StorageError,
    workedBefore: boolean,
    isRotated: () => Promise<boolean>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { rotationMs = 0, onWaiting, time, log } = this.#options
    try {
      while (!(await isRotated())) {
        if (!workedBefore || this.#waitedMs >= rotationMs) throw error
        log.warn({ reason: error.message }, 'bucket: refused, waits for new credentials')
        onWaiting?.(error)
        await time.sleep(ROTATION_POLL_MS, signal)
        this.#waitedMs += ROTATION_POLL_MS
      }
    } finally {
      onWaiting?.(undefined)
    }
    await this.onFailure(new StorageError(error.message), signal)
  }
}

function createClient(
  target: BucketTarget,
  credentials: BucketCredentials,
  idleMs: number,
  guard: AddressGuard | undefined,
): S3Client {
  const { region, endpoint, forcePathStyle } = target
  const { accessKeyId, secretAccessKey, sessionToken, ca } = credentials
  if (endpoint !== undefined) guard?.check(endpoint)
  const agent = {
    ...{ keepAlive: true, maxSockets: 16 },
    ...(guard !== undefined && { lookup: guard.lookup }),
  }
  // A private authority is trusted in addition to the known ones.
  const tlsOptions = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
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
    // Every request is already signed with its SHA-256; an upload sends checksums only to stores
    // that support them.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // With it, the SDK opens a connection for each part.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      socketTimeout: idleMs,
      httpAgent: agent,
      httpsAgent: { ...agent, ...tlsOptions },
    },
  })
  // Closest to the wire: the response is counted before any of it is parsed.
  client.middlewareStack.add(limitBody, {
    step: 'deserialize',
    priority: 'low',
    name: 'limitBody',
  })
  return client
}

/** The body of an object may have any length; all other responses of a store are short. */
function limitBody<Args extends object, Output extends { response: unknown }>(
  next: (args: Args) => Promise<Output>,
  { commandName }: { commandName?: string },
) {
  return async (args: Args): Promise<Output> => {
    const output = await next(args)
    const response = output.response as { body?: unknown; statusCode: number }
    const isObject = commandName === 'GetObjectCommand' && response.statusCode < 300
    if (response.body instanceof Readable && !isObject) {
      response.body = limitBytes(response.body, MAX_XML_BYTES)
    }
    return output
  }
}
