/** Checksums of what is uploaded, as S3 writes them. Large bodies are hashed piece by piece, so that others have their turn. */
import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { crc32 } from 'node:zlib'

const PIECE_BYTES = 4 * 2 ** 20
/** Another thread needs a copy of what it hashes. */
const MOST_COPIED_BYTES = 16 * 2 ** 20

/** CRC32 in base64: four bytes, the highest first. */
export async function crc32Of(body: Buffer): Promise<string> {
  let value = 0
  for await (const piece of piecesOf(body)) value = crc32(piece, value)
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(value)
  return sum.toString('base64')
}

/** Content-MD5, which every store knows. */
export async function md5Of(body: Buffer): Promise<string> {
  const hash = createHash('md5')
  for await (const piece of piecesOf(body)) hash.update(piece)
  return hash.digest('base64')
}

/** SHA-256 in hex, for the signature; by another thread, for 8 MiB take as long to hash as to send. */
export async function sha256Of(body: Buffer): Promise<string> {
  if (body.length <= MOST_COPIED_BYTES) {
    return Buffer.from(await crypto.subtle.digest('SHA-256', body)).toString('hex')
  }
  const hash = createHash('sha256')
  for await (const piece of piecesOf(body)) hash.update(piece)
  return hash.digest('hex')
}

async function* piecesOf(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    if (at > 0) await setImmediate()
    yield body.subarray(at, at + PIECE_BYTES)
  }
}
