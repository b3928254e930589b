/**
 * `Upload` of the SDK, with our calls below it. It cuts a stream into parts and keeps their order; each
 * call it makes goes through S3Connection, so that credentials are those of the moment, a call is retried
 * by our rule and ends with the caller's signal, and no answer that was lost leaves an upload behind.
 *
 * What it does by itself (3.1169): it goes on with other parts after one has failed, and its own abort
 * answers before they have ended. Here the first failure ends the stream and the other parts.
 */
import { Readable } from 'node:stream'
import {
  S3Client,
  type CompleteMultipartUploadCommandInput,
  type UploadPartCommandInput,
} from '@aws-sdk/client-s3'
import { Upload as LibraryUpload } from '@aws-sdk/lib-storage'
import { MAX_PARTS } from '../../crds/parts.ts'
import { usedUp } from './part-queue.ts'
import type { UploadCalls } from './s3-upload-calls.ts'
import type { Parts } from './upload-memory.ts'

/** Besides the parts that are sent, it holds one as it came and one as it is put together. */
const OWN_PARTS = 2

export async function libraryUpload(
  calls: UploadCalls,
  source: AsyncIterable<Uint8Array>,
  { partBytes, buffers }: Parts,
): Promise<number> {
  const stop = new AbortController()
  const counted = { bytes: 0 }
  const body = Readable.from(limited(source, partBytes, counted, stop), { highWaterMark: 1 })
  stop.signal.addEventListener('abort', () => body.destroy(stop.signal.reason as Error))
  // Whoever reads it gets its error; once nobody does, it was told by the call that failed.
  body.on('error', () => undefined)
  const client = clientOver(calls, stop, counted)
  const upload = new LibraryUpload({
    client,
    params: { Bucket: 'of the calls', Key: 'of the calls', Body: body },
    partSize: partBytes,
    queueSize: Math.max(1, buffers - OWN_PARTS),
  })
  try {
    await upload.done()
    return counted.bytes
  } catch (error) {
    // What it throws may be an error of the stream that our own stop has ended.
    throw stop.signal.aborted ? stop.signal.reason : error
  } finally {
    body.destroy()
    client.destroy()
  }
}

async function* limited(
  source: AsyncIterable<Uint8Array>,
  partBytes: number,
  counted: { bytes: number },
  stop: AbortController,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of source) {
      counted.bytes += chunk.length
      if (counted.bytes > partBytes * MAX_PARTS) throw usedUp(partBytes)
      yield chunk
    }
  } catch (error) {
    stop.abort(error)
    throw error
  }
}

/** A client that sends nothing: each command becomes one of our calls. */
function clientOver(
  calls: UploadCalls,
  stop: AbortController,
  counted: { bytes: number },
): S3Client {
  const client = new S3Client({
    region: 'none',
    endpoint: 'http://of.the.calls',
    credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
    requestChecksumCalculation: 'WHEN_REQUIRED',
  })
  const made = async (command: string, input: unknown): Promise<object> => {
    switch (command) {
      case 'PutObjectCommand':
        await calls.putWhole(bodyOf(input as UploadPartCommandInput))
        return {}
      case 'CreateMultipartUploadCommand':
        return { UploadId: (await calls.begin()).uploadId }
      case 'UploadPartCommand': {
        const part = input as UploadPartCommandInput
        return calls.putPart(bodyOf(part), part.PartNumber ?? 0, stop.signal)
      }
      case 'CompleteMultipartUploadCommand': {
        const { MultipartUpload } = input as CompleteMultipartUploadCommandInput
        await calls.complete(MultipartUpload?.Parts ?? [], counted.bytes)
        return {}
      }
      default:
        throw new Error(`no call is made of the command "${command}"`)
    }
  }
  client.middlewareStack.add(
    (_, context) =>
      async ({ input }) => {
        const nothing = { output: { $metadata: {} }, response: undefined }
        // Whoever holds the calls aborts them, once all of them have ended.
        if (context.commandName === 'AbortMultipartUploadCommand') return nothing
        try {
          stop.signal.throwIfAborted()
          const output = await made(context.commandName ?? '', input)
          return { output: { $metadata: {}, ...output }, response: undefined }
        } catch (error) {
          stop.abort(error)
          throw error
        }
      },
    { step: 'initialize', priority: 'high', name: 'ourCalls' },
  )
  return client
}

function bodyOf({ Body }: UploadPartCommandInput): Buffer {
  if (Buffer.isBuffer(Body)) return Body
  if (Body instanceof Uint8Array) return Buffer.from(Body.buffer, Body.byteOffset, Body.byteLength)
  throw new Error('a part is not in memory')
}
