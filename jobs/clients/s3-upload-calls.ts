/** The calls of one upload: begun once, parts that the store checks, completed also where the answer is lost, or aborted. */
import { Readable } from 'node:stream'
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
} from '@aws-sdk/client-s3'
import { StorageError } from '../../crds/errors.ts'
import { PART_BYTES } from '../../crds/parts.ts'
import type { S3Connection } from './s3-connection.ts'
import { crc32Of, md5Of, sha256Of } from './s3-digests.ts'
import { isUnknownHeader } from './s3-errors.ts'

/** A part of 8 MiB that is slower than 14 KiB/s is no upload. */
const PART_MS = 600_000
/** What the kernel still holds of a part goes out in silence, and that on a slow line. */
const PART_SILENT_MS = 180_000
const COMPLETE_MS = 600_000
/** Some stores copy all parts before they answer, and say nothing meanwhile. */
const COPIED_BYTES_PER_MS = 50_000
/** Cheap to make here, and to check there: a store that is given none may make a dearer one of its own. */
const CHECKSUM = 'CRC32'
/** What S3 calls a signature that says nothing of the bytes. */
const UNSIGNED = 'UNSIGNED-PAYLOAD'
/** SIGTERM leaves a minute for everything. */
const ABORT_MS = 20_000
/** A larger body is sent in pieces: TLS encrypts what it is given at once, and holds all of that. */
const PIECE_BYTES = 2 ** 20

interface Begun {
  uploadId: string | undefined
  /** The store checks each part by the CRC32 that comes with it. */
  isChecked: boolean
}

export class UploadCalls {
  readonly #connection: S3Connection
  readonly #target: { Bucket: string; Key: string }
  readonly #signal: AbortSignal | undefined
  #begun: Promise<Begun> | undefined
  #mayHaveStrays = false

  constructor(connection: S3Connection, key: string, signal: AbortSignal | undefined) {
    this.#connection = connection
    this.#target = { Bucket: connection.target.bucket, Key: key }
    this.#signal = signal
  }

