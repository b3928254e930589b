/**
 * A stream into one object: parts are filled from it one after the other while a few are under way.
 * Their buffers are used in turns, so that memory does not depend on the size of the object.
 */
import { crc32 } from 'node:zlib'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompletedPart,
  type CreateMultipartUploadCommandInput,
  type UploadPartCommandInput,
} from '@aws-sdk/client-s3'
import { StorageError } from '../../crds/errors.ts'
import { PartQueue } from './part-queue.ts'
import type { S3Connection } from './s3-connection.ts'
import { isUnknownHeader } from './s3-errors.ts'

export interface Upload {
  key: string
  /** Fails when its bytes are not what they should be: then the object is never made. */
  source: AsyncIterable<Uint8Array>
  /** How many bytes there will be, where anybody knows; decides the size of parts. */
  sizeBytes?: number | undefined
  /** Bytes of all parts that may be under way at once; two parts may be in any case. */
  inFlightBytes?: number
  /** Told of every upload that is begun, before its first byte. */
  signal?: AbortSignal | undefined
}

export const PART_BYTES = 8 * 1024 * 1024
const MAX_PARTS = 10_000
const MIB = 1024 * 1024
/** Of what nobody knows the size, and several are sent at once: the least that S3 allows. */
const LEAST_PART_BYTES = 5 * MIB
/** So many of those are of one size before they become twice as large: 302 GiB in all. */
const PARTS_OF_A_SIZE = 2000
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

