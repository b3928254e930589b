/**
 * A stream into one object. Small ones go through `Upload` of @aws-sdk/lib-storage; large ones through
 * parts of our own, which hold less memory and move more bytes in a second (docs/performance.md).
 */
import type { CompletedPart } from '@aws-sdk/client-s3'
import { PartQueue } from './part-queue.ts'
import type { S3Connection } from './s3-connection.ts'
import { libraryUpload } from './s3-library-upload.ts'
import { UploadCalls } from './s3-upload-calls.ts'
import type { Parts, Sizes } from './upload-memory.ts'

export interface Upload extends Sizes {
  key: string
  /** Fails when its bytes are not what they should be: then the object is never made. */
  source: AsyncIterable<Uint8Array>
  signal?: AbortSignal | undefined
}

/** What is larger, or may be, is worth parts of our own. */
export const SMALL_BYTES = 256 * 2 ** 20

/** Answers how many bytes there were. Of an upload that fails nothing stays. */
export async function uploadStream(
  connection: S3Connection,
  { key, source, signal, ...sizes }: Upload,
  parts: Parts,
): Promise<number> {
  const calls = new UploadCalls(connection, key, signal)
  try {
    const isSmall = (sizes.sizeBytes ?? sizes.expectedBytes ?? Infinity) <= SMALL_BYTES
    const upload = isSmall ? libraryUpload : ownUpload
    const bytes = await upload(calls, source, parts)
    await calls.clean(false)
    return bytes
  } catch (error) {
    await calls.clean(true)
    signal?.throwIfAborted()
    throw error
  }
}

async function ownUpload(
  calls: UploadCalls,
  source: AsyncIterable<Uint8Array>,
  parts: Parts,
): Promise<number> {
  const completed: CompletedPart[] = []
  const queue = new PartQueue(parts, async (body, number, stop) => {
    completed[number - 1] = await calls.putPart(body, number, stop)
  })
  try {
    for await (const chunk of source) await queue.add(chunk)
    const whole = queue.whole()
    if (whole !== undefined) {
      await calls.putWhole(whole)
      return whole.length
    }
    const bytes = await queue.end()
    await calls.complete(completed, bytes)
    return bytes
  } catch (error) {
    await queue.abandon()
    throw error
  }
}
