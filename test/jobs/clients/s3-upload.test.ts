/** The parts of an upload: how large they are, and how many are under way at once. */
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { Bucket } from '../../../jobs/clients/s3.ts'
import { PART_BYTES, partBytes } from '../../../jobs/clients/s3-upload.ts'
import { jobLog } from '../../../jobs/log.ts'
import { KEYS } from '../../contract/bucket/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { BucketStore } from '../../doubles/bucket/store.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { instantTime } from '../job-world.ts'

const PARTS = 8
const MIB = 1024 ** 2
const GIB = 1024 ** 3

async function store(t: Test, tls?: typeof ONE) {
  const s3 = await startBucketServer({ ...(tls && { tls }) })
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ ...KEYS, ...(tls && { ca: tls.cert }) }),
    time: instantTime(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  return { s3, bucket }
}

t.test('parts are of 8 MiB, or of size/10,000 when that is larger', async (t) => {
  for (const sizeBytes of [1, PART_BYTES, GIB, 78 * GIB]) {
    t.equal(partBytes(sizeBytes, 1), PART_BYTES, `${sizeBytes}`)
  }
  for (const sizeBytes of [79 * GIB, 1024 * GIB, 4999 * GIB]) {
    const bytes = partBytes(sizeBytes, 1)
    t.ok(bytes > PART_BYTES && bytes * 10_000 >= sizeBytes, `${sizeBytes}`)
    t.ok((bytes - 1024 * 1024) * 10_000 < sizeBytes, 'and no larger than need be')
  }
})

t.test(
  'of a size nobody knows, parts are of 5 MiB, and grow so that 10,000 hold a large shard',
  async (t) => {
    const sizes = Array.from({ length: 10_000 }, (_, index) => partBytes(undefined, index + 1))
    t.strictSame(
      [...new Set(sizes)].map((bytes) => bytes / MIB),
      [5, 10, 20, 40, 80],
    )
    t.ok(sizes.reduce((sum, bytes) => sum + bytes, 0) > 300 * GIB)
  },
)

for (const [bytes, operations] of [
  [0, ['PutObject']],
  [5 * MIB, ['PutObject']],
  [5 * MIB + 1, ['CreateMultipartUpload', 'UploadPart', 'UploadPart', 'CompleteMultipartUpload']],
] as const) {
  t.test(`${bytes} bytes of a stream without a length are stored as they came`, async (t) => {
    const { s3, bucket } = await store(t)
    async function* source() {
      for (let sent = 0; sent < bytes; sent += 65_536) {
        yield Buffer.alloc(Math.min(65_536, bytes - sent), sent)
      }
    }
    t.equal(await bucket.upload({ key: 'k', source: source() }), bytes)
    t.equal(s3.buckets.get('backups')?.objects.get('k')?.body.length, bytes)
    const made = s3.calls.map(({ operation }) => operation)
    t.strictSame(
      made.filter((operation) => operation !== 'HeadObject').sort(),
      [...operations].sort(),
    )
  })
}

for (const [inFlightBytes, atOnce] of [
  [0, 2],
  [PART_BYTES, 2],
  [4 * PART_BYTES, 4],
] as const) {
  t.test(
    `of ${inFlightBytes} bytes in flight, ${atOnce} parts are under way at once`,
    async (t) => {
      const { s3, bucket } = await store(t)
      const arrived = Promise.withResolvers<undefined>()
      const filled = Promise.withResolvers<undefined>()
      let isOpen = false
      const open = Promise.all([arrived.promise, filled.promise]).then(() => (isOpen = true))
      let parts = 0
      s3.misbehave(({ operation }) => {
        if (operation !== 'UploadPart') return undefined
        if (++parts === atOnce) arrived.resolve(undefined)
        return { after: open }
      })
      async function* source() {
        for (let part = 0; part < PARTS; part += 1) {
          // One more than are under way is filled; for the next there is no buffer yet.
          if (part === atOnce + 1) t.ok(isOpen, 'more is read only once a part is done')
          if (part === atOnce) setImmediate(() => filled.resolve(undefined))
          yield Buffer.alloc(PART_BYTES, part)
        }
      }
      const sizeBytes = PARTS * PART_BYTES
      t.equal(
        await bucket.upload({ key: 'k', source: source(), sizeBytes, inFlightBytes }),
        sizeBytes,
      )
      t.equal(parts, PARTS)
    },
  )
}

