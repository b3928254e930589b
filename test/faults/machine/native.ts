/**
 * What Node does in threads of its own comes back whenever it comes back. On the simulated machine it
 * is done at once: the files of a pod, and the signatures of tokens.
 */
import { createHash, createHmac, webcrypto } from 'node:crypto'
import { readFileSync, type PathOrFileDescriptor } from 'node:fs'
import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

type Bytes = ArrayBuffer | NodeJS.ArrayBufferView

/** From now on nothing in this process waits for a thread. */
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
