/**
 * Plans the parts of an upload within the memory of the process, fills them from a stream and sends
 * a few at a time. The same few buffers are reused, so that memory does not depend on the size of
 * the object.
 */
import { totalmem } from 'node:os'
import { Rejected, StorageError } from '../../../crds/contract/errors.ts'
import {
  DEFAULT_PART_BYTES,
  JOB_BASE_BYTES,
  MAX_OBJECT_BYTES,
  MAX_PARTS,
  MIN_PART_BUFFERS,
  uploadJobBytes,
  uploadPartBytes,
} from '../../../crds/contract/limits.ts'
import { formatBytes } from '../../../crds/units.ts'

/** Reason of the error if the parts of an upload were too small for its data. */
export const PARTS_EXHAUSTED = 'PartsUsedUp'

type SendPart = (body: Buffer, number: number, signal: AbortSignal) => Promise<void>

export class PartQueue {
  readonly #plan: PartPlan
  readonly #send: SendPart
  readonly #abort = new AbortController()
  readonly #running = new Set<Promise<void>>()
  readonly #freeBuffers: Buffer[] = []
  #current: Buffer | undefined
  #filled = 0
  #number = 0
  #sentBytes = 0
  #failure: { error: unknown } | undefined

  constructor(plan: PartPlan, send: SendPart) {
    this.#plan = plan
    this.#send = send
  }