/** Two parts, of different bytes. */
async function* twoParts() {
  yield Buffer.alloc(PART_BYTES, 1)
  yield Buffer.alloc(MIB, 2)
}
const TWO_PARTS = { key: 'k', sizeBytes: PART_BYTES + MIB }

for (const [checksums, what] of [
  ['kept', 'that keeps checksums'],
  ['unanswered', 'that checks parts and does not answer their checksums'],
  ['unheeded', 'that does not heed checksums'],
  ['refused', 'that refuses to hear of checksums'],
] as const) {
  t.test(`a store ${what} is served`, async (t) => {
    const { s3, bucket } = await store(t)
    const kept = s3.buckets.get('backups') ?? new BucketStore()
    kept.checksums = checksums
    t.equal(await bucket.upload({ ...TWO_PARTS, source: twoParts() }), TWO_PARTS.sizeBytes)
    const body = kept.objects.get('k')?.body ?? Buffer.alloc(0)
    t.equal(crc32(body), crc32(Buffer.alloc(MIB, 2), crc32(Buffer.alloc(PART_BYTES, 1))))
    const begun = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
    t.equal(begun.length, checksums === 'refused' ? 2 : 1)
    t.equal(kept.uploads.size, 0)
  })
}

for (const [tls, checksums, isHashed, what] of [
  [undefined, 'kept', true, 'without TLS each part is hashed for its signature'],
  [ONE, 'kept', false, 'over TLS a part is not hashed beside its checksum'],
  [ONE, 'unheeded', true, 'over TLS a part is hashed for a store that knows no checksums'],
] as const) {
  t.test(what, async (t) => {
    const { s3, bucket } = await store(t, tls)
    const kept = s3.buckets.get('backups') ?? new BucketStore()
    kept.checksums = checksums
    await bucket.upload({ ...TWO_PARTS, source: twoParts() })
    const parts = s3.calls.filter(({ operation }) => operation === 'UploadPart')
    const payload = isHashed ? /^[0-9a-f]{64}$/ : /^UNSIGNED-PAYLOAD$/
    t.match(parts, [{ payload }, { payload }])
    t.equal(kept.objects.get('k')?.body.length, TWO_PARTS.sizeBytes)
  })
}

t.test('a part whose answer is lost is sent again with its checksum', async (t) => {
  const { s3, bucket } = await store(t)
  let isLost = false
  s3.misbehave(({ operation }) => {
    if (operation !== 'UploadPart' || isLost) return undefined
    isLost = true
    return { lost: true }
  })
  t.equal(await bucket.upload({ ...TWO_PARTS, source: twoParts() }), TWO_PARTS.sizeBytes)
  t.equal(s3.calls.filter(({ operation }) => operation === 'UploadPart').length, 3)
})

t.test('a part that changed on its way is sent again', async (t) => {
  const { s3, bucket } = await store(t)
  let refusals = 0
  s3.misbehave(({ operation }) => {
    if (operation !== 'UploadPart' || refusals > 0) return undefined
    refusals += 1
    return { status: 400, code: 'BadDigest' }
  })
  t.equal(await bucket.upload({ ...TWO_PARTS, source: twoParts() }), TWO_PARTS.sizeBytes)
  t.equal(s3.calls.filter(({ operation }) => operation === 'UploadPart').length, 3)
})

t.test('an upload that is refused for another reason is refused with it', async (t) => {
  const { s3, bucket } = await store(t)
  s3.misbehave(({ operation }) =>
    operation === 'CreateMultipartUpload' ? { status: 403, code: 'AccessDenied' } : undefined,
  )
  await t.rejects(bucket.upload({ ...TWO_PARTS, source: twoParts() }), {
    message: /CREATE UPLOAD .* answered 403 AccessDenied/,
  })
  t.equal(s3.calls.length, 1)
})
