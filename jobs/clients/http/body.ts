/**
 * Reads and sends HTTP bodies within limits: the server may be hostile, and memory is shared by all
 * tenants. Limits the bytes of one response and of all responses together, frees large buffers
 * early, and builds multipart form bodies.
 */
import { randomUUID } from 'node:crypto'
import { Readable, Transform } from 'node:stream'

/** Default limit for a response that is read as a whole. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024
/** Limit for the text of an error; the rest is not read. */
export const MAX_ERROR_BYTES = 64 * 1024
/** A response of at most this size does not use the budget. */
const UNCOUNTED_BYTES = 64 * 1024

/** Ended the call: the response is longer than the caller's limit. */
export class ResponseTooLarge extends Error {
  constructor(maxBytes: number) {
    super(`the answer has more than ${maxBytes} bytes`)
  }
}

/** Limits the bytes of all responses in memory together. Small responses are not counted. */
export class ByteBudget {
  #remaining: number

  constructor(bytes: number) {
    this.#remaining = bytes
  }

  acquire(bytes: number): boolean {
    if (bytes > this.#remaining) return false
    this.#remaining -= bytes
    return true
  }

  release(bytes: number): void {
    this.#remaining += bytes
  }
}

/** Counts one response as it arrives. */
export class ByteCounter {
  readonly #maxBytes: number
  readonly #budget: ByteBudget | undefined
  #bytes = 0
  #acquired = 0

  constructor(maxBytes: number, budget?: ByteBudget) {
    this.#maxBytes = maxBytes
    this.#budget = budget
  }

  /** Why the rest of the response must not be read; undefined while it may continue. */
  add(bytes: number): Error | undefined {
    this.#bytes += bytes
    if (this.#bytes > this.#maxBytes) return new ResponseTooLarge(this.#maxBytes)
    if (this.#budget === undefined || this.#bytes <= UNCOUNTED_BYTES) return undefined
    if (!this.#budget.acquire(bytes)) return new Error('too many long answers at once')
    this.#acquired += bytes
    return undefined
  }

  /** The response is no longer in memory. */
  release(): void {
    this.#budget?.release(this.#acquired)
    this.#acquired = 0
  }
}

/** Passes the bytes through; fails with `ResponseTooLarge` above the limit. */
export function limitBytes(body: Readable, maxBytes: number): Readable {
  const counter = new ByteCounter(maxBytes)
  const limiter = new Transform({
    transform(chunk: Buffer, _, next) {
      const error = counter.add(chunk.length)
      if (error === undefined) next(null, chunk)
      else next(error)
    },
  })
  body.once('error', (error) => limiter.destroy(error))
  limiter.once('close', () => body.destroy())
  return body.pipe(limiter)
}

/** The start of a body as text, for messages; the rest is not read. */
export async function readPrefix(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= MAX_ERROR_BYTES) break
  }
  return Buffer.concat(chunks).toString('utf8', 0, Math.min(bytes, MAX_ERROR_BYTES))
}

/** Smaller buffers are not worth it; the pool that buffers share is much smaller. */
const MIN_FREED_BYTES = 128 * 1024

interface BodySizes {
  /** The announced length. */
  length: number | undefined
  maxBytes: number
}

/** Undefined if the body is longer; it is then not read to the end. */
export async function readBody(
  body: Readable,
  { length, maxBytes }: BodySizes,
): Promise<Buffer | undefined> {
  if (length === undefined) return readUnknownLength(body, maxBytes)
  if (length <= maxBytes) return readKnownLength(body, length)
  // Destroying the stream early is intended; ignore the resulting error.
  body.once('error', () => undefined).destroy()
  return undefined
}

/** The caller guarantees that the buffer is neither read nor being sent any more. */
export function freeBuffer({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= MIN_FREED_BYTES) buffer.transfer(0)
}

/** Copies each chunk on arrival: retained chunks would be garbage-collected late. */
async function readKnownLength(body: AsyncIterable<Buffer>, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  let offset = 0
  for await (const chunk of body) offset += chunk.copy(bytes, offset)
  return bytes.subarray(0, offset)
}

async function readUnknownLength(
  body: AsyncIterable<Buffer>,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    length += chunk.length
    // Leaving the loop closes the connection.
    if (length > maxBytes) return undefined
  }
  return Buffer.concat(chunks)
}

/** A body that is sent as a stream. */
export interface StreamBody {
  source: Readable
  contentType: string
  contentLength: number
}

interface FormFile {
  field: string
  /** File name, without quotes or line breaks. */
  file: string
  source: Readable
  /** Bytes of `source`. */
  size: number
  /**
   * Awaited after all bytes of the file have been sent, before the line that completes the form.
   */
  beforeEnd?: () => Promise<void>
}

export function fileFormBody({ field, file, source, size, beforeEnd }: FormFile): StreamBody {
  const boundary = `vec-operator-${randomUUID()}`
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${file}"\r\n` +
      'Content-Type: application/octet-stream\r\n\r\n',
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    source: Readable.from(formChunks({ head, source, tail, beforeEnd }), { objectMode: false }),
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength: head.length + size + tail.length,
  }
}

interface FormParts {
  head: Buffer
  source: Readable
  tail: Buffer
  beforeEnd: (() => Promise<void>) | undefined
}

async function* formChunks({
  head,
  source,
  tail,
  beforeEnd,
}: FormParts): AsyncGenerator<Uint8Array> {
  yield head
  for await (const chunk of source) yield chunk as Uint8Array
  await beforeEnd?.()
  yield tail
}
