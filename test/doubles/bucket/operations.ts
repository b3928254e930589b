/** What S3 does, call by call: objects, listings, uploads in parts. */
import { createHash } from 'node:crypto'
import {
  answered,
  areExpected,
  checkNamed,
  checksumOf,
  checkWritten,
  EXPECTED,
} from './checksums.ts'
import type { BucketStore, StoredUpload } from './store.ts'
import { S3Error, element, elements, valuesOf, xml, type S3Answer } from './xml.ts'

export interface S3Call {
  operation: Operation
  bucket: string
  key: string
  query: URLSearchParams
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

export type Operation =
  | 'CreateBucket'
  | 'HeadBucket'
  | 'ListObjectsV2'
  | 'ListMultipartUploads'
  | 'DeleteObjects'
  | 'PutObject'
  | 'GetObject'
  | 'HeadObject'
  | 'DeleteObject'
  | 'CreateMultipartUpload'
  | 'UploadPart'
  | 'CompleteMultipartUpload'
  | 'AbortMultipartUpload'

const MIN_PART_BYTES = 5 * 1024 * 1024
const MAX_KEY_BYTES = 1024
const PAGE = 1000
const MOST_PARTS = 10_000

export function operationOf(method: string, key: string, query: URLSearchParams): Operation {
  if (key === '') {
    if (method === 'POST' && query.has('delete')) return 'DeleteObjects'
    if (method === 'PUT' && query.size === 0) return 'CreateBucket'
    if (method === 'HEAD') return 'HeadBucket'
    if (method === 'GET' && query.has('uploads')) return 'ListMultipartUploads'
    if (method === 'GET') return 'ListObjectsV2'
  } else {
    if (method === 'PUT') return query.has('uploadId') ? 'UploadPart' : 'PutObject'
    if (method === 'GET') return 'GetObject'
    if (method === 'HEAD') return 'HeadObject'
    if (method === 'DELETE') return query.has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject'
    if (method === 'POST')
      return query.has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload'
  }
  throw new S3Error(501, 'NotImplemented', 'A header or query is not implemented.')
}

export function perform(store: BucketStore, call: S3Call): S3Answer {
  const { key } = call
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new S3Error(400, 'KeyTooLongError', 'Your key is too long')
  }
  switch (call.operation) {
    case 'CreateBucket':
    case 'HeadBucket':
      return { status: 200 }
    case 'ListObjectsV2':
      return list(store, call)
    case 'ListMultipartUploads':
      return listUploads(store, call)
    case 'DeleteObjects':
      return deleteObjects(store, call)
    case 'PutObject':
      return put(store, call)
    case 'GetObject':
    case 'HeadObject':
      return get(store, call)
    case 'DeleteObject':
      store.objects.delete(key)
      return { status: 204 }
    case 'CreateMultipartUpload':
      return begin(store, call)
    case 'UploadPart':
      return putPart(store, call)
    case 'CompleteMultipartUpload':
      return complete(store, call)
    case 'AbortMultipartUpload':
      uploadOf(store, call)
      store.uploads.delete(call.query.get('uploadId') ?? '')
      return { status: 204 }
  }
}

function put(store: BucketStore, { key, headers, body }: S3Call): S3Answer {
  checkWritten({ headers, body }, store.isLocked, 'Put Object')
  const isConditional = headers['if-none-match'] === '*' && !store.ignoresConditions
  if (isConditional && store.objects.has(key)) {
    const words = 'At least one of the pre-conditions you specified did not hold'
    throw new S3Error(412, 'PreconditionFailed', words)
  }
  return {
    status: 200,
    headers: { etag: store.put(key, body).etag, ...noteCreation(store, key, headers) },
  }
}

const ENCRYPTION = 'x-amz-server-side-encryption'

