/**
 * What we rely on in a store: run against our double, and against a real S3 server where S3_BIN names a
 * versitygw. What the two answer differently is a bug of the double.
 */
import { createHash } from 'node:crypto'
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  PutObjectLockConfigurationCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { purge } from '../../../jobs/backup/purge.ts'
import { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../jobs/log.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { runCommand } from '../../jobs/kubectl/cli-user.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { openGate } from '../../world/buckets/gate.ts'
import { KEYS, realStore } from './real.ts'

interface Subject {
  endpoint: string
  keys: { accessKeyId: string; secretAccessKey: string; ca?: string }
}

const MIB = 1024 * 1024
/** CRC32 of the three letters. */
const ABC = 'NSRBwg=='
const ABC_MD5 = 'kAFQmDzST7DWlj99KOF/cg=='

async function double(t: Test): Promise<Subject> {
  const server = await startBucketServer({ buckets: ['backups'], keys: { id: 'secretsecret' } })
  t.teardown(() => server.close())
  return { endpoint: server.url, keys: KEYS }
}

async function real(t: Test, bin: string): Promise<Subject> {
  const store = await realStore(bin, t.testdir({}))
  t.teardown(() => store.close())
  return store
}

function bucketOf(
  t: Test,
  { endpoint, keys }: Subject,
  changes: Partial<typeof KEYS> = {},
  name = 'backups',
) {
  const bucket = new Bucket({
    target: { bucket: name, region: 'us-east-1', endpoint, forcePathStyle: true },
    credentials: async () => ({ ...keys, ...changes }),
    time: systemClock,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    attempts: 1,
  })
  t.teardown(() => bucket.close())
  return bucket
}

/** For what our own client never does. */
function clientOf(t: Test, { endpoint, keys }: Subject): S3Client {
  const client = new S3Client({
    ...{ endpoint, region: 'us-east-1', forcePathStyle: true, credentials: keys },
    requestChecksumCalculation: 'WHEN_REQUIRED',
  })
  t.teardown(() => client.destroy())
  return client
}

async function* bytes(count: number): AsyncGenerator<Buffer> {
  for (let left = count; left > 0; left -= 64 * 1024) {
    yield Buffer.alloc(Math.min(left, 64 * 1024), left % 251)
  }
}

async function keysOf(bucket: Bucket, prefix: string): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of bucket.listAll(prefix)) keys.push(key)
  return keys
}

const OWNER = {
  uid: 'u',
  namespace: 'n',
  name: 'b',
  cluster: { namespace: 'n', name: 'c' },
  startedAt: '2030-01-01T00:00:00Z',
  collections: [],
}

/** Four objects. */
async function putBackup(bucket: Bucket, folder: string) {
  await bucket.putJson(`${folder}owner.json`, OWNER)
  await bucket.putJson(`${folder}manifest.json`, { uid: OWNER.uid })
  for (const file of ['collection.json', 'node-0/my docs%25 ü+&=.snapshot']) {
    await bucket.putJson(`${folder}c/${file}`, {})
  }
}

function backupCommand({ endpoint, keys }: Subject, verb: string, ...args: string[]) {
  return runCommand(['backup', verb, ...args, '--endpoint', endpoint, '--path-style'], {
    CLOUD_ACCESS_KEY_ID: keys.accessKeyId,
    CLOUD_SECRET_ACCESS_KEY: keys.secretAccessKey,
  })
}

