/** How much of an answer is read. Whoever is asked may be hostile, and memory is shared by all tenants. */
import { randomUUID } from 'node:crypto'
import { Readable, Transform } from 'node:stream'

/** Of any answer that is read as a whole, where nothing less is said. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024
/** Of the text of an error; the rest is not read. */
export const MAX_ERROR_BYTES = 64 * 1024
/** An answer of at most so many bytes needs none of the budget. */
const UNCOUNTED_BYTES = 64 * 1024

/** Ended the call: its answer is longer than the caller reads. */
export class ResponseTooLarge extends Error {
  constructor(maxBytes: number) {
    super(`the answer has more than ${maxBytes} bytes`)
  }
}

/** Bytes that all answers under way may have in memory together. Small answers are not counted. */
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

/** Counts one answer as it comes. */
export class ByteCounter {
  readonly #maxBytes: number
  readonly #budget: ByteBudget | undefined
  #bytes = 0
  #acquired = 0

  constructor(maxBytes: number, budget?: ByteBudget) {
    this.#maxBytes = maxBytes
    this.#budget = budget
  }

  /** Why no more of the answer is to be read; undefined while it may go on. */
  add(bytes: number): Error | undefined {
    this.#bytes += bytes
    if (this.#bytes > this.#maxBytes) return new ResponseTooLarge(this.#maxBytes)
    if (this.#budget === undefined || this.#bytes <= UNCOUNTED_BYTES) return undefined
    if (!this.#budget.acquire(bytes)) return new Error('too many long answers at once')
    this.#acquired += bytes
    return undefined
  }

  /** The answer is not in memory any more. */
  release(): void {
    this.#budget?.release(this.#acquired)
    this.#acquired = 0
  }
}

/** The same bytes; fails with `AnswerTooLong` past so many. */
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

/** The beginning of a body as text, for messages; the rest is not read. */
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

/** Smaller ones are not worth it; the memory that buffers share is smaller by far. */
const MIN_FREED_BYTES = 1024 * 1024

interface BodySizes {
  /** As it was announced. */
  length: number | undefined
  maxBytes: number
}

/** Undefined where there is more than that: then it is not read to its end. */
export async function readBody(
  body: Readable,
  { length, maxBytes }: BodySizes,
): Promise<Buffer | undefined> {
  if (length === undefined) return readUnknownLength(body, maxBytes)
  if (length <= maxBytes) return readKnownLength(body, length)
  // That it ends too early is what is meant.
  body.once('error', () => undefined).destroy()
  return undefined
}

/** Nothing of it may be looked at any more, nor be on its way to anybody. */
export function freeBuffer({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= MIN_FREED_BYTES) buffer.transfer(0)
}

/** What comes is copied at once: pieces that are kept would be collected late. */
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

/** A body that is sent as it comes. */
export interface StreamBody {
  source: Readable
  contentType: string
  contentLength: number
}

interface FormFile {
  field: string
  /** Name of the file, without quotes or line breaks. */
  file: string
  source: Readable
  /** Bytes of `source`. */
  size: number
  /** Awaited once all bytes of the file have been sent, before the line that completes the form. */
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