/** What the creation of an object asks for; answers the headers that confirm its encryption. */
function noteCreation(
  store: BucketStore,
  key: string,
  headers: S3Call['headers'],
): Record<string, string> {
  const text = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
  const encryption = text(ENCRYPTION)
  const kmsKeyId = text(`${ENCRYPTION}-aws-kms-key-id`)
  const storageClass = text('x-amz-storage-class')
  store.created.push({
    key,
    ...(encryption !== undefined && { encryption }),
    ...(kmsKeyId !== undefined && { kmsKeyId }),
    ...(storageClass !== undefined && { storageClass }),
  })
  const isConfirmed = encryption !== undefined && !store.ignoresEncryption
  return isConfirmed ? { [ENCRYPTION]: encryption } : {}
}

function get(store: BucketStore, { key, headers }: S3Call): S3Answer {
  const object = store.objects.get(key)
  if (object === undefined) {
    throw new S3Error(404, 'NoSuchKey', 'The specified key does not exist.', { Key: key })
  }
  const common = {
    etag: object.etag,
    'accept-ranges': 'bytes',
    'content-type': 'binary/octet-stream',
    'last-modified': object.modified.toUTCString(),
  }
  const range = /^bytes=(\d+)-(\d*)$/.exec(String(headers['range'] ?? ''))
  if (range === null) {
    const length = { 'content-length': String(object.body.length) }
    return { status: 200, headers: { ...common, ...length }, body: object.body }
  }
  const from = Number(range[1])
  const to = range[2] === '' ? object.body.length - 1 : Number(range[2])
  const body = object.body.subarray(from, to + 1)
  const content = {
    'content-range': `bytes ${from}-${to}/${object.body.length}`,
    'content-length': String(body.length),
  }
  return { status: 206, headers: { ...common, ...content }, body }
}

function list(store: BucketStore, { bucket, query }: S3Call): S3Answer {
  const prefix = query.get('prefix') ?? ''
  const max = Math.min(Number(query.get('max-keys') ?? PAGE), store.pageSize)
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64').toString()
  const keys = store.keys(prefix)
  const rest = after === '' ? keys : keys.slice(keys.findLastIndex((key) => key <= after) + 1)
  const page = rest.slice(0, max)
  const isTruncated = rest.length > page.length
  const contents = page.map((key) => {
    const object = store.objects.get(key)
    return elements('Contents', {
      Key: key,
      Size: object?.body.length ?? 0,
      ETag: object?.etag ?? '',
      ...(store.listsTimes && { LastModified: object?.modified.toISOString() ?? '' }),
    })
  })
  const head = { Name: bucket, Prefix: prefix, KeyCount: page.length, MaxKeys: max }
  const next = Buffer.from(page.at(-1) ?? '').toString('base64')
  return xml(
    element(
      'ListBucketResult',
      Object.entries(head)
        .map(([name, value]) => element(name, String(value)))
        .join('') +
        element('IsTruncated', String(isTruncated)) +
        (isTruncated && !store.hidesTokens ? element('NextContinuationToken', next) : '') +
        contents.join(''),
      true,
    ),
  )
}

function listUploads(store: BucketStore, { bucket, query }: S3Call): S3Answer {
  const prefix = query.get('prefix') ?? ''
  const max = Math.min(Number(query.get('max-uploads') ?? PAGE), store.pageSize)
  const from = marked(query.get('key-marker') ?? '', query.get('upload-id-marker'))
  const rest = [...store.uploads]
    .map(([id, { key }]) => ({ id, key, at: marked(key, id) }))
    .filter(({ key, at }) => key.startsWith(prefix) && (!query.has('key-marker') || at > from))
    .sort((one, other) => (one.at < other.at ? -1 : 1))
  const page = rest.slice(0, max)
  const last = page.at(-1)
  const isTruncated = rest.length > page.length && last !== undefined
  const next = isTruncated
    ? element('NextKeyMarker', last.key) + element('NextUploadIdMarker', last.id)
    : ''
  const head = element('Bucket', bucket) + element('IsTruncated', String(isTruncated)) + next
  const uploads = page.map(({ id, key }) => elements('Upload', { Key: key, UploadId: id }))
  return xml(element('ListMultipartUploadsResult', head + uploads.join(''), true))
}

/** In the order of a listing: by key, then by upload. A marker without an upload is behind all of its key. */
function marked(key: string, id: string | null): string {
  return `${key}\0${id ?? '\uffff'}`
}

