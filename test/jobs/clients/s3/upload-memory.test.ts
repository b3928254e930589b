/** Shares of a Job's memory for uploads: every upload fits, or is rejected with the numbers. */
import t from 'tap'
import {
  JOB_BASE_BYTES,
  MAX_OBJECT_BYTES,
  MAX_PARTS,
  DEFAULT_PART_BYTES,
  uploadJobBytes,
  uploadPartBytes,
} from '../../../../crds/contract/limits.ts'
import { UploadMemory } from '../../../../jobs/clients/s3/parts.ts'

const MIB = 2 ** 20
const GIB = 2 ** 30
const TB = 1e12
/** Limit of a data Job, as the chart sets it. */
const USUAL = 512 * MIB

t.test('parts are of 8 MiB, or of size/10,000 when that is larger', async (t) => {
  for (const sizeBytes of [1, DEFAULT_PART_BYTES, GIB, 78 * GIB]) {
    t.equal(uploadPartBytes(sizeBytes), DEFAULT_PART_BYTES, `${sizeBytes}`)
  }
  for (const sizeBytes of [79 * GIB, 1024 * GIB, 5 * TB, MAX_OBJECT_BYTES]) {
    const bytes = uploadPartBytes(sizeBytes)
    t.ok(bytes > DEFAULT_PART_BYTES && bytes * MAX_PARTS >= sizeBytes, `${sizeBytes}`)
    t.ok((bytes - MIB) * MAX_PARTS < sizeBytes, 'and no larger than necessary')
  }
})

t.test('parts of all streams stay within the memory for any upload', async (t) => {
  const limits = [USUAL, 1024 * MIB, uploadJobBytes(5 * TB)]
  const shards = [GIB, 30 * GIB, 100 * GIB, 300 * GIB, TB, 5 * TB, undefined]
  for (const limit of limits) {
    const memory = new UploadMemory(limit)
    t.equal(memory.bytes, limit - JOB_BASE_BYTES)
    for (const desired of [1, 2, 8]) {
      for (const expectedBytes of shards) {
        const streams = memory.concurrentUploads([expectedBytes, GIB], desired)
        t.ok(streams >= 1 && streams <= desired)
        const used = usedOf(memory, { expectedBytes, streams })
        if (used === undefined) continue
        t.ok(streams * used <= memory.bytes, `${limit} ${desired} ${expectedBytes}`)
      }
    }
  }
})

function usedOf(memory: UploadMemory, sizes: object): number | undefined {
  try {
    const { partBytes, buffers } = memory.planParts('s3://b/k', sizes)
    return partBytes * buffers
  } catch {
    return undefined
  }
}

for (const [what, limit, sizes, parts] of [
  ['a node of 1 GiB', USUAL, { sizeBytes: GIB }, { partBytes: DEFAULT_PART_BYTES, buffers: 5 }],
  ['a node of 1.5 TB', USUAL, { sizeBytes: 1.5 * TB }, { partBytes: 144 * MIB, buffers: 2 }],
  [
    'a node of 5 TB',
    uploadJobBytes(5 * TB),
    { sizeBytes: 5 * TB },
    { partBytes: 477 * MIB, buffers: 2 },
  ],
  [
    'one of eight small shards',
    USUAL,
    { expectedBytes: GIB, streams: 8 },
    { partBytes: DEFAULT_PART_BYTES, buffers: 4 },
  ],
  [
    'a shard of 5 TB, as large as the volume',
    uploadJobBytes(5 * TB),
    { expectedBytes: 4 * TB },
    { partBytes: 477 * MIB, buffers: 2 },
  ],
  ['a shard of unknown size', USUAL, { streams: 2 }, { partBytes: 78 * MIB, buffers: 2 }],
] as const) {
  t.test(`${what}: ${parts.buffers} parts of ${parts.partBytes / MIB} MiB`, async (t) => {
    t.strictSame(new UploadMemory(limit).planParts('s3://b/k', sizes), parts)
  })
}

t.test('parts allow for a shard that is larger than estimated', async (t) => {
  const { partBytes } = new UploadMemory(USUAL).planParts('s3://b/k', { expectedBytes: 100 * GIB })
  t.ok(partBytes * MAX_PARTS >= 200 * GIB)
})

t.test('eight streams of small shards, and fewer of large ones', async (t) => {
  const memory = new UploadMemory(USUAL)
  t.equal(memory.concurrentUploads([GIB, 20 * GIB], 8), 8)
  t.equal(memory.concurrentUploads([undefined], 8), 8)
  t.equal(memory.concurrentUploads([GIB, 200 * GIB], 8), 3)
  t.equal(memory.concurrentUploads([GIB, TB], 8), 1)
})

t.test('an object that no store accepts is rejected with the numbers', async (t) => {
  const memory = new UploadMemory(64 * GIB)
  for (const sizes of [{ sizeBytes: 5.6e12 }, { expectedBytes: 5.6e12 }]) {
    t.throws(() => memory.planParts('s3://b/k', sizes), {
      code: 'Rejected',
      message:
        's3://b/k would have 5.1 TiB, and stores take 5 TiB as one object: spread the collection over more shards, and back it up with method Shard',
    })
  }
})

t.test('an upload that does not fit in memory is rejected with the required memory', async (t) => {
  t.throws(() => new UploadMemory(USUAL).planParts('s3://b/k', { sizeBytes: 5 * TB }), {
    code: 'Rejected',
    message:
      's3://b/k may have 4.5 TiB and needs parts of 477 MiB (10000 at most), 2 of which must be in memory, but there are 312 MiB for them: raise the chart value jobs.resources.data.limits.memory to 1.1 GiB or more',
  })
})
