/**
 * The memory that all uploads of a process share. Whatever is uploaded, parts times buffers times streams
 * stay under it; what does not fit, or what no store takes, is refused before its first byte.
 */
import { totalmem } from 'node:os'
import { Rejected } from '../../crds/errors.ts'
import {
  JOB_BASE_BYTES,
  LEAST_BUFFERS,
  MAX_OBJECT_BYTES,
  MAX_PARTS,
  PART_BYTES,
  jobBytesFor,
  partBytesFor,
} from '../../crds/parts.ts'
import { humanSize } from '../../crds/size.ts'

/** How one object is uploaded. */
export interface Parts {
  partBytes: number
  /** Parts held at once: all but one are being sent, and one is being filled. */
  buffers: number
}

/** What is known of an object before its first byte. */
export interface Sizes {
  /** Exact. */
  sizeBytes?: number | undefined
  /** Estimated. Without either, parts are as large as the memory allows. */
  expectedBytes?: number | undefined
  /** Uploads that share the memory; default: this one alone. */
  streams?: number | undefined
}

const MIB = 2 ** 20
/** More parts under way make no store faster. */
const MOST_BUFFERS = 5
/** An object may turn out so many times as large as it was estimated; less is left where memory is short. */
const HEADROOM = 2
/** Of an object of which nothing is known: enough for 1.2 TiB. */
const MOST_UNKNOWN_PART_BYTES = 128 * MIB
const LEAST_BYTES = LEAST_BUFFERS * PART_BYTES

export class UploadMemory {
  readonly bytes: number

  /** `limitBytes`: memory of the process. */
  constructor(limitBytes: number = memoryLimit()) {
    this.bytes = Math.max(LEAST_BYTES, limitBytes - JOB_BASE_BYTES)
  }

  /** How many objects of these estimated sizes are uploaded at once: fewer where parts must be large. */
  streamsFor(expected: readonly (number | undefined)[], most: number): number {
    const parts = expected.map((bytes) =>
      bytes === undefined ? PART_BYTES : wantedPartBytes(bytes),
    )
    const largest = Math.max(PART_BYTES, ...parts)
    return Math.max(1, Math.min(most, Math.floor(this.bytes / (LEAST_BUFFERS * largest))))
  }

  /** Throws `Rejected`, naming the object, where it can be uploaded in no way. */
  partsFor(address: string, { sizeBytes, expectedBytes, streams = 1 }: Sizes): Parts {
    const share = Math.floor(this.bytes / streams)
    const largest = Math.max(PART_BYTES, Math.floor(share / LEAST_BUFFERS / MIB) * MIB)
    const least = sizeBytes ?? expectedBytes ?? 0
    refuseTooLarge(address, least)
    if (partBytesFor(least) > largest) throw noMemory(address, least, share)
    const wanted =
      sizeBytes === undefined
        ? expectedBytes === undefined
          ? MOST_UNKNOWN_PART_BYTES
          : wantedPartBytes(expectedBytes)
        : partBytesFor(sizeBytes)
    const partBytes = Math.min(wanted, largest)
    const buffers = Math.floor(share / partBytes)
    return { partBytes, buffers: Math.max(LEAST_BUFFERS, Math.min(MOST_BUFFERS, buffers)) }
  }
}

function wantedPartBytes(expectedBytes: number): number {
  return partBytesFor(Math.min(expectedBytes * HEADROOM, MAX_OBJECT_BYTES))
}

function refuseTooLarge(address: string, bytes: number): void {
  if (bytes <= MAX_OBJECT_BYTES) return
  throw new Rejected(
    `${address} would have ${humanSize(bytes)}, and stores take ${humanSize(MAX_OBJECT_BYTES)} as one object: spread the collection over more shards, and back it up with method Shard`,
  )
}

function noMemory(address: string, bytes: number, share: number): Rejected {
  const part = humanSize(partBytesFor(bytes))
  return new Rejected(
    `${address} may have ${humanSize(bytes)} and needs parts of ${part} (${MAX_PARTS} at most), ${LEAST_BUFFERS} of which must be in memory, but there are ${humanSize(share)} for them: raise the chart value jobs.resources.data.limits.memory to ${humanSize(jobBytesFor(bytes))} or more`,
  )
}

/** Of the container; outside of one, half of the machine's. */
function memoryLimit(): number {
  const constrained = process.constrainedMemory()
  const total = totalmem()
  return constrained > 0 && constrained < total ? constrained : total / 2
}