function deleteObjects(store: BucketStore, { headers, body }: S3Call): S3Answer {
  const md5 = createHash('md5').update(body).digest('base64')
  if (headers['content-md5'] !== md5) {
    throw new S3Error(400, 'InvalidDigest', 'The Content-MD5 you specified is not valid.')
  }
  const keys = valuesOf(body.toString(), 'Key')
  if (keys.length > PAGE) throw new S3Error(400, 'MalformedXML', 'Too many keys')
  const errors = keys.map((key) => {
    const code = store.undeletable.get(key) ?? store.refuseDeletion?.(key)
    if (code === undefined) store.objects.delete(key)
    return code === undefined ? '' : elements('Error', { Key: key, Code: code, Message: code })
  })
  return xml(element('DeleteResult', errors.join(''), true))
}

function begin(store: BucketStore, { bucket, key, headers }: S3Call): S3Answer {
  const isChecked = areExpected(store.checksums, headers)
  const fields = { Bucket: bucket, Key: key, UploadId: store.begin(key, isChecked) }
  const answer = xml(elements('InitiateMultipartUploadResult', fields))
  const noted = noteCreation(store, key, headers)
  return { ...answer, headers: { ...answer.headers, ...(isChecked && EXPECTED), ...noted } }
}

function putPart(store: BucketStore, call: S3Call): S3Answer {
  const { query, headers, body } = call
  const number = Number(query.get('partNumber'))
  if (!Number.isInteger(number) || number < 1 || number > MOST_PARTS) {
    const words = `Part number must be an integer between 1 and ${MOST_PARTS}, inclusive`
    throw new S3Error(400, 'InvalidArgument', words)
  }
  const upload = uploadOf(store, call)
  checkWritten({ headers, body }, store.isLocked, 'Put Part')
  const checksum = checksumOf({ body, headers, isExpected: upload.isChecked }, store.checksums)
  const part = store.putPart(upload, number, body, checksum)
  return { status: 200, headers: { etag: part.etag, ...answered(part) } }
}

function complete(store: BucketStore, call: S3Call): S3Answer {
  const upload = uploadOf(store, call)
  const named = partsIn(call.body.toString())
  const numbers = named.map(({ number }) => number)
  for (const { number, checksum } of named) {
    const part = upload.parts.get(number)
    if (part === undefined) throw new S3Error(400, 'InvalidPart', 'A part could not be found.')
    checkNamed(part, checksum)
    if (part.body.length < MIN_PART_BYTES && number !== numbers.at(-1)) {
      const words = 'Your proposed upload is smaller than the minimum allowed size'
      throw new S3Error(400, 'EntityTooSmall', words)
    }
  }
  refuseUnequal(store, upload, numbers)
  const { etag } = store.complete(call.query.get('uploadId') ?? '', upload, numbers)
  const fields = { Bucket: call.bucket, Key: call.key, ETag: etag }
  return xml(elements('CompleteMultipartUploadResult', fields))
}

function refuseUnequal(store: BucketStore, { parts }: StoredUpload, numbers: number[]): void {
  if (!store.wantsEqualParts) return
  const sizes = numbers.map((number) => parts.get(number)?.body.length ?? 0)
  const [first = 0] = sizes
  const last = sizes.pop() ?? 0
  if (sizes.every((size) => size === first) && last <= first) return
  throw new S3Error(400, 'InvalidPart', 'All non-trailing parts must have the same length.')
}

/** In their order. */
function partsIn(text: string): { number: number; checksum: string | undefined }[] {
  return text
    .split('<Part>')
    .slice(1)
    .map((part) => ({
      number: Number(valuesOf(part, 'PartNumber')[0]),
      checksum: valuesOf(part, 'ChecksumCRC32')[0],
    }))
}

function uploadOf(store: BucketStore, { key, query }: S3Call): StoredUpload {
  const upload = store.uploads.get(query.get('uploadId') ?? '')
  if (upload?.key === key) return upload
  const words = 'The specified multipart upload does not exist.'
  throw new S3Error(404, 'NoSuchUpload', words)
}