/** Size of a part that is not the last, by its number. Most stores want all of one size as long as that will do. */
export function partBytes(sizeBytes: number | undefined, number: number): number {
  const doubled = Math.floor((number - 1) / PARTS_OF_A_SIZE)
  if (sizeBytes === undefined) return LEAST_PART_BYTES * 2 ** doubled
  return Math.max(PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/** Answers how many bytes it were. */
export async function uploadParts(connection: S3Connection, upload: Upload): Promise<number> {
  if ((upload.sizeBytes ?? 0) > PART_BYTES) return putParts(connection, upload)
  const { chunks, rest } = await headOf(upload.source, partBytes(upload.sizeBytes, 1))
  if (rest === undefined) return putWhole(connection, upload, Buffer.concat(chunks))
  return putParts(connection, { ...upload, source: joined(chunks, rest) })
}

interface Head {
  chunks: Uint8Array[]
  /** Undefined where all of it are those chunks, which fit one part. */
  rest?: AsyncIterator<Uint8Array>
}

async function headOf(source: AsyncIterable<Uint8Array>, most: number): Promise<Head> {
  const rest = source[Symbol.asyncIterator]()
  const chunks: Uint8Array[] = []
  for (let bytes = 0; bytes <= most;) {
    const next = await rest.next()
    if (next.done === true) return { chunks }
    chunks.push(next.value)
    bytes += next.value.length
  }
  return { chunks, rest }
}

async function* joined(
  chunks: Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  // What was given out is not kept for as long as the rest takes.
  for (let next = chunks.shift(); next !== undefined; next = chunks.shift()) yield next
  yield* { [Symbol.asyncIterator]: () => rest }
}

async function putWhole(
  connection: S3Connection,
  { key, signal }: Upload,
  body: Buffer,
): Promise<number> {
  const input = { Bucket: connection.target.bucket, Key: key, Body: body }
  await connection.call(
    'PUT',
    { key, signal, timeoutMs: PART_MS, silentMs: PART_SILENT_MS },
    (client, abortSignal) => client.send(new PutObjectCommand(input), { abortSignal }),
  )
  return body.length
}

async function putParts(connection: S3Connection, upload: Upload): Promise<number> {
  const { key, signal } = upload
  const begun = await begin(connection, upload)
  const target = { Bucket: connection.target.bucket, Key: key, UploadId: begun.uploadId }
  try {
    const { parts, bytes } = await sendParts(connection, upload, begun)
    await complete(
      connection,
      { key, signal, bytes },
      { ...target, MultipartUpload: { Parts: parts } },
    )
    return bytes
  } catch (error) {
    // Its parts cost money for as long as it is open. The signal may be what ended it.
    const limit = AbortSignal.timeout(ABORT_MS)
    await connection
      .call('ABORT UPLOAD', { key, signal: limit }, (client, abortSignal) =>
        client.send(new AbortMultipartUploadCommand(target), { abortSignal }),
      )
      .catch(() => undefined)
    throw error
  }
}

interface Begun {
  uploadId: string | undefined
  /** The store checks each part by the checksum that comes with it. */
  isChecked: boolean
}

/** Some stores know no checksums: they refuse to hear of them, or do not say that they have heard. */
async function begin(connection: S3Connection, { key, signal }: Upload): Promise<Begun> {
  const target = { Bucket: connection.target.bucket, Key: key }
  const create = async (input: CreateMultipartUploadCommandInput): Promise<Begun> => {
    const { UploadId, ChecksumAlgorithm } = await connection.call(
      'CREATE UPLOAD',
      { key, signal },
      (client, abortSignal) =>
        client.send(new CreateMultipartUploadCommand(input), { abortSignal }),
    )
    return { uploadId: UploadId, isChecked: ChecksumAlgorithm === CHECKSUM }
  }
  try {
    return await create({ ...target, ChecksumAlgorithm: CHECKSUM })
  } catch (error) {
    if (!isUnknownHeader(error)) throw error
    return create(target)
  }
}

async function sendParts(
  connection: S3Connection,
  { key, source, sizeBytes, inFlightBytes = 0, signal }: Upload,
  { uploadId: UploadId, isChecked }: Begun,
): Promise<{ parts: CompletedPart[]; bytes: number }> {
  const parts: CompletedPart[] = []
  const sizeOf = (number: number) => partBytes(sizeBytes, number)
  const queue = new PartQueue({ sizeOf, inFlightBytes }, async (Body, PartNumber) => {
    const timeoutMs = PART_MS * Math.ceil(Body.length / PART_BYTES)
    const checksum = isChecked ? { ChecksumCRC32: checksumOf(Body) } : {}
    const payload = isChecked && isOverTls(connection) ? UNSIGNED : await digestOf(Body)
    const target = { Bucket: connection.target.bucket, Key: key, UploadId, PartNumber }
    const { ETag, ChecksumCRC32 } = await connection.call(
      `PUT PART ${PartNumber}`,
      { key, timeoutMs, silentMs: PART_SILENT_MS, signal: queue.signal(signal) },
      (client, abortSignal) =>
        client.send(partOf({ ...target, Body, ...checksum }, payload), { abortSignal }),
    )
    // Named again at the end, where the store keeps it: only the part with our bytes will do.
    parts[PartNumber - 1] = { ETag, PartNumber, ...(ChecksumCRC32 !== undefined && checksum) }
  })
  try {
    for await (const chunk of source) await queue.add(chunk)
    const bytes = await queue.end()
    return { parts, bytes }
  } catch (error) {
    await queue.abandon()
    throw error
  }
}

/** `payload` is what its signature says of the bytes; the SDK would hash them in the thread that moves them. */
function partOf(input: UploadPartCommandInput, payload: string): UploadPartCommand {
  const command = new UploadPartCommand(input)
  command.middlewareStack.add(
    (next) => (args) => {
      const { headers } = args.request as { headers: Record<string, string> }
      headers['x-amz-content-sha256'] = payload
      return next(args)
    },
    { step: 'build' },
  )
  return command
}

/** What TLS brings as it was sent, and the store checks by a CRC32 that is signed, needs no second hash. */
function isOverTls({ target }: S3Connection): boolean {
  return target.endpoint?.startsWith('http:') !== true
}

/** By another thread: 8 MiB take as long to hash as to send. */
async function digestOf(body: Buffer): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', body)).toString('hex')
}

/** As S3 writes a CRC32: four bytes, the highest first, in base64. */
function checksumOf(body: Buffer): string {
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(body))
  return sum.toString('base64')
}

async function complete(
  connection: S3Connection,
  { key, signal, bytes }: Pick<Upload, 'key' | 'signal'> & { bytes: number },
  input: ConstructorParameters<typeof CompleteMultipartUploadCommand>[0],
): Promise<void> {
  const timeoutMs = COMPLETE_MS + Math.ceil(bytes / COPIED_BYTES_PER_MS)
  try {
    await connection.call(
      'COMPLETE UPLOAD',
      { key, signal, timeoutMs, silentMs: timeoutMs },
      (client, abortSignal) =>
        client.send(new CompleteMultipartUploadCommand(input), { abortSignal }),
    )
  } catch (error) {
    // The store may have done it, and its answer was lost: then the upload is not known any more.
    const isUnknown = error instanceof StorageError && error.reason === 'NoSuchUpload'
    if (!isUnknown) throw error
    const head = await connection.call('HEAD', { key, signal }, (client, abortSignal) =>
      client.send(new HeadObjectCommand({ Bucket: input.Bucket, Key: key }), { abortSignal }),
    )
    if (head.ContentLength !== bytes) throw error
  }
}
