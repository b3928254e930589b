/**
 * The calls of one upload, and the checksums they send: started once, parts that the store
 * verifies, completed even if the response is lost, or aborted.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompletedPart,
  type CreateMultipartUploadCommandInput,
  type S3Client,
  type StorageClass,
  type ServerSideEncryption,
} from '@aws-sdk/client-s3'
import { StorageError } from '../../../crds/contract/errors.ts'
import { DEFAULT_PART_BYTES } from '../../../crds/contract/limits.ts'
import type { BucketTarget, S3CallOptions, S3Connection } from './connection.ts'
import { isUnknownHeader } from './errors.ts'

/** A part of 8 MiB that is slower than 14 KiB/s has failed. */
const PART_MS = 600_000

/**
 * The rest of a part in the kernel's buffer is sent without visible progress, possibly over a slow
 * line.
 */
const PART_IDLE_MS = 180_000

const COMPLETE_MS = 600_000

/** Some stores copy all parts before they respond and send nothing in the meantime. */
const COPIED_BYTES_PER_MS = 50_000

/**
 * Cheap to compute on both sides: a store that receives none may compute a more expensive one of
 * its own.
 */
const CHECKSUM = 'CRC32'

/** S3's name for a signature that does not cover the bytes. */
const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD'

/** SIGTERM leaves one minute for everything. */
const ABORT_MS = 20_000

/** A larger body is sent in chunks: TLS encrypts each chunk at once and holds all of it. */
const SEND_CHUNK_BYTES = 2 ** 20

interface StartedUpload {
  uploadId: string | undefined
  /** The store verifies each part by the CRC32 sent with it. */
  hasChecksums: boolean
}

export class ObjectUpload {
  readonly #connection: S3Connection
  readonly #target: { Bucket: string; Key: string }
  readonly #signal: AbortSignal | undefined
  #started: Promise<StartedUpload> | undefined
  #mayHaveOrphans = false

  constructor(connection: S3Connection, key: string, signal: AbortSignal | undefined) {
    this.#connection = connection
    this.#target = { Bucket: connection.target.bucket, Key: key }
    this.#signal = signal
  }

  async putObject(body: Buffer): Promise<void> {
    const ContentMD5 = await md5Base64(body)
    const payload = this.#isOverTls() ? UNSIGNED_PAYLOAD : await sha256Hex(body)
    const input = { ...this.#newObject(), ContentMD5 }
    const options = { ...timeLimits(body), isChange: true }
    const answer = await this.#call('PUT', options, (client, abortSignal) => {
      const command = new PutObjectCommand({ ...input, ...requestBody(body) })
      command.middlewareStack.add(signWith(payload), { step: 'build' })
      return client.send(command, { abortSignal })
    })
    requireEncryption(this.#connection.target, this.#target.Key, answer)
  }

  /** Starts the upload with its first part. */
  async putPart(body: Buffer, number: number, partSignal: AbortSignal): Promise<CompletedPart> {
    const { uploadId, hasChecksums } = await this.start()
    const checksum = hasChecksums
      ? { ChecksumCRC32: await crc32Base64(body) }
      : { ContentMD5: await md5Base64(body) }
    // TLS protects the bytes in transit, and the store verifies a signed checksum: no second hash
    // is needed.
    const payload = this.#isOverTls() ? UNSIGNED_PAYLOAD : await sha256Hex(body)
    const input = { ...this.#target, UploadId: uploadId, PartNumber: number, ...checksum }
    const options = { ...timeLimits(body), partSignal }
    const { ETag, ChecksumCRC32 } = await this.#call(
      `PUT PART ${number}`,
      options,
      (client, abortSignal) => {
        const command = new UploadPartCommand({ ...input, ...requestBody(body) })
        command.middlewareStack.add(signWith(payload), { step: 'build' })
        return client.send(command, { abortSignal })
      },
    )
    // Sent again on completion if the store keeps it: only the part with exactly these bytes is
    // accepted.
    const isEchoed = hasChecksums && ChecksumCRC32 !== undefined
    return { ETag, PartNumber: number, ...(isEchoed && checksum) }
  }

