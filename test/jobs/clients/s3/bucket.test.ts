/** Calls to a bucket: time limits, deletions, conditional writes and listings. */
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { HeadBucketCommand, UploadPartCommand, type S3Client } from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { StorageError } from '../../../../crds/contract/errors.ts'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { S3Connection, type S3CallOptions } from '../../../../jobs/clients/s3/connection.ts'
import type { Clock } from '../../../../jobs/clock.ts'
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

t.test('objects are read as a whole, in ranges and as JSON; a missing one is none', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  store.put('k', Buffer.from('1234567890'))
  t.equal(String(await bucket.bytes('k', { from: 2, length: 3 })), '345')
  t.equal(String(await bucket.bytes('k', { from: 8, length: 10 })), '90', 'the object ends before')
  t.equal(await text(await bucket.read('k')), '1234567890')
  t.equal(await bucket.size('k'), 10)
  t.equal(await bucket.getJson('k'), 1_234_567_890)
  store.put('k', Buffer.from('{"a":'))
  await t.rejects(bucket.getJson('k'), {
    code: 'StorageError',
    message: 's3://backups/k is not JSON',
  })
  t.equal(await bucket.getJson('none'), undefined)
  t.equal(await bucket.size('none'), undefined)
  const missing = { code: 'StorageError', reason: 'NoSuchKey', status: 404 }
  await t.rejects(bucket.read('none'), missing)
  await t.rejects(bucket.bytes('none', { from: 0, length: 1 }), missing)
  s3.buckets.delete('backups')
  await t.rejects(bucket.getJson('k'), { code: 'StorageError', reason: 'NoSuchBucket' })
})

t.test('objects are deleted by a thousand, also those that are missing', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  const keys = Array.from({ length: 2001 }, (_, index) => `k-${index}`)
  for (const key of keys.slice(1)) store.put(key, Buffer.from('x'))
  store.put('other', Buffer.from('x'))
  await bucket.delete(keys)
  t.strictSame(store.keys(), ['other'])
  t.equal(s3.calls.length, 3)
  await bucket.delete([])
  t.equal(s3.calls.length, 3)
  store.undeletable.set('gone', 'NoSuchKey')
  await bucket.delete(['gone'])
})

t.test('a page of objects is as long as asked for, and says how to continue', async (t) => {
  const { bucket, store } = await bucketStage(t)
  for (const key of ['p/a', 'p/b', 'p/c']) store.put(key, Buffer.from(key))
  const first = await bucket.list('p/', { max: 2 })
  t.strictSame(
    first.objects.map(({ key, sizeBytes }) => [key, sizeBytes]),
    [
      ['p/a', 3],
      ['p/b', 3],
    ],
  )
  const { objects, next } = await bucket.list('p/', { max: 2, token: first.next })
  t.strictSame([objects.map(({ key }) => key), next], [['p/c'], undefined])
})

t.test('a list whose rest cannot be asked for is an error, unless it is not needed', async (t) => {
  const { bucket, store } = await bucketStage(t)
  store.hidesTokens = true
  for (const key of ['p/a', 'p/b']) store.put(key, Buffer.from('x'))
  t.equal((await bucket.list('p/')).objects.length, 2)
  store.pageSize = 1
  await t.rejects(bucket.list('p/'), {
    code: 'StorageError',
    message: 'LIST s3://backups/p/ has more objects, but the store does not say how to list them',
  })
  const { objects, next } = await bucket.list('p/', { max: 1 })
  t.strictSame([objects.length, next], [1, undefined])
})

t.test('an open upload is aborted, and may be gone already; a denial is an error', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  const [uploadId, other] = [store.begin('k'), store.begin('k')]
  await bucket.abortUpload({ key: 'k', uploadId })
  await bucket.abortUpload({ key: 'k', uploadId })
  t.strictSame([...store.uploads.keys()], [other])
  s3.misbehave(() => ({ status: 403, code: 'AccessDenied' }))
  await t.rejects(bucket.abortUpload({ key: 'k', uploadId: other }), {
    code: 'StorageError',
    message: /^ABORT UPLOAD s3:\/\/backups\/k answered 403 AccessDenied /,
  })
})

t.test('an upload after which the store has no object is not a success', async (t) => {
  const { s3, bucket, store } = await bucketStage(t)
  s3.misbehave(({ operation }) => {
    if (operation === 'HeadObject') store.objects.clear()
    return undefined
  })
  const source = Readable.from([Buffer.from('bytes')])
  await t.rejects(bucket.upload({ key: 'k', source, sizeBytes: 5 }), {
    code: 'StorageError',
    message: 's3://backups/k has no bytes after 5 were uploaded',
  })
})

