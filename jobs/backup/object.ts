/** An object of a backup as it is made: its bytes as they come from an engine, and its key. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { ManifestSnapshot } from '../../crds/manifest.ts'
import { wordsOf } from '../clients/call.ts'
import type { Work } from './work.ts'

const MAX_KEY_BYTES = 1024

/** What breaks off is the engine's failure, whoever reads it. */
export async function* readable(
  bytes: AsyncIterable<Uint8Array>,
  what: string,
): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes
  } catch (cause) {
    throw new EngineError(`${what} broke off: ${wordsOf(cause)}`, { cause })
  }
}

export function refuseLong(key: string): void {
  const bytes = Buffer.byteLength(key)
  if (bytes <= MAX_KEY_BYTES) return
  throw new Rejected(
    `the key has ${bytes} bytes, and S3 allows ${MAX_KEY_BYTES}: shorten spec.storage.s3.prefix (${key.slice(0, 100)}…)`,
  )
}

/** Whether the object is there as it was uploaded. */
export async function isThere(
  { key, sizeBytes }: ManifestSnapshot,
  { bucket, tools }: Work,
): Promise<boolean> {
  return (await bucket.size(key, tools.signal)) === sizeBytes
}
