/**
 * Uploads in parts: how large parts must be for an object of a size, and how much memory that takes. A Job
 * obeys it, and the hook gives the Job its memory by it.
 */

const MIB = 2 ** 20

/** Size of parts for as long as an object of 10,000 of them is large enough. */
export const PART_BYTES = 8 * MIB
export const MAX_PARTS = 10_000
/** What stores take as one object. */
export const MAX_OBJECT_BYTES = 5 * 2 ** 40
/** While one part is sent, the next is filled. */
export const LEAST_BUFFERS = 2
/** What a Job needs besides the parts it holds: measured at 110 to 140 MiB, and some for what is still to be freed. */
export const JOB_BASE_BYTES = 200 * MIB

/** Every part of an upload but the last has this size: some stores take no others. */
export function partBytesFor(sizeBytes: number): number {
  return Math.max(PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/** Memory of a Job that uploads objects of up to this size, one at a time. */
export function jobBytesFor(sizeBytes: number): number {
  return JOB_BASE_BYTES + LEAST_BUFFERS * partBytesFor(Math.min(sizeBytes, MAX_OBJECT_BYTES))
}