  async add(chunk: Uint8Array): Promise<void> {
    let rest = chunk
    while (rest.length > 0) {
      this.#throwFailure()
      // A full part is sent only once more data arrives: the last part may be the only one.
      if (this.#filled === this.#plan.partBytes) await this.#dispatch()
      const part = (this.#current ??= this.#takeBuffer())
      const slice = rest.subarray(0, part.length - this.#filled)
      part.set(slice, this.#filled)
      this.#filled += slice.length
      rest = rest.subarray(slice.length)
    }
  }

  /** The whole data, if it fits one part and none was sent. */
  singlePart(): Buffer | undefined {
    if (this.#number > 0) return undefined
    return this.#current?.subarray(0, this.#filled) ?? Buffer.alloc(0)
  }

  /** Sends the rest; returns the total number of bytes. */
  async finish(): Promise<number> {
    if (this.#filled > 0) await this.#dispatch()
    await Promise.all(this.#running)
    this.#throwFailure()
    return this.#sentBytes
  }

  /** No part is being sent once this resolves. */
  async abort(): Promise<void> {
    this.#abort.abort(new Error('the upload is abandoned'))
    await Promise.all(this.#running)
  }

  async #dispatch(): Promise<void> {
    while (this.#running.size >= this.#plan.buffers - 1) await Promise.race(this.#running)
    this.#throwFailure()
    const part = this.#current
    if (part === undefined) return
    this.#number += 1
    if (this.#number > MAX_PARTS) throw partsExhausted(this.#plan.partBytes)
    this.#sentBytes += this.#filled
    const sending: Promise<void> = this.#send(
      part.subarray(0, this.#filled),
      this.#number,
      this.#abort.signal,
    )
      .then(() => void this.#freeBuffers.push(part))
      .catch((error: unknown) => (this.#failure ??= { error }))
      .then(() => void this.#running.delete(sending))
    this.#running.add(sending)
    this.#current = undefined
    this.#filled = 0
  }

  #takeBuffer(): Buffer {
    return this.#freeBuffers.pop() ?? Buffer.allocUnsafeSlow(this.#plan.partBytes)
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

export function partsExhausted(partBytes: number): StorageError {
  return new StorageError(
    `the object is larger than ${formatBytes(partBytes * MAX_PARTS)}, which is all that ${MAX_PARTS} parts of ${formatBytes(partBytes)} hold: it was estimated to be smaller`,
    { reason: PARTS_EXHAUSTED },
  )
}

/** How one object is uploaded. */
export interface PartPlan {
  partBytes: number
  /** Parts held at once: one is being filled, the others are being sent. */
  buffers: number
}

/** What is known about an object before its first byte. */
export interface UploadSizes {
  /** Exact. */
  sizeBytes?: number | undefined
  /** Estimated. Without either, parts are as large as the memory allows. */
  expectedBytes?: number | undefined
  /** Uploads that share the memory; default: this one alone. */
  streams?: number | undefined
}

const MIB = 2 ** 20
/** More concurrent parts do not make any store faster. */
const MAX_BUFFERS = 5
/**
 * How many times larger than estimated an object may turn out; less is reserved if memory is short.
 */
const HEADROOM = 2
/** Part size for an object of unknown size: enough for 1.2 TiB. */
const UNKNOWN_SIZE_PART_BYTES = 128 * MIB
const MIN_BYTES = MIN_PART_BUFFERS * DEFAULT_PART_BYTES

export class UploadMemory {
  readonly bytes: number

  /** `limitBytes`: memory of the process. */
  constructor(limitBytes: number = processMemoryBytes()) {
    this.bytes = Math.max(MIN_BYTES, limitBytes - JOB_BASE_BYTES)
  }

  /**
   * How many objects of these estimated sizes can be uploaded at once: fewer if parts must be
   * large.
   */
  concurrentUploads(expected: readonly (number | undefined)[], maxStreams: number): number {
    const parts = expected.map((bytes) =>
      bytes === undefined ? DEFAULT_PART_BYTES : preferredPartBytes(bytes),
    )
    const largest = Math.max(DEFAULT_PART_BYTES, ...parts)
    return Math.max(1, Math.min(maxStreams, Math.floor(this.bytes / (MIN_PART_BUFFERS * largest))))
  }

  /** Throws `Rejected`, naming the object, if it cannot be uploaded at all. */
  planParts(address: string, { sizeBytes, expectedBytes, streams = 1 }: UploadSizes): PartPlan {
    const share = Math.floor(this.bytes / streams)
    const largest = Math.max(DEFAULT_PART_BYTES, Math.floor(share / MIN_PART_BUFFERS / MIB) * MIB)
    const minBytes = sizeBytes ?? expectedBytes ?? 0
    rejectTooLarge(address, minBytes)
    if (uploadPartBytes(minBytes) > largest) throw insufficientMemory(address, minBytes, share)
    const preferred =
      sizeBytes === undefined
        ? expectedBytes === undefined
          ? UNKNOWN_SIZE_PART_BYTES
          : preferredPartBytes(expectedBytes)
        : uploadPartBytes(sizeBytes)
    const partBytes = Math.min(preferred, largest)
    const buffers = Math.floor(share / partBytes)
    return { partBytes, buffers: Math.max(MIN_PART_BUFFERS, Math.min(MAX_BUFFERS, buffers)) }
  }
}

function preferredPartBytes(expectedBytes: number): number {
  return uploadPartBytes(Math.min(expectedBytes * HEADROOM, MAX_OBJECT_BYTES))
}

function rejectTooLarge(address: string, bytes: number): void {
  if (bytes <= MAX_OBJECT_BYTES) return
  throw new Rejected(
    `${address} would have ${formatBytes(bytes)}, and stores take ${formatBytes(MAX_OBJECT_BYTES)} as one object: spread the collection over more shards, and back it up with method Shard`,
  )
}

function insufficientMemory(address: string, bytes: number, share: number): Rejected {
  const partSize = formatBytes(uploadPartBytes(bytes))
  return new Rejected(
    `${address} may have ${formatBytes(bytes)} and needs parts of ${partSize} (${MAX_PARTS} at most), ${MIN_PART_BUFFERS} of which must be in memory, but there are ${formatBytes(share)} for them: raise the chart value jobs.resources.data.limits.memory to ${formatBytes(uploadJobBytes(bytes))} or more`,
  )
}

/** Memory of the container; outside of one, half of the machine's. */
function processMemoryBytes(): number {
  const constrained = process.constrainedMemory()
  const total = totalmem()
  return constrained > 0 && constrained < total ? constrained : total / 2
}
