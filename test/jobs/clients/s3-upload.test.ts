/** The parts of an upload: how large they are, and how many are under way at once. */
import t from 'tap'
import { Bucket } from '../../../jobs/clients/s3.ts'
import { PART_BYTES, partBytes } from '../../../jobs/clients/s3-upload.ts'
import { jobLog } from '../../../jobs/log.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { instantTime } from '../job-world.ts'

const PARTS = 8
const GIB = 1024 ** 3

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

for (const [inFlightBytes, atOnce] of [
  [0, 2],
  [PART_BYTES, 2],
  [4 * PART_BYTES, 4],
] as const) {
  t.test(
    `of ${inFlightBytes} bytes in flight, ${atOnce} parts are under way at once`,
    async (t) => {
      const s3 = await startBucketServer()
      const bucket = new Bucket({
        target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
        credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
        time: instantTime(),
        log: jobLog({ LOG_LEVEL: 'ERROR' }),
      })
      t.teardown(async () => {
        bucket.close()
        await s3.close()
      })
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
