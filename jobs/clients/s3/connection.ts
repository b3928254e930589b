/**
 * The connection to one bucket: a client created from the current credentials, and the retry policy
 * of its calls. The SDK's own retries are off, so that there is one policy, and tests do not have
 * to wait for it.
 */
import { Readable } from 'node:stream'
import { S3Client, GetObjectCommand } from '@aws-sdk/client-s3'
import type { Logger } from 'pino'
import { StorageError } from '../../../crds/contract/errors.ts'
import type { S3Target } from '../../../crds/storage.ts'
import type { Clock } from '../../clock.ts'
import { poll, retry } from '../../retry.ts'
import type { AddressGuard } from '../http/address-guard.ts'
import { limitBytes } from '../http/body.ts'
import { deadline } from '../http/request.ts'
import { trustOptions, type BucketCredentials, type CredentialsReader } from './credentials.ts'
import {
  CERTIFICATE_REFUSED,
  isClockCorrected,
  isForbidden,
  isTransient,
  toStorageError,
} from './errors.ts'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { PRESIGNED_URL_SECONDS } from '../../../crds/contract/limits.ts'

/** The location of a bucket. */
export type BucketTarget = Pick<
  S3Target,
  'bucket' | 'region' | 'endpoint' | 'forcePathStyle' | 'encryption' | 'storageClass'
>

export interface S3ConnectionOptions {
  target: BucketTarget
  /** Read before each call: a rotated key is used at once. */
  credentials: CredentialsReader
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
  /** Runs directly before each attempt of a call that writes or deletes what others read; its error ends the call. */
  beforeChange?: (() => Promise<void>) | undefined
  /** Which addresses may be called; without it all of them. */
  guard?: AddressGuard | undefined
  /**
   * Environment whose HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply; without it the store is called directly.
   * With a guard there is no proxy: it would connect to addresses that the guard never sees.
   */
  proxyEnv?: NodeJS.ProcessEnv | undefined
  /** Called for each attempt; the status is undefined if there was no response. */
  onCall?: (call: { method: string; status: number | undefined; seconds: number }) => void
}

export interface S3CallOptions {
  key?: string
  timeoutMs?: number
  /** A connection without any traffic for this long is dead. */
  idleMs?: number
  signal?: AbortSignal | undefined
  /** Writes or deletes what others read. */
  isChange?: boolean
  /** Runs directly before each attempt; its error ends the call. */
  beforeAttempt?: (() => Promise<void>) | undefined
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
    options: S3CallOptions,
    send: (client: S3Client, signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const { key, timeoutMs = CALL_MS, idleMs = IDLE_MS, signal, isChange = false } = options
    const { attempts = ATTEMPTS, time, log, beforeChange } = this.#options
    let used: string | undefined
    let mayBeSent = false
    // Once for each call: keys that are wrong are rejected in the same way.
    let clock: 'unknown' | 'just corrected' | 'corrected' = 'unknown'
    const attempt = async () => {
      signal?.throwIfAborted()
      mayBeSent = false
      if (isChange) await beforeChange?.()
      await options.beforeAttempt?.()
      mayBeSent = true
      const limit = deadline(timeoutMs, signal)
      used = undefined
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
        if (clock !== 'unknown') clock = 'corrected'
        else if (isClockCorrected(cause)) clock = 'just corrected'
        reportCall(error.status)
        throw error
      } finally {
        limit.clear()
      }
    }
    const budget = { remainingMs: this.#options.rotationMs ?? 0 }
    // Renewed credentials always differ. If those were rejected as well, it is not their age.
    let firstUsed: string | undefined
    const isRotated = async () => {
      firstUsed ??= used
      // Another call may have renewed them already.
      if ((await this.#refresh()).fingerprint !== used) return true
      const current = await this.#refresh({ renew: used === firstUsed })
      return current.fingerprint !== used
    }
    const pauseMs = async (error: unknown, { retries }: { retries: number }) => {
      if (!(error instanceof StorageError) || !mayBeSent) return undefined
      // With renewed credentials, or with the time of the store, the next attempt may succeed.
      if (isForbidden(error) && clock !== 'just corrected')
        await this.#waitForRotation(error, isRotated, budget, signal)
      else if (!isForbidden(error) && !this.#isRetryable(error)) return undefined
      const left = attempts - 2 - retries
      if (left < 0) return undefined
      log.warn({ reason: error.message, left }, 'retrying bucket call')
      return Math.min(FIRST_DELAY_MS * 2 ** retries, MAX_DELAY_MS)
    }
    return retry({ time, signal, pauseMs }, attempt)
  }

  /** A store that was trusted before may be renewing its certificate: the Job gets the new authority soon. */
  #isRetryable(error: StorageError): boolean {
    return isTransient(error) || (error.reason === CERTIFICATE_REFUSED && this.#hasSucceeded)
  }

  /** Waits for renewed credentials if the rejected ones worked before; else throws the error. */
  async #waitForRotation(
    error: StorageError,
    isRotated: () => Promise<boolean>,
    budget: { remainingMs: number },
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { onWaiting, time, log } = this.#options
    const afterPause = () => {
      budget.remainingMs -= ROTATION_POLL_MS
    }
    try {
      await poll({ time, signal, pauseMs: ROTATION_POLL_MS, afterPause }, async () => {
        if (await isRotated()) return true
        if (!this.#hasSucceeded || budget.remainingMs <= 0) throw error
        log.warn({ reason: error.message }, 'bucket credentials rejected, waiting for renewed ones')
        onWaiting?.(error)
        return undefined
      })
    } finally {
      onWaiting?.(undefined)
    }
  }

  close(): void {
    for (const client of this.#current?.clients.values() ?? []) client.destroy()
    this.#current = undefined
  }

  async #refresh(options?: { renew: boolean }): Promise<CurrentClients> {
    const credentials = await this.#options.credentials(options)
    const fingerprint = JSON.stringify(credentials)
    if (this.#current?.fingerprint === fingerprint) return this.#current
    // Calls in progress finish on the old clients, whose idle connections close by themselves.
    this.#current = { fingerprint, credentials, clients: new Map() }
    return this.#current
  }

  /** The idle timeout cannot be set for a single call. */
  #client({ credentials, clients }: CurrentClients, idleMs: number): S3Client {
    const client =
      clients.get(idleMs) ?? createClient(this.target, credentials, idleMs, this.#options)
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

function createClient(
  target: BucketTarget,
  credentials: BucketCredentials,
  idleMs: number,
  { guard, proxyEnv }: Pick<S3ConnectionOptions, 'guard' | 'proxyEnv'>,
): S3Client {
  const { region, endpoint, forcePathStyle } = target
  const { accessKeyId, secretAccessKey, sessionToken, ca } = credentials
  if (endpoint !== undefined) guard?.check(endpoint)
  const agent = {
    ...{ keepAlive: true, maxSockets: 16 },
    ...(guard === undefined ? { proxyEnv } : { lookup: guard.lookup }),
  }
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
      httpsAgent: { ...agent, ...trustOptions(ca) },
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

/** A URL that lets anyone read one object for a limited time: it is a credential. */
export function presignedUrl(
  connection: S3Connection,
  key: string,
  signal?: AbortSignal,
): Promise<string> {
  const command = new GetObjectCommand({ Bucket: connection.target.bucket, Key: key })
  return connection.call('PRESIGN', { key, signal }, (client) =>
    getSignedUrl(client, command, { expiresIn: PRESIGNED_URL_SECONDS }),
  )
}
