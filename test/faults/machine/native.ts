/**
 * Replaces operations that Node runs in threads, whose results arrive at unpredictable times, by synchronous
 * ones: reading the files of a pod, and signing tokens.
 */
import { createHash, createHmac, webcrypto } from 'node:crypto'
import { readFileSync, type PathOrFileDescriptor } from 'node:fs'
import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

type Bytes = ArrayBuffer | NodeJS.ArrayBufferView

/** Replaces these operations in this process. The replacement is permanent. */
export function installNative(): void {
  const readFile = async (path: PathOrFileDescriptor, options?: BufferEncoding) =>
    options === undefined ? readFileSync(path) : readFileSync(path, options)
  Object.assign(files, { readFile })
  installHashes()
  syncBuiltinESMExports()
}

function installHashes(): void {
  const { subtle } = webcrypto
  const importKey = subtle.importKey.bind(subtle) as (...values: unknown[]) => Promise<object>
  const sign = subtle.sign.bind(subtle) as (...values: unknown[]) => Promise<ArrayBuffer>
  /** The bytes of keys for HMAC; other keys are left to Node. */
  const secrets = new WeakMap<object, Bytes>()
  Object.defineProperties(subtle, {
    importKey: {
      async value(format: string, bytes: Bytes, ...rest: unknown[]) {
        const key = await importKey(format, bytes, ...rest)
        if (format === 'raw') secrets.set(key, bytes)
        return key
      },
    },
    sign: {
      async value(algorithm: unknown, key: object, data: Bytes) {
        const secret = secrets.get(key)
        if (secret === undefined) return sign(algorithm, key, data)
        const digest = createHmac('sha256', bufferOf(secret)).update(bufferOf(data)).digest()
        return Uint8Array.from(digest).buffer
      },
    },
    digest: {
      async value(algorithm: string, data: Bytes) {
        const name = algorithm.replace('-', '').toLowerCase()
        return Uint8Array.from(createHash(name).update(bufferOf(data)).digest()).buffer
      },
    },
  })
}

function bufferOf(bytes: Bytes): Buffer {
  return bytes instanceof ArrayBuffer
    ? Buffer.from(bytes)
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
