/**
 * How large the operator's image is, against the size that was recorded last. Both are those of the
 * archive made here, on bases made from this machine's programs: comparable with each other, and close
 * to what a registry's bases give. `node test/cluster/image-size.ts --record` builds and records.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import type { Image } from './buildah.ts'
import { buildOperatorImage } from './images.ts'
import { prepareTools } from './tools.ts'

const RECORD = join(import.meta.dirname, '../../.ci/image-size')
/** What a change may add without a word. */
const TOLERATED = 1.1

export interface Growth {
  /** Sizes and change, human-readable. */
  readonly words: string
  readonly isTooMuch: boolean
}

/** Bytes. */
export function growthOf(sizeBytes: number, recordedBytes: number): Growth {
  const percent = (sizeBytes / recordedBytes - 1) * 100
  const change = `${percent < 0 ? '' : '+'}${percent.toFixed(1)} %`
  return {
    words: `${megabytes(sizeBytes)}, recorded ${megabytes(recordedBytes)} (${change})`,
    isTooMuch: sizeBytes > recordedBytes * TOLERATED,
  }
}

export function recordedBytes(): number {
  return Number(readFileSync(RECORD, 'utf8'))
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}

function record({ sizeBytes }: Image): void {
  writeFileSync(RECORD, `${sizeBytes}\n`)
}

if (import.meta.main) {
  if (process.argv[2] !== '--record') throw new Error('usage: image-size.ts --record')
  const image = await buildOperatorImage(await prepareTools(console.log))
  record(image)
  console.log(`recorded: ${megabytes(image.sizeBytes)}`)
}