async function examine(t: Test, subject: Subject) {
  const bucket = bucketOf(t, subject)
  await t.test(
    'JSON goes in and comes out, and is written only once where that is asked',
    async (t) => {
      t.equal(await bucket.getJson('j/one.json'), undefined)
      t.equal(await bucket.putJson('j/one.json', { n: 1 }, { onlyNew: true }), true)
      t.equal(await bucket.putJson('j/one.json', { n: 2 }, { onlyNew: true }), false)
      t.strictSame(await bucket.getJson('j/one.json'), { n: 1 })
      t.equal(await bucket.size('j/one.json'), 7)
      t.equal(await bucket.size('j/two.json'), undefined)
    },
  )
  await t.test('a stream of any size is one object, with odd names too', async (t) => {
    for (const sizeBytes of [0, 10, 8 * MIB, 8 * MIB + 1, 21 * MIB]) {
      const key = `u/my docs%25 ü+&=/${sizeBytes}`
      await bucket.upload({ key, sizeBytes, source: bytes(sizeBytes) })
      t.equal(await bucket.size(key), sizeBytes)
    }
    t.equal((await keysOf(bucket, 'u/')).length, 5)
    t.strictSame(await bucket.openUploads('u/'), [])
  })
  await t.test('a stream that fails leaves neither object nor upload', async (t) => {
    async function* failing() {
      yield* bytes(17 * MIB)
      throw new Error('broke off')
    }
    const upload = { key: 'f/x', sizeBytes: 30 * MIB, source: failing() }
    await t.rejects(bucket.upload(upload), { message: 'broke off' })
    t.equal(await bucket.size('f/x'), undefined)
    t.strictSame(await bucket.openUploads('f/'), [])
  })
  await t.test('listings come in pages, and a prefix with a slash is a folder', async (t) => {
    for (const key of ['l/a/1', 'l/a/2', 'l/a/3', 'l/a-b/1']) await bucket.putJson(key, {})
    const page = await bucket.list('l/a/', { max: 2 })
    t.strictSame(
      page.objects.map(({ key }) => key),
      ['l/a/1', 'l/a/2'],
    )
    const rest = await bucket.list('l/a/', { max: 2, token: page.next })
    t.strictSame(
      rest.objects.map(({ key }) => key),
      ['l/a/3'],
    )
    t.equal(rest.next, undefined)
    await bucket.delete(['l/a/1', 'l/a/2', 'l/a/3', 'l/a/none'])
    t.strictSame(await keysOf(bucket, 'l/'), ['l/a-b/1'])
  })
  await t.test('a purge empties its own folder', async (t) => {
    await bucket.putJson('p/b/owner.json', OWNER)
    for (const key of ['p/b/c/node-0/x', 'p/b/manifest.json', 'p/b-c/x'])
      await bucket.putJson(key, {})
    const now = new Date()
    t.match(await purge(bucket, { prefix: 'p', name: 'b', uid: 'u' }, { now }), { done: true })
    t.strictSame(await keysOf(bucket, 'p/'), ['p/b-c/x'])
  })
  await t.test('the command line finds a backup, and deletes its objects only', async (t) => {
    await putBackup(bucket, 'cli/b/')
    const others = ['cli/b/README', 'cli/b-c/x', 'cli/b/in ü%25+&=/node-0/inner/x']
    for (const key of others) await bucket.putJson(key, {})
    const found = await backupCommand(subject, 'find', 's3://backups/cli', '-o', 'name')
    // Its manifest names only its owner.
    t.match(found, { code: 1, out: 's3://backups/cli/b\n', err: /^3 objects belong to no backup/ })
    const flags = ['--bucket-only', '--yes']
    const deleted = await backupCommand(subject, 'delete', 's3://backups/cli/b', ...flags)
    t.match(deleted, {
      code: 1,
      err: /: 4 objects deleted; 2 objects that the backup did not write/,
    })
    t.strictSame(await keysOf(bucket, 'cli/'), others.toSorted())
  })
  await t.test('a part whose checksum is not that of its bytes is refused', async (t) => {
    const client = clientOf(t, subject)
    const target = { Bucket: 'backups', Key: 'c/x' }
    const begun = await client.send(
      new CreateMultipartUploadCommand({ ...target, ChecksumAlgorithm: 'CRC32' }),
    )
    t.equal(begun.ChecksumAlgorithm, 'CRC32', 'the store says that it holds parts to them')
    const upload = { ...target, UploadId: begun.UploadId }
    const put = (Body: string, ChecksumCRC32: string) =>
      client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body, ChecksumCRC32 }))
    await t.rejects(put('abd', ABC), { name: 'BadDigest', $metadata: { httpStatusCode: 400 } })
    const { ETag, ChecksumCRC32 } = await put('abc', ABC)
    t.equal(ChecksumCRC32, ABC)
    const complete = (checksum: { ChecksumCRC32?: string }) => {
      const MultipartUpload = { Parts: [{ ETag, PartNumber: 1, ...checksum }] }
      return client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }))
    }
    await t.rejects(complete({}), { name: 'InvalidRequest' })
    await t.rejects(complete({ ChecksumCRC32: 'AAAAAA==' }), { name: 'InvalidPart' })
    await complete({ ChecksumCRC32: ABC })
    t.equal(await bucket.size('c/x'), 3)
  })
  await t.test('a body that is not that of its Content-MD5 is refused', async (t) => {
    const client = clientOf(t, subject)
    const put = (Body: string, ContentMD5: string) =>
      client.send(new PutObjectCommand({ Bucket: 'backups', Key: 'm/x', Body, ContentMD5 }))
    await t.rejects(put('abd', ABC_MD5), { name: 'BadDigest', $metadata: { httpStatusCode: 400 } })
    await put('abc', ABC_MD5)
    t.equal(await bucket.size('m/x'), 3)
    const target = { Bucket: 'backups', Key: 'm/y' }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(target))
    const part = (Body: string) =>
      client.send(
        new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body, ContentMD5: ABC_MD5 }),
      )
    await t.rejects(part('abd'), { name: 'BadDigest', $metadata: { httpStatusCode: 400 } })
    await part('abc')
  })
  await t.test('parts have numbers from 1 to 10,000', async (t) => {
    const client = clientOf(t, subject)
    const target = { Bucket: 'backups', Key: 'n/x' }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(target))
    const put = (PartNumber: number) =>
      client.send(new UploadPartCommand({ ...target, UploadId, PartNumber, Body: 'abc' }))
    for (const number of [0, 10_001]) {
      await t.rejects(put(number), { name: 'InvalidArgument', $metadata: { httpStatusCode: 400 } })
    }
    const { ETag } = await put(10_000)
    const MultipartUpload = { Parts: [{ ETag, PartNumber: 10_000 }] }
    await client.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload }))
    t.equal(await bucket.size('n/x'), 3)
  })
  await t.test('large parts arrive as they were sent, in pieces', async (t) => {
    const sizeBytes = 33 * MIB
    // Parts of 16 MiB, as for an object that is larger by far.
    const expectedBytes = 80_000 * MIB
    await bucket.upload({ key: 'big', expectedBytes, source: bytes(sizeBytes) })
    const stored = createHash('sha256')
    for await (const chunk of await bucket.read('big')) stored.update(chunk as Buffer)
    const sent = createHash('sha256')
    for await (const chunk of bytes(sizeBytes)) sent.update(chunk)
    t.equal(stored.digest('hex'), sent.digest('hex'))
  })
  await t.test('a bucket is made once', async (t) => {
    const client = clientOf(t, subject)
    const make = () => client.send(new CreateBucketCommand({ Bucket: 'made' }))
    await make()
    await t.rejects(make(), { name: 'BucketAlreadyOwnedByYou', $metadata: { httpStatusCode: 409 } })
    t.strictSame(await keysOf(bucketOf(t, subject, {}, 'made'), ''), [])
  })
  const rejections: [string, Bucket, RegExp][] = [
    // versitygw answers 404 and XAdminUserNotFound: it must not be mistaken for a missing object.
    [
      'an unknown key',
      bucketOf(t, subject, { accessKeyId: 'x' }),
      /InvalidAccessKeyId|XAdminUserNotFound/,
    ],
    ['a wrong secret', bucketOf(t, subject, { secretAccessKey: 'x' }), /403 SignatureDoesNotMatch/],
    ['a missing bucket', bucketOf(t, subject, {}, 'nowhere'), /404 NoSuchBucket/],
  ]
  for (const [what, wrong, message] of rejections) {
    await t.test(`${what} is refused with its own word`, async (t) => {
      await t.rejects(wrong.getJson('x'), { code: 'StorageError', message })
      await t.rejects(wrong.putJson('x', {}), { code: 'StorageError', message })
      await t.rejects(wrong.list('x'), { code: 'StorageError', message })
    })
  }
}

