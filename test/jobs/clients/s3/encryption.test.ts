/** Server-side encryption and storage class: what each write asks for, and a store that ignores it. */
import t, { type Test } from 'tap'
import { DEFAULT_PART_BYTES } from '../../../../crds/contract/limits.ts'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import type { BucketTarget } from '../../../../jobs/clients/s3/connection.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { KEYS } from '../../../contract/bucket/real.ts'
import { startBucketServer } from '../../../doubles/bucket/server.ts'
import { BucketStore } from '../../../doubles/bucket/store.ts'
import { instantClock } from '../../job-world.ts'

const KMS = { type: 'aws:kms', kmsKeyId: 'arn:aws:kms:eu-1:1:key/a' } as const

async function stage(t: Test, fields: Partial<BucketTarget>) {
  const s3 = await startBucketServer()
  const address = { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true }
  const bucket = new Bucket({
    target: { ...address, ...fields },
    credentials: async () => KEYS,
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  return { s3, bucket, store: s3.buckets.get('backups') ?? new BucketStore() }
}

async function* bytesOf(count: number): AsyncGenerator<Buffer> {
  yield Buffer.alloc(count, 'x')
}

const SMALL = { key: 'small', expectedBytes: 1 }
const PARTS = { key: 'parts', expectedBytes: 1 }
const LARGE = { key: 'large', expectedBytes: 1024 ** 3 }

async function writeAll(bucket: Bucket): Promise<void> {
  await bucket.putJson('manifest.json', { a: 1 })
  await bucket.upload({ ...SMALL, source: bytesOf(10) })
  await bucket.upload({ ...PARTS, source: bytesOf(DEFAULT_PART_BYTES + 1) })
  await bucket.upload({ ...LARGE, source: bytesOf(DEFAULT_PART_BYTES + 1) })
}

t.test(
  'every write asks for the encryption; the storage class is that of snapshots only',
  async (t) => {
    const { bucket, store } = await stage(t, { encryption: KMS, storageClass: 'STANDARD_IA' })
    await writeAll(bucket)
    const encrypted = { encryption: KMS.type, kmsKeyId: KMS.kmsKeyId }
    const snapshot = { ...encrypted, storageClass: 'STANDARD_IA' }
    t.strictSame(store.created, [
      { key: 'manifest.json', ...encrypted },
      ...['small', 'parts', 'large'].map((key) => ({ key, ...snapshot })),
    ])
  },
)

t.test('AES256 has no key, and without encryption nothing is asked for', async (t) => {
  const aes = await stage(t, { encryption: { type: 'AES256' } })
  await writeAll(aes.bucket)
  t.ok(aes.store.created.every(({ encryption, kmsKeyId }) => encryption === 'AES256' && !kmsKeyId))
  const plain = await stage(t, {})
  await writeAll(plain.bucket)
  t.strictSame(
    plain.store.created,
    ['manifest.json', 'small', 'parts', 'large'].map((key) => ({ key })),
  )
})

t.test(
  'a store that does not confirm the encryption is an error, and no upload stays open',
  async (t) => {
    const { bucket, store } = await stage(t, { encryption: KMS })
    store.ignoresEncryption = true
    const message =
      /the store does not confirm the encryption aws:kms: remove spec\.storage\.s3\.enc/
    await t.rejects(bucket.putJson('manifest.json', {}), { message })
    await t.rejects(bucket.upload({ ...SMALL, source: bytesOf(10) }), { message })
    await t.rejects(bucket.upload({ ...PARTS, source: bytesOf(DEFAULT_PART_BYTES + 1) }), {
      message,
    })
    await t.rejects(bucket.upload({ ...LARGE, source: bytesOf(DEFAULT_PART_BYTES + 1) }), {
      message,
    })
    t.equal(store.uploads.size, 0)
  },
)
