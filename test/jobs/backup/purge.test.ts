/** Purge: batch by batch, only under the own uid, and never outside of `<prefix>/<name>/`. */
import t, { type Test } from 'tap'
import { purge } from '../../../jobs/backup/purge.ts'
import { Bucket } from '../../../jobs/clients/s3.ts'
import { jobLog } from '../../../jobs/log.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { instantTime } from '../job-world.ts'

const OWNER = {
  uid: 'u',
  namespace: 'ns',
  name: 'a',
  cluster: { namespace: 'ns', name: 'c' },
  startedAt: '2030-01-01T00:00:00Z',
  collections: [],
}

async function bucketOf(t: Test) {
  const s3 = await startBucketServer()
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantTime(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    attempts: 2,
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  const store = s3.buckets.get('backups')
  if (store === undefined) throw new Error('there is no bucket')
  const put = (key: string, value: object | string = 'x') =>
    store.put(key, Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))
  return { s3, bucket, store, put }
}

t.test(
  'ten thousand objects go with one delete per 1000 keys and at most eleven calls',
  async (t) => {
    const { s3, bucket, store, put } = await bucketOf(t)
    put('p/a/owner.json', OWNER)
    for (let index = 0; index < 10_000; index += 1) put(`p/a/c/node-0/${index}`)
    store.begin('p/a/c/node-0/open')
    let calls = 0
    for (let done = false; !done; calls += 1) {
      done = (await purge(bucket, { prefix: 'p', name: 'a', uid: 'u' })).done
      t.ok(done || store.objects.has('p/a/owner.json'), 'owner.json goes last')
    }
    t.ok(calls <= 11, `${calls} calls`)
    const deletions = s3.calls.filter(({ operation }) => operation === 'DeleteObjects')
    t.ok(deletions.length <= 12, `${deletions.length} deletions`)
    t.equal(store.objects.size, 0)
    t.equal(store.uploads.size, 0)
    t.strictSame(await purge(bucket, { prefix: 'p', name: 'a', uid: 'u' }), {
      done: true,
      deleted: 0,
    })
  },
)

t.test('a batch tells how many objects are left, and they are counted once', async (t) => {
  const { s3, bucket, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  for (let index = 0; index < 2_500; index += 1) put(`a/c/${index}`)
  const target = { prefix: '', name: 'a', uid: 'u' }
  const first = await purge(bucket, target)
  t.strictSame(first.left, { count: 1_501, isLeast: false })
  s3.calls.length = 0
  const second = await purge(bucket, target, { left: first.left })
  t.strictSame(second.left, { count: 501, isLeast: false })
  t.equal(s3.calls.filter(({ operation }) => operation === 'ListObjectsV2').length, 1)
  t.match(await purge(bucket, target, { left: second.left }), { done: true, left: undefined })
})

t.test('of very many objects, more than 20000 are left, until those are gone', async (t) => {
  const { bucket, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  for (let index = 0; index < 21_500; index += 1) put(`a/c/${index}`)
  const target = { prefix: '', name: 'a', uid: 'u' }
  const { left } = await purge(bucket, target)
  t.strictSame(left, { count: 20_000, isLeast: true })
  const next = (count: number) => purge(bucket, target, { left: { count, isLeast: true } })
  t.strictSame((await next(20_000)).left, { count: 19_000, isLeast: true })
  t.strictSame((await next(1_000)).left, { count: 18_501, isLeast: false })
})

for (const prefix of ['', 'p', '/p/', 'p//q']) {
  t.test(`\`a\` does not delete \`a-b/\`, with the prefix "${prefix}"`, async (t) => {
    const { bucket, store, put } = await bucketOf(t)
    const base = prefix
      .split('/')
      .filter((part) => part !== '')
      .map((part) => `${part}/`)
      .join('')
    put(`${base}a/owner.json`, OWNER)
    put(`${base}a/manifest.json`)
    for (const other of ['a-b/x', 'a.json', 'aa/x', 'x']) put(`${base}${other}`)
    await purge(bucket, { prefix, name: 'a', uid: 'u' })
    t.strictSame(
      store.keys(),
      ['a-b/x', 'a.json', 'aa/x', 'x'].map((key) => base + key),
    )
  })
}

t.test('under another uid, or without an owner, nothing is deleted', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  put('a/manifest.json')
  t.match(await purge(bucket, { prefix: '', name: 'a', uid: 'u' }), { done: true, deleted: 0 })
  put('a/owner.json', { ...OWNER, uid: 'other' })
  t.match(await purge(bucket, { prefix: '', name: 'a', uid: 'u' }), { done: true, deleted: 0 })
  t.equal(store.objects.size, 2)
})

t.test('a bucket that is gone is done; any other refusal is an error that names it', async (t) => {
  const { s3, bucket, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  s3.misbehave(({ operation }) =>
    operation === 'DeleteObjects' ? { status: 403, code: 'AccessDenied' } : undefined,
  )
  await t.rejects(purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
    code: 'StorageError',
    message: /DELETE s3:\/\/backups\/a\/owner.json answered 403 AccessDenied/,
  })
  s3.misbehave()
  s3.buckets.clear()
  t.match(await purge(bucket, { prefix: '', name: 'a', uid: 'u' }), { done: true })
})

t.test('a purge that is ended goes on at the next call', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  for (let index = 0; index < 30; index += 1) put(`a/${index}`)
  const target = { prefix: '', name: 'a', uid: 'u' }
  t.strictSame(await purge(bucket, target, { maxKeys: 20 }), {
    ...{ done: false, deleted: 20 },
    left: { count: 11, isLeast: false },
  })
  t.equal(store.objects.size, 11)
  const ended = AbortSignal.abort(new Error('time is up'))
  await t.rejects(purge(bucket, target, { signal: ended }), { message: 'time is up' })
  t.match(await purge(bucket, target, { maxKeys: 20 }), { done: true })
  t.equal(store.objects.size, 0)
})
