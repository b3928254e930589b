/**
 * Small files of a tar in a bucket. Only headers are read of what is between them: a snapshot of many
 * gigabytes costs a few calls for each of its files.
 */
import { Rejected } from '../../crds/errors.ts'
import type { PlainCollection } from '../../crds/manifest.ts'
import type { Bucket } from '../clients/s3.ts'
import { BLOCK, headerIn, isEmpty, isMapContinued, paddedSize, type TarHeader } from '../tar.ts'

/** What is read at a time: most small files are then read together with their neighbours. */
const WINDOW_BYTES = 64 * 1024
/** A shard has some fifty files, and a node a thousand shards. */
const MAX_FILES = 200_000
/** A block of a map has 21 parts of a file: a write-ahead log of 1 GiB, cut at every page, needs fewer. */
const MAX_MAPS = 10_000
/** Of all files that are wanted together: each describes a shard or a collection in a few lines. */
const MAX_BYTES = 16 * 1024 * 1024
/** GNU tar writes a name of more than a hundred bytes as a file before the one that it names. */
const LONG_NAME = 'L'

export type Snapshot = PlainCollection['snapshots'][number]

/** What is read from. */
export type Source = Pick<Bucket, 'name' | 'bytes'>

/** The wanted files by name. Throws `Rejected` where the object is not a whole tar. */
export async function filesOf(
  bucket: Source,
  snapshot: Snapshot,
  isWanted: (name: string) => boolean,
  signal: AbortSignal,
): Promise<Map<string, Buffer>> {
  const bytes = new Window(bucket, snapshot, signal)
  const found = new Map<string, Buffer>()
  let [at, left, longName] = [0, MAX_BYTES, '']
  for (let count = 0; count < MAX_FILES; count += 1) {
    const block = await bytes.at(at, BLOCK)
    if (isEmpty(block)) return found
    const header = headerIn(block) ?? bytes.refuse(`has no tar header at byte ${at}`)
    at = await contentAt(bytes, at + BLOCK, header)
    const name = (longName === '' ? header.name : longName).replace(/^\.\//, '')
    longName = ''
    const isLongName = header.type === LONG_NAME
    if (isLongName || isWanted(name)) {
      left -= header.size
      if (left < 0) bytes.refuse(`has more than ${MAX_BYTES} bytes of metadata`)
      const content = await bytes.at(at, header.size)
      if (isLongName) longName = content.toString().replaceAll('\0', '')
      else found.set(name, Buffer.from(content))
    }
    at += paddedSize(header.size)
  }
  return bytes.refuse(`has more than ${MAX_FILES} files`)
}

/** Behind the map of a sparse file. */
async function contentAt(bytes: Window, start: number, { hasMoreMap }: TarHeader): Promise<number> {
  let at = start
  for (let isMap = hasMoreMap; isMap; at += BLOCK) {
    if (at > start + MAX_MAPS * BLOCK)
      bytes.refuse(`has a sparse file without end at byte ${start}`)
    isMap = isMapContinued(await bytes.at(at, BLOCK))
  }
  return at
}

/** The part of an object that was read last. */
class Window {
  readonly #bucket: Source
  readonly #snapshot: Snapshot
  readonly #signal: AbortSignal
  #start = 0
  #bytes: Buffer = Buffer.alloc(0)

  constructor(bucket: Source, snapshot: Snapshot, signal: AbortSignal) {
    this.#bucket = bucket
    this.#snapshot = snapshot
    this.#signal = signal
  }

  async at(from: number, length: number): Promise<Buffer> {
    const { key, sizeBytes } = this.#snapshot
    if (from + length > sizeBytes)
      this.refuse(`ends at byte ${sizeBytes}, before the end of its tar`)
    if (from < this.#start || from + length > this.#start + this.#bytes.length) {
      const wanted = Math.min(Math.max(length, WINDOW_BYTES), sizeBytes - from)
      this.#bytes = await this.#bucket.bytes(key, { from, length: wanted }, this.#signal)
      this.#start = from
      if (this.#bytes.length < length)
        this.refuse(`has less than the ${sizeBytes} bytes of the manifest`)
    }
    return this.#bytes.subarray(from - this.#start, from - this.#start + length)
  }

  refuse(problem: string): never {
    throw new Rejected(`s3://${this.#bucket.name}/${this.#snapshot.key} ${problem}`)
  }
}
