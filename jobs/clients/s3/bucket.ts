/**
 * A bucket of an S3-compatible store: small JSON objects, streaming uploads, listings and deletion.
 * Every failure is a StorageError with bucket, key and cause, and never contains a credential.
 */
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type _Error,
} from '@aws-sdk/client-s3'
import { StorageError } from '../../../crds/contract/errors.ts'
import { DELETE_BATCH_KEYS } from '../../../crds/contract/limits.ts'
import { parseExactJson } from '../../../crds/engine/exact-json.ts'
import { MAX_RESPONSE_BYTES, ResponseTooLarge, ByteCounter } from '../http/body.ts'
import { S3Connection, type S3CallOptions, type S3ConnectionOptions } from './connection.ts'
import { md5Base64, encryptionParameters, requireEncryption } from './object-upload.ts'
import { isTransientCode } from './errors.ts'
import type { StreamUpload } from './upload.ts'
import { UploadMemory } from './parts.ts'

export interface StoredObject {
  key: string
  sizeBytes: number
  /** By the clock of the store; absent if the store does not list it. */
  modifiedAt?: Date
}

export interface OpenUpload {
  key: string
  uploadId: string
}

const OBJECT_CALL_MS = 600_000
/** A JSON object of at most this size is read like any short answer. */
const SHORT_JSON_BYTES = 4 * 1024 * 1024
/** A page has a thousand objects or uploads. */
const MAX_LIST_PAGES = 10_000
const MAX_UPLOAD_PAGES = 10
/** A response to HEAD has no body: the SDK calls its 404 NotFound. */
const NOT_FOUND = new Set(['NoSuchKey', 'NotFound', 'NoSuchUpload'])
/** Two simultaneous conditional writes of one key. */
const WRITE_CONFLICTS = new Set(['ConditionalRequestConflict', 'OperationAborted'])

interface BucketOptions extends S3ConnectionOptions {
  /** Memory of the process; default: that of its container. */
  memoryBytes?: number | undefined
}

export class Bucket {
  readonly #connection: S3Connection
  /** Shared by all uploads to this bucket. */
  readonly memory: UploadMemory

  constructor({ memoryBytes, ...options }: BucketOptions) {
    this.#connection = new S3Connection(options)
    this.memory = new UploadMemory(memoryBytes)
  }

  get name(): string {
    return this.#connection.target.bucket
  }