/** Over TLS parts are signed without their SHA-256, and stored as they came. */
async function examineOverTls(t: Test, { endpoint }: { endpoint: string }) {
  const bucket = bucketOf(t, { endpoint, keys: { ...KEYS, ca: ONE.cert } })
  const sizeBytes = 21 * MIB
  await bucket.upload({ key: 'tls', sizeBytes, source: bytes(sizeBytes) })
  const stored = createHash('sha256')
  for await (const chunk of await bucket.read('tls')) stored.update(chunk as Buffer)
  const sent = createHash('sha256')
  for await (const chunk of bytes(sizeBytes)) sent.update(chunk)
  t.equal(stored.digest('hex'), sent.digest('hex'))
}

/** A bucket whose objects cannot be deleted for a day accepts our writes. */
async function examineLocked(t: Test, subject: Subject) {
  const Bucket = 'locked'
  const client = clientOf(t, subject)
  await client.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }))
  const Rule = { DefaultRetention: { Mode: 'GOVERNANCE', Days: 1 } } as const
  const ObjectLockConfiguration = { ObjectLockEnabled: 'Enabled', Rule } as const
  await client.send(new PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration }))
  const bucket = bucketOf(t, subject, {}, Bucket)
  t.equal(await bucket.putJson('json', {}, { onlyNew: true }), true)
  for (const expectedBytes of [1, 1024 * MIB]) {
    const key = `o-${expectedBytes}`
    await bucket.upload({ key, expectedBytes, source: bytes(9 * MIB) })
    t.equal(await bucket.size(key), 9 * MIB)
  }
  await t.rejects(bucket.delete(['json']), {
    message: /DELETE s3:\/\/locked\/json was refused: AccessDenied/,
  })
  await putBackup(bucket, 'b/')
  const flags = ['--bucket-only', '--yes']
  t.match(await backupCommand(subject, 'delete', 's3://locked/b', ...flags), {
    code: 1,
    err: /DELETE s3:\/\/locked\/b\/.* was refused: AccessDenied.*; 4 objects of the backup .* left/,
  })
}