  start(): Promise<StartedUpload> {
    this.#started ??= this.#start()
    return this.#started
  }

  async complete(parts: CompletedPart[], bytes: number): Promise<void> {
    const { uploadId } = await this.start()
    const input = { ...this.#target, UploadId: uploadId, MultipartUpload: { Parts: parts } }
    const timeoutMs = COMPLETE_MS + Math.ceil(bytes / COPIED_BYTES_PER_MS)
    const options = { timeoutMs, idleMs: timeoutMs, isChange: true }
    try {
      await this.#call('COMPLETE UPLOAD', options, (client, abortSignal) =>
        client.send(new CompleteMultipartUploadCommand(input), { abortSignal }),
      )
    } catch (error) {
      // The store may have completed the upload although its response was lost: the upload is then
      // unknown.
      const isUnknown = error instanceof StorageError && error.reason === 'NoSuchUpload'
      if (!isUnknown || (await this.#size()) !== bytes) throw error
    }
  }

  /**
   * Aborts open uploads: this one after a failure, and always those that the store started for a
   * call whose response was lost. Parts cost money while an upload is open.
   */
  async cleanUp(hasFailed: boolean): Promise<void> {
    // The signal of the caller may be what ended it.
    const signal = AbortSignal.timeout(ABORT_MS)
    try {
      const started = await this.#started?.catch(() => undefined)
      if (hasFailed && started !== undefined) await this.#abort(started.uploadId, signal)
      if (!this.#mayHaveOrphans) return
      for (const uploadId of await this.#listOpen(signal)) await this.#abort(uploadId, signal)
    } catch {
      // They remain listed: the next attempt, or the purge, aborts them.
    }
  }

  async #listOpen(signal: AbortSignal): Promise<string[]> {
    const { Bucket, Key } = this.#target
    const { Uploads = [] } = await this.#connection.call(
      'LIST UPLOADS',
      { key: Key, signal },
      (client, abortSignal) =>
        client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: Key }), { abortSignal }),
    )
    return Uploads.flatMap((upload) =>
      upload.Key === Key && upload.UploadId !== undefined ? [upload.UploadId] : [],
    )
  }

  async #abort(uploadId: string | undefined, signal: AbortSignal): Promise<void> {
    const input = { ...this.#target, UploadId: uploadId }
    await this.#connection.call(
      'ABORT UPLOAD',
      { key: this.#target.Key, signal },
      (client, abortSignal) => client.send(new AbortMultipartUploadCommand(input), { abortSignal }),
    )
  }

  /** Some stores do not support checksums: they reject them, or do not confirm them. */
  async #start(): Promise<StartedUpload> {
    try {
      return await this.#create({ ...this.#newObject(), ChecksumAlgorithm: CHECKSUM })
    } catch (error) {
      if (!isUnknownHeader(error)) throw error
      return this.#create(this.#newObject())
    }
  }

  /** What is decided when an object is created. */
  #newObject() {
    const { storageClass } = this.#connection.target
    return {
      ...this.#target,
      ...encryptionParameters(this.#connection.target),
      ...(storageClass !== undefined && { StorageClass: storageClass as StorageClass }),
    }
  }

  async #create(input: CreateMultipartUploadCommandInput): Promise<StartedUpload> {
    let attempts = 0
    const answer = await this.#call('CREATE UPLOAD', {}, (client, abortSignal) => {
      attempts += 1
      this.#mayHaveOrphans ||= attempts > 1
      return client.send(new CreateMultipartUploadCommand(input), { abortSignal })
    })
    const { UploadId, ChecksumAlgorithm } = answer
    try {
      requireEncryption(this.#connection.target, this.#target.Key, answer)
    } catch (error) {
      // The upload is open and is not used.
      this.#mayHaveOrphans = true
      throw error
    }
    return { uploadId: UploadId, hasChecksums: ChecksumAlgorithm === CHECKSUM }
  }

  async #size(): Promise<number | undefined> {
    const head = await this.#call('HEAD', {}, (client, abortSignal) =>
      client.send(new HeadObjectCommand(this.#target), { abortSignal }),
    )
    return head.ContentLength
  }

  #call<Result>(
    name: string,
    {
      partSignal,
      ...options
    }: Pick<S3CallOptions, 'timeoutMs' | 'idleMs' | 'isChange'> & { partSignal?: AbortSignal },
    send: (client: S3Client, signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const signals = [this.#signal, partSignal].filter((signal) => signal !== undefined)
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0]
    return this.#connection.call(name, { key: this.#target.Key, signal, ...options }, send)
  }

  #isOverTls(): boolean {
    return this.#connection.target.endpoint?.startsWith('http:') !== true
  }
}