  /** Writes a JSON object; with `onlyNew`, returns false if the key exists. */
  async putJson(
    key: string,
    value: object,
    { onlyNew = false, signal }: { onlyNew?: boolean; signal?: AbortSignal | undefined } = {},
  ): Promise<boolean> {
    const Body = Buffer.from(JSON.stringify(value))
    const input = {
      ...{ Bucket: this.name, Key: key, Body, ContentType: 'application/json' },
      // Object Lock requires a checksum, and every store supports this one.
      ContentMD5: await md5Base64(Body),
      ...(onlyNew && { IfNoneMatch: '*' }),
      ...encryptionParameters(this.#connection.target),
    }
    try {
      const answer = await this.#connection.call(
        'PUT',
        { key, signal, timeoutMs: OBJECT_CALL_MS, isChange: true },
        (client, abortSignal) => client.send(new PutObjectCommand(input), { abortSignal }),
      )
      requireEncryption(this.#connection.target, key, answer)
      return true
    } catch (error) {
      if (!(error instanceof StorageError)) throw error
      if (onlyNew && alreadyExists(error)) return false
      // A store without conditional writes: the caller checks which write won.
      if (onlyNew && error.status === 501) return this.putJson(key, value, { signal })
      throw error
    }
  }

  /**
   * The value of a JSON object, with exact numbers; undefined if it does not exist. An object above
   * `maxBytes` is not read.
   */
  async getJson(
    key: string,
    signal?: AbortSignal,
    maxBytes = MAX_RESPONSE_BYTES,
  ): Promise<unknown> {
    const text = await this.#unlessNotFound(() =>
      this.#connection.call(
        'GET',
        { key, signal, ...(maxBytes > SHORT_JSON_BYTES && { timeoutMs: OBJECT_CALL_MS }) },
        async (client, abortSignal) => {
          const command = new GetObjectCommand({ Bucket: this.name, Key: key })
          const { Body } = await client.send(command, { abortSignal })
          return readText(Body as Readable, maxBytes)
        },
      ),
    )
    if (text === undefined) return undefined
    try {
      return parseExactJson(text)
    } catch (cause) {
      throw new StorageError(`s3://${this.name}/${key} is not JSON`, { cause })
    }
  }

  /** Size of an object; undefined if it does not exist. */
  async size(key: string, signal?: AbortSignal): Promise<number | undefined> {
    const command = new HeadObjectCommand({ Bucket: this.name, Key: key })
    const head = await this.#unlessNotFound(() =>
      this.#connection.call('HEAD', { key, signal }, (client, abortSignal) =>
        client.send(command, { abortSignal }),
      ),
    )
    return head?.ContentLength
  }

  /** The bytes of an object; the reader handles failures of the stream. */
  async read(key: string, signal?: AbortSignal): Promise<Readable> {
    const command = new GetObjectCommand({ Bucket: this.name, Key: key })
    const { Body } = await this.#connection.call('GET', { key, signal }, (client) =>
      // The call's own deadline ends with the headers: the duration of the body is unlimited.
      client.send(command, signal === undefined ? {} : { abortSignal: signal }),
    )
    return Body as Readable
  }

  /** A range of an object, in memory; shorter if the object ends before. */
  async bytes(key: string, { from, length }: ByteRange, signal?: AbortSignal): Promise<Buffer> {
    const range = `bytes=${from}-${from + length - 1}`
    const command = new GetObjectCommand({ Bucket: this.name, Key: key, Range: range })
    return this.#connection.call('GET', { key, signal }, async (client, abortSignal) => {
      const { Body, ContentRange } = await client.send(command, { abortSignal })
      const body = Body as Readable
      if (ContentRange?.startsWith(`bytes ${from}-`) === true) return readBytes(body, length)
      body.destroy()
      throw new StorageError(`s3://${this.name}/${key}: the store does not answer with a range`)
    })
  }

  /** A URL that lets anyone read this object for an hour: it must never be shown. */
  async presignedUrl(key: string, signal?: AbortSignal): Promise<string> {
    // Loaded on demand: only a restore needs it.
    const presign = await import('./connection.ts')
    return presign.presignedUrl(this.#connection, key, signal)
  }

  /**
   * Streams bytes into an object and returns their number. A failed upload leaves nothing behind,
   * and nothing is written to a disk.
   */
  async upload(upload: StreamUpload): Promise<number> {
    const plan = this.memory.planParts(`s3://${this.name}/${upload.key}`, upload)
    // Loaded on demand: only a backup needs it.
    const { uploadStream } = await import('./upload.ts')
    const bytes = await uploadStream(this.#connection, upload, plan)
    const size = await this.size(upload.key, upload.signal)
    if (size === bytes) return bytes
    throw new StorageError(
      `s3://${this.name}/${upload.key} has ${size ?? 'no'} bytes after ${bytes} were uploaded`,
    )
  }

  /** One page of the objects whose keys start with the prefix, in order. */
  async list(
    prefix: string,
    { max, token, signal }: ListOptions = {},
  ): Promise<{ objects: StoredObject[]; next: string | undefined }> {
    const command = new ListObjectsV2Command({
      Bucket: this.name,
      Prefix: prefix,
      MaxKeys: max ?? DELETE_BATCH_KEYS,
      ContinuationToken: token,
    })
    const page = await this.#connection.call(
      'LIST',
      { key: prefix, signal },
      (client, abortSignal) => client.send(command, { abortSignal }),
    )
    const objects = (page.Contents ?? [])
      .map(({ Key = '', Size = 0, LastModified }) => ({
        key: Key,
        sizeBytes: Size,
        ...(LastModified !== undefined && { modifiedAt: LastModified }),
      }))
      // Some stores ignore the prefix, and listed objects may be deleted.
      .filter(({ key }) => key.startsWith(prefix))
    const { IsTruncated: isTruncated = false, NextContinuationToken: next } = page
    // A caller that sets a maximum does not need the rest.
    if (isTruncated && next === undefined && max === undefined) {
      throw new StorageError(
        `LIST s3://${this.name}/${prefix} has more objects, but the store does not say how to list them`,
      )
    }
    return { objects, next: isTruncated ? next : undefined }
  }

  /** All objects whose keys start with the prefix. */
  async *listAll(prefix: string, signal?: AbortSignal): AsyncGenerator<StoredObject> {
    let token: string | undefined
    for (let count = 0; count < MAX_LIST_PAGES; count += 1) {
      const page = await this.list(prefix, { token, signal })
      yield* page.objects
      if (page.next === undefined) return
      this.#requireProgress(prefix, token, page.next)
      token = page.next
    }
    throw new StorageError(
      `LIST s3://${this.name}/${prefix} has more than ${MAX_LIST_PAGES} pages: remove what does not belong there`,
    )
  }

  /** Deletes objects, a thousand per call; missing objects are accepted. An error of `beforeAttempt` ends it. */
  async delete(
    keys: string[],
    signal?: AbortSignal,
    beforeAttempt?: () => Promise<void>,
  ): Promise<void> {
    for (let from = 0; from < keys.length; from += DELETE_BATCH_KEYS) {
      const batch = keys.slice(from, from + DELETE_BATCH_KEYS)
      await this.#deleteBatch(batch, { signal, beforeAttempt })
    }
  }

  /** Uploads under the prefix that were started and neither completed nor aborted. */
  async openUploads(prefix: string, signal?: AbortSignal): Promise<OpenUpload[]> {
    const uploads: OpenUpload[] = []
    let after: { KeyMarker?: string; UploadIdMarker?: string } = {}
    for (let count = 0; count < MAX_UPLOAD_PAGES; count += 1) {
      const input = { Bucket: this.name, Prefix: prefix, ...after }
      const page = await this.#connection.call(
        'LIST UPLOADS',
        { key: prefix, signal },
        (client, abortSignal) =>
          client.send(new ListMultipartUploadsCommand(input), { abortSignal }),
      )
      for (const { Key, UploadId } of page.Uploads ?? []) {
        if (Key === undefined || UploadId === undefined || !Key.startsWith(prefix)) continue
        uploads.push({ key: Key, uploadId: UploadId })
      }
      const next = nextUploadPage(page)
      if (next === undefined) return uploads
      this.#requireProgress(prefix, JSON.stringify(after), JSON.stringify(next))
      after = next
    }
    throw new StorageError(
      `LIST UPLOADS s3://${this.name}/${prefix} has more than ${MAX_UPLOAD_PAGES} pages: abort the unfinished uploads there`,
    )
  }

  async abortUpload(
    { key, uploadId }: OpenUpload,
    signal?: AbortSignal,
    beforeAttempt?: () => Promise<void>,
  ): Promise<void> {
    const input = { Bucket: this.name, Key: key, UploadId: uploadId }
    const options = { key, signal, isChange: true, beforeAttempt }
    await this.#unlessNotFound(() =>
      this.#connection.call('ABORT UPLOAD', options, (client, abortSignal) =>
        client.send(new AbortMultipartUploadCommand(input), { abortSignal }),
      ),
    )
  }

  close(): void {
    this.#connection.close()
  }

  async #deleteBatch(
    keys: string[],
    { signal, beforeAttempt }: Pick<S3CallOptions, 'signal' | 'beforeAttempt'>,
  ): Promise<void> {
    const input = {
      Bucket: this.name,
      Delete: { Objects: keys.map((Key) => ({ Key })), Quiet: true },
    }
    const [first = ''] = keys
    const options = { key: first, signal, isChange: true, beforeAttempt }
    await this.#connection.call('DELETE', options, async (client, abortSignal) => {
      const command = new DeleteObjectsCommand(input)
      command.middlewareStack.add(withMd5, { step: 'build', name: 'contentMd5' })
      const { Errors = [] } = await client.send(command, { abortSignal })
      const refused = Errors.filter(({ Code }) => Code !== 'NoSuchKey')
      // A permanent refusal is reported at once; otherwise the whole batch is sent again.
      const failed = refused.find(({ Code }) => !isTransientCode(Code)) ?? refused[0]
      if (failed !== undefined) throw this.#deletionError(failed, first)
    })
  }

  #deletionError({ Key, Code, Message }: _Error, first: string): StorageError {
    const text = `DELETE s3://${this.name}/${Key ?? first} was refused: ${Code ?? ''} ${Message ?? ''}`
    return new StorageError(text, {
      ...(Code !== undefined && { reason: Code }),
      status: isTransientCode(Code) ? 503 : 200,
    })
  }

  /** A store that repeats its continuation token would cause an endless loop. */
  #requireProgress(prefix: string, from: string | undefined, next: string | undefined): void {
    if (next === undefined || next !== from) return
    throw new StorageError(`LIST s3://${this.name}/${prefix} repeats the same page`)
  }

  /**
   * Undefined if the error says that the object does not exist; other 404s may be about bucket or
   * key.
   */
  async #unlessNotFound<Result>(call: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await call()
    } catch (error) {
      const isNotFound = error instanceof StorageError && NOT_FOUND.has(error.reason ?? '')
      if (isNotFound) return undefined
      throw error
    }
  }
}