/** The worlds put a gate before their store; it must change nothing. */
async function behindGate(t: Test, subject: Subject): Promise<Subject> {
  const gate = await openGate(subject.endpoint, '127.0.0.1')
  t.teardown(() => gate.close())
  return { ...subject, endpoint: gate.url }
}

t.test('the bucket double', async (t) => examine(t, await double(t)))
t.test('the bucket double behind a gate', async (t) =>
  examine(t, await behindGate(t, await double(t))),
)
t.test('the bucket double over TLS', async (t) => {
  const server = await startBucketServer({ tls: ONE })
  t.teardown(() => server.close())
  await examineOverTls(t, { endpoint: server.url })
})

const bin = process.env['S3_BIN']
if (bin === undefined) t.pass('S3_BIN names no store: nothing to examine', { skip: true })
else {
  t.test('a real S3 server', async (t) => examine(t, await real(t, bin)))
  t.test('a real S3 server with Object Lock', async (t) => examineLocked(t, await real(t, bin)))
  t.test('a real S3 server over TLS', async (t) => {
    const store = await realStore(bin, t.testdir({}), ONE)
    t.teardown(() => store.close())
    await examineOverTls(t, store)
  })
  t.test('a real S3 server behind a gate', async (t) =>
    examine(t, await behindGate(t, await real(t, bin))),
  )
}
