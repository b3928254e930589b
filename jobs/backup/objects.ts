/**
 * Objects in the bucket: the seal of the files a pod leaves for the next pod, canonical JSON, and
 * the check that an uploaded object is still complete.
 * The files that a pod writes for its successor decide what is deleted on a node and what the
 * manifest contains. Others may also have write access to the bucket, so each file carries a seal
 * that only pods of this Job can create: the uid of the Job is stored in the Kubernetes API only,
 * never in the bucket.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { formerCheckpointKey } from '../../crds/contract/backup-keys.ts'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { ManifestSnapshot } from '../../crds/contract/manifest.ts'
import { isExactNumber, roundedNumber } from '../../crds/engine/exact-json.ts'
import { errorMessage } from '../clients/http/request.ts'
import type { Dependencies } from '../dependencies.ts'
import type { RunContext } from './context.ts'

type SealContext = { tools: Pick<Dependencies, 'jobUid'> }

const Sealed = Type.Object({ seal: Type.String() })

/** The seal covers the key: content that is copied to another key is rejected. */
export function addSeal<Content extends object>(
  key: string,
  content: Content,
  { tools }: SealContext,
): Content & { seal: string } {
  return { ...content, seal: computeSeal(key, content, tools.jobUid) }
}

/** Whether a pod of this Job wrote exactly this content under this key. */
export function hasValidSeal(key: string, found: unknown, { tools }: SealContext): boolean {
  if (!Value.Check(Sealed, found)) return false
  const { seal, ...content } = found
  const [actual, expected] = [seal, computeSeal(key, content, tools.jobUid)].map((text) =>
    Buffer.from(text),
  )
  if (actual === undefined || expected === undefined) return false
  return actual.length === expected.length && timingSafeEqual(actual, expected)
}

function computeSeal(key: string, content: object, job: string): string {
  return createHmac('sha256', job)
    .update(`${key}\n${canonicalJson(content)}`)
    .digest('hex')
}

/**
 * JSON with sorted fields: the order of fields differs between nodes and stores. Numbers are rounded: of an integer
 * above 2^63 another node reports a float (docs/engine-notes.md, "Points").
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, sortKeys)
}

function sortKeys(_: string, value: unknown): unknown {
  if (isExactNumber(value)) return roundedNumber(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A checkpoint as stored, and the key that its seal covers. */
export async function readCheckpointFile(
  key: string,
  { bucket, tools }: Pick<RunContext, 'bucket' | 'tools'>,
): Promise<{ key: string; found: unknown }> {
  const found = await bucket.getJson(key, tools.signal)
  if (found !== undefined) return { key, found }
  // An earlier pod of this Job may have run the previous release.
  const formerKey = formerCheckpointKey(key)
  return { key: formerKey, found: await bucket.getJson(formerKey, tools.signal) }
}

const MAX_KEY_BYTES = 1024

/** Reports an interrupted stream as a failure of the engine, regardless of the consumer. */
export async function* withStreamErrors(
  bytes: AsyncIterable<Uint8Array>,
  description: string,
): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes
  } catch (cause) {
    throw new EngineError(`${description} broke off: ${errorMessage(cause)}`, { cause })
  }
}

export function requireKeyLength(key: string): void {
  const bytes = Buffer.byteLength(key)
  if (bytes <= MAX_KEY_BYTES) return
  throw new Rejected(
    `the key has ${bytes} bytes, and S3 allows ${MAX_KEY_BYTES}: shorten spec.storage.s3.prefix (${key.slice(0, 100)}…)`,
  )
}

/** Whether the object exists with the size that was uploaded. No attempt writes other bytes to its key. */
export async function isUploaded(
  { key, sizeBytes }: ManifestSnapshot,
  { bucket, tools }: RunContext,
): Promise<boolean> {
  return (await bucket.size(key, tools.signal)) === sizeBytes
}
