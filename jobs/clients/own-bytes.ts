/**
 * Answers that may be large, each read into memory of its own. That can be given back as soon as nobody
 * needs it: left to be collected, it would be two or three times as much before anything is.
 */
import type { Readable } from 'node:stream'

/** Smaller ones are not worth it; the memory that buffers share is smaller by far. */
const LEAST_BYTES = 1024 * 1024

interface Sizes {
  /** As it was announced. */
  length: number | undefined
  maxBytes: number
}

/** Undefined where there is more than that: then it is not read to its end. */
export async function ownBytes(
  body: Readable,
  { length, maxBytes }: Sizes,
): Promise<Buffer | undefined> {
  if (length === undefined) return gathered(body, maxBytes)
  if (length <= maxBytes) return placed(body, length)
  // That it ends too early is what is meant.
  body.once('error', () => undefined).destroy()
  return undefined
}

/** Nothing of it may be looked at any more, nor be on its way to anybody. */
export function giveBack({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= LEAST_BYTES) buffer.transfer(0)
}

/** What comes is copied at once: pieces that are kept would be collected late. */
async function placed(body: AsyncIterable<Buffer>, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  let at = 0
  for await (const chunk of body) at += chunk.copy(bytes, at)
  return bytes.subarray(0, at)
}

async function gathered(
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