  async putWhole(body: Buffer): Promise<void> {
    const ContentMD5 = await md5Of(body)
    const payload = this.#isOverTls() ? UNSIGNED : await sha256Of(body)
    const input = { ...this.#target, ContentMD5 }
    await this.#call('PUT', limitsOf(body), (client, abortSignal) => {
      const command = new PutObjectCommand({ ...input, ...bodyOf(body) })
      command.middlewareStack.add(signing(payload), { step: 'build' })
      return client.send(command, { abortSignal })
    })
  }

  /** Begins the upload with the first of its parts. */
  async putPart(body: Buffer, number: number, stop: AbortSignal): Promise<CompletedPart> {
    const { uploadId, isChecked } = await this.begin()
    const checksum = isChecked
      ? { ChecksumCRC32: await crc32Of(body) }
      : { ContentMD5: await md5Of(body) }
    // What TLS brings as it was sent, and the store checks by a signed checksum, needs no second hash.
    const payload = this.#isOverTls() ? UNSIGNED : await sha256Of(body)
    const input = { ...this.#target, UploadId: uploadId, PartNumber: number, ...checksum }
    const options = { ...limitsOf(body), stop }
    const { ETag, ChecksumCRC32 } = await this.#call(
      `PUT PART ${number}`,
      options,
      (client, abortSignal) => {
        const command = new UploadPartCommand({ ...input, ...bodyOf(body) })
        command.middlewareStack.add(signing(payload), { step: 'build' })
        return client.send(command, { abortSignal })
      },
    )
    // Named again at the end, where the store keeps it: only the part with our bytes will do.
    const isKept = isChecked && ChecksumCRC32 !== undefined
    return { ETag, PartNumber: number, ...(isKept && checksum) }
  }

  begin(): Promise<Begun> {
    this.#begun ??= this.#begin()
    return this.#begun
  }

  async complete(parts: CompletedPart[], bytes: number): Promise<void> {
    const { uploadId } = await this.begin()
    const input = { ...this.#target, UploadId: uploadId, MultipartUpload: { Parts: parts } }
    const timeoutMs = COMPLETE_MS + Math.ceil(bytes / COPIED_BYTES_PER_MS)
    const options = { timeoutMs, silentMs: timeoutMs }
    try {
      await this.#call('COMPLETE UPLOAD', options, (client, abortSignal) =>
        client.send(new CompleteMultipartUploadCommand(input), { abortSignal }),
      )
    } catch (error) {
      // The store may have done it, and its answer was lost: then the upload is not known any more.
      const isUnknown = error instanceof StorageError && error.reason === 'NoSuchUpload'
      if (!isUnknown || (await this.#size()) !== bytes) throw error
    }
  }

  /**
   * Ends what is open: after a failure this upload, and in any case those that the store began for a call
   * whose answer was lost. Parts cost money for as long as an upload is open.
   */
  async clean(hasFailed: boolean): Promise<void> {
    // The signal of the caller may be what ended it.
    const signal = AbortSignal.timeout(ABORT_MS)
    try {
      const begun = await this.#begun?.catch(() => undefined)
      if (hasFailed && begun !== undefined) await this.#abort(begun.uploadId, signal)
      if (!this.#mayHaveStrays) return
      for (const uploadId of await this.#open(signal)) await this.#abort(uploadId, signal)
    } catch {
      // They stay listed: the next attempt, or the purge, aborts them.
    }
  }

  async #open(signal: AbortSignal): Promise<string[]> {
    const { Bucket, Key } = this.#target
    const { Uploads = [] } = await this.#connection.call(
      'LIST UPLOADS',
      { key: Key, signal },
      (client, abortSignal) =>
        client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: Key }), { abortSignal }),
    )
    return Uploads.flatMap((one) =>
      one.Key === Key && one.UploadId !== undefined ? [one.UploadId] : [],
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

  /** Some stores know no checksums: they refuse to hear of them, or do not say that they have heard. */
  async #begin(): Promise<Begun> {
    try {
      return await this.#create({ ...this.#target, ChecksumAlgorithm: CHECKSUM })
    } catch (error) {
      if (!isUnknownHeader(error)) throw error
      return this.#create(this.#target)
    }
  }

  async #create(input: CreateMultipartUploadCommandInput): Promise<Begun> {
    let tries = 0
    const { UploadId, ChecksumAlgorithm } = await this.#call(
      'CREATE UPLOAD',
      {},
      (client, abortSignal) => {
        tries += 1
        this.#mayHaveStrays ||= tries > 1
        return client.send(new CreateMultipartUploadCommand(input), { abortSignal })
      },
    )
    return { uploadId: UploadId, isChecked: ChecksumAlgorithm === CHECKSUM }
  }

  async #size(): Promise<number | undefined> {
    const head = await this.#call('HEAD', {}, (client, abortSignal) =>
      client.send(new HeadObjectCommand(this.#target), { abortSignal }),
    )
    return head.ContentLength
  }

  #call<Result>(
    name: string,
    { stop, ...options }: { timeoutMs?: number; silentMs?: number; stop?: AbortSignal },
    send: (client: S3Client, signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const signals = [this.#signal, stop].filter((signal) => signal !== undefined)
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0]
    return this.#connection.call(name, { key: this.#target.Key, signal, ...options }, send)
  }

  #isOverTls(): boolean {
    return this.#connection.target.endpoint?.startsWith('http:') !== true
  }
}

function limitsOf(body: Buffer): { timeoutMs: number; silentMs: number } {
  const timeoutMs = PART_MS * Math.max(1, Math.ceil(body.length / PART_BYTES))
  return { timeoutMs, silentMs: PART_SILENT_MS }
}

/** For each attempt anew: pieces are given out once. */
function bodyOf(body: Buffer): { Body: Buffer | Readable; ContentLength: number } {
  const Body = body.length > PART_BYTES ? Readable.from(pieces(body)) : body
  return { Body, ContentLength: body.length }
}

/** What the signature says of the bytes; the SDK would hash them in the thread that moves them. */
function signing(payload: string) {
  return <Args extends { request: unknown }, Result>(next: (args: Args) => Promise<Result>) =>
    (args: Args): Promise<Result> => {
      const { headers } = args.request as { headers: Record<string, string> }
      headers['x-amz-content-sha256'] = payload
      return next(args)
    }
}

function* pieces(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) yield body.subarray(at, at + PIECE_BYTES)
}
