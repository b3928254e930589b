/** Calls to a bucket: time limits, deletions, conditional writes and listings. */
import { HeadBucketCommand, UploadPartCommand, type S3Client } from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { S3Connection, type S3CallOptions } from '../../../../jobs/clients/s3/connection.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { startBucketServer } from '../../../doubles/bucket/server.ts'
import { instantClock } from '../../job-world.ts'
import { bucketStage } from './bucket-stage.ts'

const MIB = 1024 * 1024
const PART = {
  ...{ Bucket: 'backups', Key: 'k', UploadId: 'u', PartNumber: 1 },
  Body: Buffer.alloc(MIB / 4),
}

async function stage(t: Test, attempts = 2) {
  const s3 = await startBucketServer()
  const connection = new S3Connection({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    attempts,
  })
  t.teardown(async () => {
    connection.close()
    await s3.close()
  })
  const putPart = (options: S3CallOptions) =>
    connection.call('PUT PART 1', { key: 'k', ...options }, (client, abortSignal) =>
      client.send(new UploadPartCommand(PART), { abortSignal }),
    )
  return { s3, connection, putPart }
}

t.test('a part that is too slow ends at its time limit, is retried, and is named', async (t) => {
  const { s3, putPart } = await stage(t)
  s3.misbehave(() => ({ trickle: 512 }))
  await t.rejects(putPart({ timeoutMs: 1_000 }), {
    code: 'StorageError',
    message: 'PUT PART 1 s3://backups/k got no answer: not done within 1 s',
  })
  t.equal(s3.calls.length, 2)
})

t.test('a store that sends nothing for its time limit is an error that says so', async (t) => {
  const { s3, putPart } = await stage(t)
  const never = Promise.withResolvers<undefined>()
  t.teardown(() => never.resolve(undefined))
  s3.misbehave(() => ({ after: never.promise }))
  await t.rejects(putPart({ idleMs: 1_000 }), {
    code: 'StorageError',
    message: 'PUT PART 1 s3://backups/k got no answer: the store was silent for 1 s',
  })
  t.equal(s3.calls.length, 2)
})

t.test('each call has its limit for silence', async (t) => {
  const { s3, connection } = await stage(t, 1)
  const [asked, answer] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()]
  s3.misbehave(() => {
    asked.resolve(undefined)
    return { after: answer.promise }
  })
  const head = (client: S3Client, abortSignal: AbortSignal) =>
    client.send(new HeadBucketCommand({ Bucket: 'backups' }), { abortSignal })
  const patient = connection.call('HEAD', { idleMs: 600_000 }, head)
  await asked.promise
  // It began later, and ends while the other one still waits.
  await t.rejects(connection.call('HEAD', { idleMs: 50 }, head), { message: /was silent/ })
  answer.resolve(undefined)
  await t.resolves(patient)
})

t.test('a deletion that is denied for one object names it, and deletes the others', async (t) => {
  const { bucket, store } = await bucketStage(t)
  for (const key of ['a', 'b', 'c']) store.put(key, Buffer.from('x'))
  store.undeletable.set('b', 'AccessDenied')
  await t.rejects(bucket.delete(['a', 'b', 'c']), {
    code: 'StorageError',
    reason: 'AccessDenied',
    message: /^DELETE s3:\/\/backups\/b was refused: AccessDenied/,
  })
  t.strictSame(store.keys(), ['b'])
})

t.test('a deletion that the store postpones for one object is repeated', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  for (const code of ['InternalError', 'SlowDown', 'ServiceUnavailable']) {
    for (const key of ['a', 'b', 'c']) store.put(key, Buffer.from('x'))
    const before = s3.calls.length
    let postponed = 2
    store.refuseDeletion = (key) => (key === 'b' && postponed-- > 0 ? code : undefined)
    await bucket.delete(['a', 'b', 'c'])
    t.strictSame(store.keys(), [], code)
    t.equal(s3.calls.length - before, 3, code)
  }
})

t.test('a deletion that is denied is not repeated because another one is postponed', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  for (const key of ['a', 'b']) store.put(key, Buffer.from('x'))
  store.undeletable.set('a', 'SlowDown')
  store.undeletable.set('b', 'AccessDenied')
  await t.rejects(bucket.delete(['a', 'b']), { message: /was refused: AccessDenied/ })
  t.equal(s3.calls.length, 1)
})

