/**
 * Uploads a stream into one object. Small objects go through `Upload` of @aws-sdk/lib-storage;
 * large ones through this module's own parts, which use less memory and have a higher throughput
 * (docs/performance.md).
 */
import { Readable } from 'node:stream'
import {
  S3Client,
  type CompletedPart,
  type CompleteMultipartUploadCommandInput,
  type UploadPartCommandInput,
} from '@aws-sdk/client-s3'
import { Upload as LibraryUpload } from '@aws-sdk/lib-storage'
import { MAX_PARTS } from '../../../crds/contract/limits.ts'
import type { S3Connection } from './connection.ts'
import { ObjectUpload } from './object-upload.ts'
import { PartQueue, partsExhausted, type PartPlan, type UploadSizes } from './parts.ts'

export interface StreamUpload extends UploadSizes {
  key: string
  /** Fails if its bytes are not the expected ones: the object is then never created. */
  source: AsyncIterable<Uint8Array>
  signal?: AbortSignal | undefined
}

/** Objects that are or may be larger use the own parts. */
export const LIBRARY_UPLOAD_BYTES = 256 * 2 ** 20

/** Returns the number of bytes. A failed upload leaves nothing behind. */
export async function uploadStream(
  connection: S3Connection,
  { key, source, signal, ...sizes }: StreamUpload,
  plan: PartPlan,
): Promise<number> {
  const calls = new ObjectUpload(connection, key, signal)
  try {
    const isSmall = (sizes.sizeBytes ?? sizes.expectedBytes ?? Infinity) <= LIBRARY_UPLOAD_BYTES
    const upload = isSmall ? uploadWithLibrary : uploadParts
    const bytes = await upload(calls, source, plan)
    await calls.cleanUp(false)
    return bytes
  } catch (error) {
    await calls.cleanUp(true)
    signal?.throwIfAborted()
    throw error
  }
}

async function uploadParts(
  calls: ObjectUpload,
  source: AsyncIterable<Uint8Array>,
  plan: PartPlan,
): Promise<number> {
  const completed: CompletedPart[] = []
  const queue = new PartQueue(plan, async (body, number, partSignal) => {
    completed[number - 1] = await calls.putPart(body, number, partSignal)
  })
  try {
    for await (const chunk of source) await queue.add(chunk)
    const singlePart = queue.singlePart()
    if (singlePart !== undefined) {
      await calls.putObject(singlePart)
      return singlePart.length
    }
    const bytes = await queue.finish()
    await calls.complete(completed, bytes)
    return bytes
  } catch (error) {
    await queue.abort()
    throw error
  }
}

/**
 * In addition to the parts being sent, the library holds one part as received and one as assembled.
 */
const LIBRARY_PARTS = 2

export async function uploadWithLibrary(
  calls: ObjectUpload,
  source: AsyncIterable<Uint8Array>,
  { partBytes, buffers }: PartPlan,
): Promise<number> {
  const abort = new AbortController()
  const sent = { bytes: 0 }
  const body = Readable.from(countedSource(source, partBytes, sent, abort), { highWaterMark: 1 })
  abort.signal.addEventListener('abort', () => body.destroy(abort.signal.reason as Error))
  // The reader gets the error; without a reader, the failed call has already reported it.
  body.on('error', () => undefined)
  const client = adapterClient(calls, abort, sent)
  const upload = new LibraryUpload({
    client,
    params: { Bucket: 'of the calls', Key: 'of the calls', Body: body },
    partSize: partBytes,
    queueSize: Math.max(1, buffers - LIBRARY_PARTS),
  })
  try {
    await upload.done()
    return sent.bytes
  } catch (error) {
    // The library may throw the error of the stream that this abort has ended.
    throw abort.signal.aborted ? abort.signal.reason : error
  } finally {
    body.destroy()
    client.destroy()
  }
}

async function* countedSource(
  source: AsyncIterable<Uint8Array>,
  partBytes: number,
  sent: { bytes: number },
  abort: AbortController,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of source) {
      sent.bytes += chunk.length
      if (sent.bytes > partBytes * MAX_PARTS) throw partsExhausted(partBytes)
      yield chunk
    }
  } catch (error) {
    abort.abort(error)
    throw error
  }
}

/** A client that sends nothing itself: each command is handled by `ObjectUpload`. */
function adapterClient(
  calls: ObjectUpload,
  abort: AbortController,
  sent: { bytes: number },
): S3Client {
  const client = new S3Client({
    region: 'none',
    endpoint: 'http://of.the.calls',
    credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
    requestChecksumCalculation: 'WHEN_REQUIRED',
  })
  const execute = async (command: string, input: unknown): Promise<object> => {
    switch (command) {
      case 'PutObjectCommand':
        await calls.putObject(partBody(input as UploadPartCommandInput))
        return {}
      case 'CreateMultipartUploadCommand':
        return { UploadId: (await calls.start()).uploadId }
      case 'UploadPartCommand': {
        const part = input as UploadPartCommandInput
        return calls.putPart(partBody(part), part.PartNumber ?? 0, abort.signal)
      }
      case 'CompleteMultipartUploadCommand': {
        const { MultipartUpload } = input as CompleteMultipartUploadCommandInput
        await calls.complete(MultipartUpload?.Parts ?? [], sent.bytes)
        return {}
      }
      default:
        throw new Error(`no call is made of the command "${command}"`)
    }
  }
  client.middlewareStack.add(
    (_, context) =>
      async ({ input }) => {
        const emptyResult = { output: { $metadata: {} }, response: undefined }
        // The owner of the calls aborts them once all of them have ended.
        if (context.commandName === 'AbortMultipartUploadCommand') return emptyResult
        try {
          abort.signal.throwIfAborted()
          const output = await execute(context.commandName ?? '', input)
          return { output: { $metadata: {}, ...output }, response: undefined }
        } catch (error) {
          abort.abort(error)
          throw error
        }
      },
    { step: 'initialize', priority: 'high', name: 'ourCalls' },
  )
  return client
}

function partBody({ Body }: UploadPartCommandInput): Buffer {
  if (Buffer.isBuffer(Body)) return Body
  if (Body instanceof Uint8Array) return Buffer.from(Body.buffer, Body.byteOffset, Body.byteLength)
  throw new Error('a part is not in memory')
}