t.test(
  'each attempt of a change is checked before, and the error of a check is final',
  async (t) => {
    const checks = { count: 0, error: undefined as Error | undefined }
    const { s3, bucket, store } = await bucketStage(t, {
      beforeChange: async () => {
        checks.count += 1
        if (checks.count > 6) throw checks.error ?? new Error('replaced by another pod')
      },
    })
    let refused = 0
    const failOnce = () => (refused++ === 0 ? { status: 503, code: 'SlowDown' } : undefined)
    const changes = [
      async () => void (await bucket.putJson('k', {})),
      () => bucket.delete(['k']),
      () => bucket.abortUpload({ key: 'k', uploadId: store.begin('k') }),
    ]
    for (const change of changes) {
      refused = 0
      s3.misbehave(failOnce)
      await change()
    }
    t.equal(checks.count, 2 * changes.length)
    await bucket.getJson('k')
    await bucket.size('k')
    await bucket.list('')
    t.equal(checks.count, 2 * changes.length, 'nothing is changed by these')
    const before = s3.calls.length
    // A status that a store would be asked again for.
    for (const error of [
      new Error('replaced by another pod'),
      new StorageError('lost', { status: 503 }),
    ]) {
      checks.error = error
      for (const change of changes) await t.rejects(change(), error)
      const beforeAttempt = () => Promise.reject(error)
      checks.count = -100
      await t.rejects(bucket.delete(['k'], undefined, beforeAttempt), error)
      const upload = { key: 'k', uploadId: store.begin('k') }
      await t.rejects(bucket.abortUpload(upload, undefined, beforeAttempt), error)
      checks.count = 6
    }
    t.equal(s3.calls.length, before)
  },
)

t.test('every attempt is reported with its status, or without one', async (t) => {
  const reported: [string, number | undefined][] = []
  const { s3, bucket } = await bucketStage(t, {
    onCall: ({ method, status, seconds }) => {
      t.ok(seconds >= 0)
      reported.push([method, status])
    },
  })
  const answers = [{ lost: true } as const, { status: 503, code: 'SlowDown' }]
  s3.misbehave(() => answers.shift())
  await bucket.putJson('k', {})
  t.equal(await bucket.size('none'), undefined)
  t.strictSame(reported, [
    ['PUT', undefined],
    ['PUT', 503],
    ['PUT', 200],
    ['HEAD', 404],
  ])
})

t.test('a call is repeated seven times, with pauses that grow up to 20 s', async (t) => {
  const pauses: number[] = []
  const clock = instantClock()
  const sleep: Clock['sleep'] = (ms, signal) => {
    pauses.push(ms)
    return clock.sleep(ms, signal)
  }
  const { s3, bucket } = await bucketStage(t, { time: { ...clock, sleep } })
  s3.misbehave(() => ({ status: 500, code: 'InternalError' }))
  await t.rejects(bucket.getJson('k'), { code: 'StorageError', status: 500 })
  t.equal(s3.calls.length, 8)
  t.strictSame(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 20_000])
  s3.misbehave(() => ({ status: 403, code: 'AccessDenied' }))
  await t.rejects(bucket.getJson('k'), { code: 'StorageError', reason: 'AccessDenied' })
  t.equal(s3.calls.length, 9, 'a denial is final')
})

t.test('a call that is aborted is not repeated, and ends with the reason', async (t) => {
  const { s3, bucket } = await bucketStage(t)
  const abort = new AbortController()
  s3.misbehave(() => {
    abort.abort(new Error('SIGTERM'))
    return { status: 503, code: 'SlowDown' }
  })
  await t.rejects(bucket.getJson('k', abort.signal), { message: /^SIGTERM$/ })
  await t.rejects(bucket.list('', { signal: abort.signal }), { message: /^SIGTERM$/ })
  t.equal(s3.calls.length, 1)
})

t.test('without an endpoint a bucket is that of AWS in its region', async (t) => {
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'eu-central-1', forcePathStyle: false },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(() => bucket.close())
  const { origin, pathname, searchParams } = new URL(await bucket.presignedUrl('a/b'))
  t.equal(origin + pathname, 'https://backups.s3.eu-central-1.amazonaws.com/a/b')
  t.equal(searchParams.get('X-Amz-Expires'), '3600')
})
