/**
 * The checksum a manifest carries of itself: the SHA-256 of its canonical form without that field. The
 * canonical form is that of RFC 8785: no white space, the fields of each object sorted by their UTF-16
 * code units, numbers and strings as JSON.stringify writes them.
 */
import { hash } from 'node:crypto'
import { Rejected } from '../errors.ts'
import type { Manifest } from '../manifest.ts'

/** What an engine says of a collection is nested a few levels deep. */
const MAX_DEPTH = 100

/** The manifest with its checksum. */
export function withChecksum<M extends Manifest>(manifest: M): M {
  return { ...manifest, manifestSha256: checksumOf(manifest) }
}

/** Throws `Rejected` where the manifest is not the one that was written; earlier releases wrote no checksum. */
export function checkChecksum(manifest: Manifest): void {
  const { manifestSha256: recorded } = manifest
  if (recorded === undefined) return
  const actual = checksumOf(manifest)
  if (actual === recorded) return
  throw new Rejected(
    `manifest.json: manifestSha256 is ${recorded}, but its other fields have the SHA-256 ${actual}: it was changed after it was written. Use another backup, or remove manifestSha256 if the change is intended`,
  )
}

function checksumOf(manifest: Manifest): string {
  return hash('sha256', canonical({ ...manifest, manifestSha256: undefined }))
}

function canonical(value: unknown, depth = 0): string {
  if (depth > MAX_DEPTH) {
    throw new Rejected(`manifest.json: its fields are nested more than ${MAX_DEPTH} levels deep`)
  }
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, depth + 1)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field, depth + 1)}`).join(',')}}`
}
