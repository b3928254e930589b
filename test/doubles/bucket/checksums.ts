/** Checksums of parts: expected where an upload was begun with them, and held against the bytes that came. */
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { StoredPart } from './store.ts'
import { S3Error } from './xml.ts'

/**
 * What a store does with them: it keeps them, as S3 does; it checks them and answers none; it does not
 * heed that they are to come; it refuses to hear of them.
 */
export type Checksums = 'kept' | 'unanswered' | 'unheeded' | 'refused'

type Headers = Record<string, string | string[] | undefined>

const ALGORITHM = 'CRC32'
const ANNOUNCED = 'x-amz-checksum-algorithm'
const GIVEN = 'x-amz-checksum-crc32'

/** Of the answer to an upload that is begun. */
export const EXPECTED = { [ANNOUNCED]: ALGORITHM, 'x-amz-checksum-type': 'COMPOSITE' }

/** Whether the parts of a new upload will come with checksums. */
export function areExpected(checksums: Checksums, headers: Headers): boolean {
  const announced = headers[ANNOUNCED]
  if (announced === undefined || checksums === 'unheeded') return false
  if (announced === ALGORITHM && checksums !== 'refused') return true
  throw new S3Error(501, 'NotImplemented', `Header '${ANNOUNCED}' is not implemented.`)
}

interface Part {
  body: Buffer
  headers: Headers
  /** Its upload was begun with checksums. */
  isExpected: boolean
}

/** The checksum that came with a part; refuses one that is missing, unknown, or not that of the bytes. */
export function checksumOf(
  { body, headers, isExpected }: Part,
  checksums: Checksums,
): string | undefined {
  const given = headers[GIVEN]
  if (given === undefined) {
    if (!isExpected) return undefined
    throw new S3Error(400, 'InvalidRequest', 'Checksum Type mismatch occurred')
  }
  if (checksums === 'unheeded' || checksums === 'refused') {
    throw new S3Error(400, 'InvalidArgument', `Unsupported header '${GIVEN}' received`)
  }
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(body))
  if (given === sum.toString('base64')) return sum.toString('base64')
  const words = 'The CRC32 you specified did not match the calculated checksum.'
  throw new S3Error(400, 'BadDigest', words)
}

interface Written {
  body: Buffer
  headers: Headers
}

/** Holds a body against its Content-MD5; refuses one without any checksum where the bucket is locked. */
export function checkWritten({ body, headers }: Written, isLocked: boolean, what: string): void {
  const { 'content-md5': given } = headers
  if (given === undefined) {
    if (!isLocked || headers[GIVEN] !== undefined) return
    const words = `Content-MD5 OR x-amz-checksum- HTTP header is required for ${what} requests with Object Lock parameters`
    throw new S3Error(400, 'InvalidRequest', words)
  }
  if (!/^[A-Za-z0-9+/]{22}==$/.test(String(given))) {
    throw new S3Error(400, 'InvalidDigest', 'The Content-MD5 you specified was invalid.')
  }
  if (given !== createHash('md5').update(body).digest('base64')) {
    const words = 'The Content-MD5 you specified did not match what we received.'
    throw new S3Error(400, 'BadDigest', words)
  }
}

/** Of the answer to a part. */
export function answered({ checksum }: StoredPart): Record<string, string> {
  return checksum === undefined ? {} : { [GIVEN]: checksum }
}

/** Refuses to complete an upload with another part than the one that is kept. */
export function checkNamed({ checksum }: StoredPart, named: string | undefined): void {
  if (checksum === named) return
  if (named === undefined) {
    const words = 'The complete request must include the checksum for each part.'
    throw new S3Error(400, 'InvalidRequest', words)
  }
  throw new S3Error(400, 'InvalidPart', 'One or more of the specified parts could not be found.')
}