t.test('a deletion that stays postponed fails in the end, and names the object', async (t) => {
  const { bucket, store } = await bucketStage(t)
  store.put('a', Buffer.from('x'))
  store.undeletable.set('a', 'SlowDown')
  await t.rejects(bucket.delete(['a']), {
    message: /^DELETE s3:\/\/backups\/a was refused: SlowDown/,
  })
  t.strictSame(store.keys(), ['a'])
})

t.test('a conditional write that finds an object returns false', async (t) => {
  const { s3, bucket } = await bucketStage(t)
  t.equal(await bucket.putJson('k', { by: 1 }, { onlyNew: true }), true)
  t.equal(await bucket.putJson('k', { by: 2 }, { onlyNew: true }), false)
  t.strictSame(await bucket.getJson('k'), { by: 1 })
  // Some stores answer concurrent writes with another error code.
  for (const code of ['ConditionalRequestConflict', 'OperationAborted']) {
    s3.misbehave(() => ({ status: 409, code }))
    t.equal(await bucket.putJson('other', { by: 3 }, { onlyNew: true }), false, code)
  }
  s3.misbehave()
  t.equal(await bucket.getJson('other'), undefined)
})

t.test('a store without conditional writes gets an unconditional one', async (t) => {
  const { s3, bucket } = await bucketStage(t)
  let refused = 0
  s3.misbehave(({ operation }) =>
    operation === 'PutObject' && refused++ === 0
      ? { status: 501, code: 'NotImplemented' }
      : undefined,
  )
  t.equal(await bucket.putJson('k', { by: 1 }, { onlyNew: true }), true)
  t.strictSame(await bucket.getJson('k'), { by: 1 })
})

t.test('objects and open uploads are found on every page of a listing', async (t) => {
  const { bucket, store } = await bucketStage(t)
  store.pageSize = 2
  const keys = ['p/a', 'p/b', 'p/c', 'p/d', 'p/e']
  for (const key of keys) {
    store.put(key, Buffer.from('x'))
    store.begin(key)
    store.begin(key)
  }
  store.begin('q/a')
  const objects = []
  for await (const { key } of bucket.listAll('p/')) objects.push(key)
  t.strictSame(objects, keys)
  const uploads = await bucket.openUploads('p/')
  t.equal(new Set(uploads.map(({ uploadId }) => uploadId)).size, 10)
  t.ok(uploads.every(({ key }) => keys.includes(key)))
})

const QUARTER_HOUR_MS = 900_000

t.test(
  'calls follow the time of the store when the clock is wrong, or is set meanwhile',
  async (t) => {
    let aheadMs = 3_600_000
    const now = () => new Date(Date.now() + aheadMs)
    const { s3, bucket } = await bucketStage(t, {
      attempts: 2,
      server: { now, maxSkewMs: QUARTER_HOUR_MS },
    })
    await bucket.putJson('k', {})
    aheadMs = -7_200_000
    // An answer to HEAD has no body, and so no code.
    t.equal(await bucket.size('k'), 2)
    t.strictSame(
      s3.calls.map(({ operation }) => operation),
      ['PutObject', 'PutObject', 'HeadObject', 'HeadObject'],
    )
  },
)

t.test('keys that are wrong are final also where the clock is', async (t) => {
  const now = () => new Date(Date.now() + 3_600_000)
  const { s3, bucket } = await bucketStage(t, { server: { now, maxSkewMs: QUARTER_HOUR_MS } })
  s3.keys.set('id', 'another secret')
  await t.rejects(bucket.getJson('k'), { code: 'StorageError', reason: 'SignatureDoesNotMatch' })
  await t.rejects(bucket.size('k'), { code: 'StorageError', status: 403 })
  t.strictSame(
    s3.calls.map(({ operation }) => operation),
    ['GetObject', 'GetObject', 'HeadObject', 'HeadObject'],
  )
})

t.test(
  'a store that stays at another time names the clocks, and not the credentials',
  async (t) => {
    const { s3, bucket } = await bucketStage(t, { attempts: 2 })
    s3.misbehave(() => ({ status: 403, code: 'RequestTimeTooSkewed', message: 'too large' }))
    await t.rejects(bucket.putJson('k', {}), {
      code: 'StorageError',
      message:
        'PUT s3://backups/k answered 403 RequestTimeTooSkewed: too large (compare the clock of the Kubernetes node with that of the store)',
    })
    t.equal(s3.calls.length, 2)
  },
)
