/** How much of an answer is read. Whoever is asked may be hostile, and memory is shared by all tenants. */
import { Transform, type Readable } from 'node:stream'

/** Of any answer that is read as a whole, where nothing less is said. */
export const ANSWER_BYTES = 64 * 1024 * 1024
/** Of the text of an error; the rest is not read. */
export const ERROR_BYTES = 64 * 1024
/** An answer of at most so many bytes needs none of the budget. */
const FREE_BYTES = 64 * 1024

/** Ended the call: its answer is longer than the caller reads. */
export class AnswerTooLong extends Error {
  constructor(maxBytes: number) {
    super(`the answer has more than ${maxBytes} bytes`)
  }
}

/** Bytes that all answers under way may have in memory together. Small answers are not counted. */
export class ByteBudget {
  #left: number

  constructor(bytes: number) {
    this.#left = bytes
  }

  take(bytes: number): boolean {
    if (bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  give(bytes: number): void {
    this.#left += bytes
  }
}

/** Counts one answer as it comes. */
export class ByteCount {
  readonly #maxBytes: number
  readonly #budget: ByteBudget | undefined
  #bytes = 0
  #taken = 0

  constructor(maxBytes: number, budget?: ByteBudget) {
    this.#maxBytes = maxBytes
    this.#budget = budget
  }

  /** Why no more of the answer is to be read; undefined while it may go on. */
  add(bytes: number): Error | undefined {
    this.#bytes += bytes
    if (this.#bytes > this.#maxBytes) return new AnswerTooLong(this.#maxBytes)
    if (this.#budget === undefined || this.#bytes <= FREE_BYTES) return undefined
    if (!this.#budget.take(bytes)) return new Error('too many long answers at once')
    this.#taken += bytes
    return undefined
  }

  /** The answer is not in memory any more. */
  end(): void {
    this.#budget?.give(this.#taken)
    this.#taken = 0
  }
}

/** The same bytes; fails with `AnswerTooLong` past so many. */
export function limited(body: Readable, maxBytes: number): Readable {
  const count = new ByteCount(maxBytes)
  const checked = new Transform({
    transform(chunk: Buffer, _, next) {
      const error = count.add(chunk.length)
      if (error === undefined) next(null, chunk)
      else next(error)
    },
  })
  body.once('error', (error) => checked.destroy(error))
  checked.once('close', () => body.destroy())
  return body.pipe(checked)
}

/** The beginning of a body as text, for messages; the rest is not read. */
export async function beginningOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= ERROR_BYTES) break
  }
  return Buffer.concat(chunks).toString('utf8', 0, Math.min(bytes, ERROR_BYTES))
}