/** Throws `StorageError` if the body is longer: a retry would return the same. */
async function readText(body: Readable, maxBytes: number): Promise<string> {
  return (await readBytes(body, maxBytes)).toString()
}

async function readBytes(body: Readable, maxBytes: number): Promise<Buffer> {
  const counter = new ByteCounter(maxBytes)
  const chunks: Buffer[] = []
  for await (const chunk of body as AsyncIterable<Buffer>) {
    const error = counter.add(chunk.length)
    if (error instanceof ResponseTooLarge) throw error
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/**
 * The key was written earlier or at the same time. Stores report other kinds of conflicts as well.
 */
function alreadyExists({ status, reason = '' }: StorageError): boolean {
  return status === 412 || WRITE_CONFLICTS.has(reason)
}

interface ByteRange {
  /** Offset of the first byte. */
  from: number
  length: number
}

interface ListOptions {
  max?: number
  token?: string | undefined
  signal?: AbortSignal | undefined
}

function nextUploadPage(page: {
  IsTruncated?: boolean | undefined
  NextKeyMarker?: string | undefined
  NextUploadIdMarker?: string | undefined
}): { KeyMarker?: string; UploadIdMarker?: string } | undefined {
  const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = page
  if (IsTruncated !== true || NextKeyMarker === undefined) return undefined
  return {
    KeyMarker: NextKeyMarker,
    ...(NextUploadIdMarker !== undefined && { UploadIdMarker: NextUploadIdMarker }),
  }
}

interface HttpMessage {
  body?: unknown
  headers: Record<string, string>
}

/** Stores that do not support the SDK's checksum require this one for a deletion. */
function withMd5<Args extends { request: unknown }, Result>(next: (args: Args) => Promise<Result>) {
  return (args: Args): Promise<Result> => {
    const { body, headers } = args.request as HttpMessage
    if (typeof body === 'string' || body instanceof Uint8Array) {
      headers['content-md5'] = createHash('md5').update(body).digest('base64')
    }
    return next(args)
  }
}