function timeLimits(body: Buffer): { timeoutMs: number; idleMs: number } {
  const timeoutMs = PART_MS * Math.max(1, Math.ceil(body.length / DEFAULT_PART_BYTES))
  return { timeoutMs, idleMs: PART_IDLE_MS }
}

/** A new stream for each attempt: its chunks can be read only once. */
function requestBody(body: Buffer): { Body: Buffer | Readable; ContentLength: number } {
  const Body = body.length > DEFAULT_PART_BYTES ? Readable.from(sendChunks(body)) : body
  return { Body, ContentLength: body.length }
}

/**
 * Sets the payload hash of the signature; the SDK would hash the bytes in the thread that sends
 * them.
 */
function signWith(payload: string) {
  return <Args extends { request: unknown }, Result>(next: (args: Args) => Promise<Result>) =>
    (args: Args): Promise<Result> => {
      const { headers } = args.request as { headers: Record<string, string> }
      headers['x-amz-content-sha256'] = payload
      return next(args)
    }
}

function* sendChunks(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += SEND_CHUNK_BYTES)
    yield body.subarray(at, at + SEND_CHUNK_BYTES)
}

const HASH_CHUNK_BYTES = 4 * 2 ** 20

/** Another thread needs a copy of the bytes to hash. */
const MAX_COPIED_BYTES = 16 * 2 ** 20

/** CRC32 in base64: four bytes, big-endian. */
export async function crc32Base64(body: Buffer): Promise<string> {
  let value = 0
  for await (const chunk of hashChunks(body)) value = crc32(chunk, value)
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(value)
  return sum.toString('base64')
}

/** Content-MD5, which every store supports. */
export async function md5Base64(body: Buffer): Promise<string> {
  const hash = createHash('md5')
  for await (const chunk of hashChunks(body)) hash.update(chunk)
  return hash.digest('base64')
}

/**
 * SHA-256 in hex, for the signature; computed in another thread, because hashing 8 MiB takes as
 * long as sending it.
 */
export async function sha256Hex(body: Buffer): Promise<string> {
  if (body.length <= MAX_COPIED_BYTES) {
    return Buffer.from(await crypto.subtle.digest('SHA-256', body)).toString('hex')
  }
  const hash = createHash('sha256')
  for await (const chunk of hashChunks(body)) hash.update(chunk)
  return hash.digest('hex')
}

async function* hashChunks(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += HASH_CHUNK_BYTES) {
    if (at > 0) await setImmediate()
    yield body.subarray(at, at + HASH_CHUNK_BYTES)
  }
}

export interface EncryptionParameters {
  ServerSideEncryption?: ServerSideEncryption
  SSEKMSKeyId?: string
}

/** Server-side encryption: what a write asks for. */
export function encryptionParameters({ encryption }: BucketTarget): EncryptionParameters {
  if (encryption === undefined) return {}
  const { type: algorithm, kmsKeyId } = encryption
  return {
    ServerSideEncryption: algorithm,
    ...(kmsKeyId !== undefined && { SSEKMSKeyId: kmsKeyId }),
  }
}

/** Throws unless the store confirms the encryption: some stores ignore the header. */
export function requireEncryption(
  { bucket, encryption }: BucketTarget,
  key: string,
  answer: { ServerSideEncryption?: ServerSideEncryption | undefined },
): void {
  if (encryption === undefined || answer.ServerSideEncryption === encryption.type) return
  throw new StorageError(
    `s3://${bucket}/${key}: the store does not confirm the encryption ${encryption.type}: remove spec.storage.s3.encryption, or use a store that supports it`,
    { status: 200, reason: 'EncryptionNotConfirmed' },
  )
}
