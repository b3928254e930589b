/** Purge: batch by batch, only under the own uid, and never outside of `<prefix>/<name>/`. */
import t, { type Test } from 'tap'
import { purge as purgeAt, purgeAll, type PurgeOptions } from '../../../jobs/backup/purge.ts'
import type { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { bucketStage } from '../clients/s3/bucket-stage.ts'
import { instantClock } from '../job-world.ts'

const OWNER = {
  uid: 'u',
  namespace: 'ns',
  name: 'a',
  cluster: { namespace: 'ns', name: 'c' },
  startedAt: '2030-01-01T00:00:00Z',
  collections: [],
}

const NOW = new Date('2030-01-02T00:00:00Z')

function purge(
  bucket: Bucket,
  target: Parameters<typeof purgeAt>[1],
  options: Partial<PurgeOptions> = {},
) {
  return purgeAt(bucket, target, { now: NOW, ...options })
}

async function bucketOf(t: Test) {
  const { s3, bucket, store } = await bucketStage(t, { attempts: 2 })
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

t.test('a batch returns how many objects are left, and the folder is surveyed once', async (t) => {
  const { s3, bucket, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  for (let index = 0; index < 2_500; index += 1) put(`a/c/node-0/${index}`)
  const target = { prefix: '', name: 'a', uid: 'u' }
  const first = await purge(bucket, target)
  t.strictSame(first.survey, { left: 1_501, inner: [] })
  s3.calls.length = 0
  const second = await purge(bucket, target, { survey: first.survey })
  t.strictSame(second.survey, { left: 501, inner: [] })
  t.equal(s3.calls.filter(({ operation }) => operation === 'ListObjectsV2').length, 1)
  t.match(await purge(bucket, target, { survey: second.survey }), { done: true, survey: undefined })
})

/** As backups by node and by shard write them. */
const WRITTEN = [
  'manifest.json',
  'owner.json',
  ...[
    'collection.json',
    'node-0/checkpoint.json',
    'node-0/part.json',
    'node-0/docs-1.snapshot',
  ].map((key) => `docs/${key}`),
  ...[
    'collection.json',
    'shard-12/checkpoint.json',
    'shard-12/part.json',
    'shard-12/x-12.snapshot',
  ].map((key) => `x/${key}`),
  'node-1/node-0/checkpoint.json',
  '%6Fwner.json/collection.json',
]

t.test(
  'objects that this backup can have written are deleted, and others stay and are reported',
  async (t) => {
    const { bucket, store, put } = await bucketOf(t)
    for (const key of WRITTEN) put(`p/a/${key}`, key === 'owner.json' ? OWNER : 'x')
    const others = [
      ...['README', 'docs/notes.txt', 'docs/node-0/sub/file', 'docs/node-x/file', 'docs/shard-/x'],
      ...['node-0/file', 'other.json', 'readers/a/b.json'],
    ].map((key) => `p/a/${key}`)
    for (const key of others) put(key)
    const open = store.begin('p/a/docs/node-0/open')
    const foreign = store.begin('p/a/video.mp4')
    const target = { prefix: 'p', name: 'a', uid: 'u' }
    t.match(await purge(bucket, target), {
      done: true,
      deleted: WRITTEN.length,
      others: { count: others.length, example: 'p/a/README' },
    })
    t.strictSame(store.keys(), others.toSorted())
    t.notOk(store.uploads.has(open))
    t.ok(store.uploads.has(foreign), 'the upload of another writer stays open')
    t.match(await purge(bucket, target), {
      done: true,
      deleted: 0,
      others: { count: others.length },
    })
  },
)

for (const inner of ['a/nightly/', 'a/nightly/node-0/', 'a/zz/']) {
  t.test(`nothing below an inner folder with its own owner is deleted: ${inner}`, async (t) => {
    const { bucket, store, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    for (let index = 0; index < 1_500; index += 1) put(`a/m/node-0/${index}`)
    const theirs = [
      ...['owner.json', 'manifest.json', 'collection.json', 'node-0/collection.json'],
      ...['node-0/1.snapshot', 'docs/node-0/part.json', 'shard-1/x'],
    ].map((key) => inner + key)
    for (const key of theirs) put(key, { ...OWNER, uid: 'other' })
    const open = store.begin(`${inner}node-0/open`)
    const target = { prefix: '', name: 'a', uid: 'u' }
    const first = await purge(bucket, target)
    t.strictSame(first, { done: false, deleted: 1000, survey: { left: 501, inner: [inner] } })
    t.match(await purge(bucket, target, { survey: first.survey }), {
      done: true,
      deleted: 501,
      others: { count: theirs.length },
    })
    t.strictSame(store.keys(), theirs.toSorted())
    t.ok(store.uploads.has(open))
  })
}

for (const inner of ['a/docs/', 'a/docs/node-0/']) {
  t.test(`nothing next to the manifest of another program is deleted: ${inner}`, async (t) => {
    const { bucket, store, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    put('a/manifest.json')
    for (let index = 0; index < 1_500; index += 1) put(`a/m/node-0/${index}`)
    const theirs = [
      'manifest.json',
      'collection.json',
      'node-0/1.snapshot',
      '1.snapshot',
      'shard-1/x',
    ]
    for (const key of theirs) put(inner + key)
    const open = store.begin(`${inner}node-0/open`)
    const target = { prefix: '', name: 'a', uid: 'u' }
    const first = await purge(bucket, target)
    t.strictSame([first.done, first.survey?.inner], [false, [inner]])
    t.match(await purge(bucket, target, { survey: first.survey }), {
      done: true,
      others: { count: theirs.length },
    })
    t.strictSame(store.keys(), theirs.map((key) => inner + key).toSorted())
    t.ok(store.uploads.has(open))
  })
}

function reader(at: string, uid = '3e6f1c9e-0000-4000-8000-000000000001') {
  return { uid, namespace: 'far', name: 'drill', at }
}

const READER = 'a/readers/3e6f1c9e-0000-4000-8000-000000000001.json'

t.test('a restore that recorded itself holds the purge until half an hour after', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  put('a/manifest.json')
  put('a/docs/node-0/1.snapshot')
  put('a/readers/0.json', 'not JSON')
  put('a/readers/1.json', { uid: 'x' })
  put(READER, reader('2030-01-01T23:40:00Z'))
  const keys = store.keys()
  const target = { prefix: '', name: 'a', uid: 'u' }
  const held = { namespace: 'far', name: 'drill', until: '2030-01-02T00:10:00.000Z' }
  t.strictSame(await purge(bucket, target), { done: false, deleted: 0, reader: held })
  t.strictSame(store.keys(), keys)
  for (const at of ['2030-01-01T23:30:00Z', '2030-01-02T00:30:00Z']) {
    put(READER, reader(at))
    for (const [key, value] of [['a/owner.json', OWNER]] as const) put(key, value)
    put('a/manifest.json')
    t.match(await purge(bucket, target), { done: true }, `a clock that says ${at}`)
    t.strictSame(store.keys(), [])
  }
})

t.test('objects of a collection named `readers` are no records of restores', async (t) => {
  const { s3, bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  put('a/manifest.json')
  put('a/readers/collection.json', { uid: 'u', collection: 'x'.repeat(100_000) })
  put('a/readers/node-0/1.snapshot', 'x'.repeat(100_000))
  t.match(await purge(bucket, { prefix: '', name: 'a', uid: 'u' }), { done: true })
  t.strictSame(store.keys(), [])
  const read = s3.calls.filter(({ operation }) => operation === 'GetObject')
  t.strictSame([...new Set(read.map(({ key }) => key))], ['a/owner.json'])
})

t.test('a restore that starts during the purge is detected, or finds no manifest', async (t) => {
  const { s3, bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  put('a/manifest.json')
  put('a/docs/node-0/1.snapshot')
  s3.misbehave(({ operation }) => {
    if (operation === 'DeleteObjects') put(READER, reader('2030-01-02T00:00:00Z'))
    return undefined
  })
  const target = { prefix: '', name: 'a', uid: 'u' }
  t.match(await purge(bucket, target), { done: false, deleted: 1, reader: { name: 'drill' } })
  t.strictSame(store.keys(), ['a/docs/node-0/1.snapshot', 'a/owner.json', READER])
})

t.test('more inner folders than can be remembered end a purge with an error', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  put('a/docs/node-0/1.snapshot')
  for (let at = 0; at < 1001; at += 1) put(`a/inner-${at}/owner.json`, { ...OWNER, uid: 'v' })
  await t.rejects(purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
    code: 'StorageError',
    message:
      /^s3:\/\/backups\/a\/ contains more than 1000 folders with an owner\.json or manifest\.json/,
  })
  t.equal(store.keys().length, 1003)
  store.objects.delete('a/inner-1000/owner.json')
  while (!(await purge(bucket, { prefix: '', name: 'a', uid: 'u' })).done);
  t.equal(store.keys().length, 1000)
})

t.test('a purge reads no long owner.json, and no long record of a restore', async (t) => {
  const { s3, bucket, store, put } = await bucketOf(t)
  const target = { prefix: '', name: 'a', uid: 'u' }
  put('a/owner.json', { ...OWNER, collections: ['x'.repeat(2 * 1024 * 1024)] })
  await t.rejects(purge(bucket, target), { message: /the answer has more than 2097152 bytes$/ })
  put('a/owner.json', OWNER)
  put(READER, { ...reader('2030-01-02T00:00:00Z'), note: 'x'.repeat(4096) })
  const list = bucket.list.bind(bucket)
  // What a listing says of an object is not what it has.
  bucket.list = async (...of) => {
    const { objects, next } = await list(...of)
    return { objects: objects.map((object) => ({ ...object, sizeBytes: 1 })), next }
  }
  await t.rejects(purge(bucket, target), { message: /the answer has more than 4096 bytes$/ })
  t.equal(store.keys().length, 2)
  const reads = s3.calls.filter(({ operation }) => operation === 'GetObject')
  t.equal(reads.length, 3, 'and none is read twice')
})

for (const circular of ['a/', 'a/readers/']) {
  t.test(`a store that lists ${circular} in circles ends a purge with an error`, async (t) => {
    const { s3, bucket, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    const list = bucket.list.bind(bucket)
    let pages = 0
    bucket.list = async (...of) => {
      const { objects, next } = await list(...of)
      if (of[0] !== circular) return { objects, next }
      pages += 1
      return { objects, next: `page-${pages % 2}` }
    }
    await t.rejects(purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
      code: 'StorageError',
      message: `LIST s3://backups/${circular} returns the same page repeatedly`,
    })
    t.ok(s3.calls.length < 10)
  })
}

t.test('a listing that ends without its rest ends a purge with an error', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  store.pageSize = 3
  store.hidesTokens = true
  put('a/owner.json', OWNER)
  // The first page has nothing of the backup.
  for (const name of ['1', '2', '3']) put(`a/${name}`)
  put('a/docs/node-0/docs.snapshot')
  const before = store.keys()
  await t.rejects(purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
    code: 'StorageError',
    message: 'LIST s3://backups/a/ has more objects, but the store does not say how to list them',
  })
  t.strictSame(store.keys(), before)
  const { objects } = await bucket.list('a/', { max: 2 })
  t.equal(objects.length, 2, 'a caller that asks for two of them does not need the rest')
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

t.test('a deleted bucket is a success; any other error names the bucket', async (t) => {
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

t.test('a purge that is ended continues at the next call', async (t) => {
  const { bucket, store, put } = await bucketOf(t)
  put('a/owner.json', OWNER)
  for (let index = 0; index < 30; index += 1) put(`a/c/node-0/${index}`)
  const target = { prefix: '', name: 'a', uid: 'u' }
  t.strictSame(await purge(bucket, target, { maxKeys: 20 }), {
    ...{ done: false, deleted: 20 },
    survey: { left: 11, inner: [] },
  })
  t.equal(store.objects.size, 11)
  const ended = AbortSignal.abort(new Error('time is up'))
  await t.rejects(purge(bucket, target, { signal: ended }), { message: 'time is up' })
  t.match(await purge(bucket, target, { maxKeys: 20 }), { done: true })
  t.equal(store.objects.size, 0)
})

t.test(
  'a purge waits while a store lists deleted objects, and fails if it never stops',
  async (t) => {
    for (const listings of [8, Infinity]) {
      const { s3, bucket, store, put } = await bucketOf(t)
      put('a/owner.json', OWNER)
      let listed = 0
      s3.misbehave(({ operation }) => {
        if (operation !== 'ListObjectsV2' || (listed += 1) > listings) return undefined
        put('a/c/node-0/1')
        return undefined
      })
      const time = instantClock()
      const purged = purgeAll(
        bucket,
        { prefix: '', name: 'a', uid: 'u' },
        { time, signal: new AbortController().signal },
      )
      if (listings === Infinity) {
        await t.rejects(purged, {
          code: 'StorageError',
          message: 's3://backups/a/ still has deleted objects',
        })
        t.equal(time.monotonicMs(), 30_000)
        t.ok(store.objects.has('a/owner.json'))
      } else {
        t.match(await purged, { done: true })
        t.ok(time.monotonicMs() > 0)
        t.equal(store.objects.size, 0)
      }
    }
  },
)

for (const during of ['ListObjectsV2', 'ListMultipartUploads'] as const) {
  for (const batch of ['first', 'next'] as const) {
    t.test(
      `the backup that takes the folder during ${during} of the ${batch} batch stays`,
      async (t) => {
        const { s3, bucket, store, put } = await bucketOf(t)
        put('a/owner.json', OWNER)
        put('a/manifest.json')
        for (let index = 0; index < 30; index += 1) put(`a/c/node-0/${index}`)
        const target = { prefix: '', name: 'a', uid: 'u' }
        const { survey } = batch === 'first' ? {} : await purge(bucket, target, { maxKeys: 20 })
        // Another pod ends the purge of this backup, and one of the same name is created.
        let isTaken = false
        s3.misbehave(({ operation }) => {
          if (isTaken || operation !== during) return undefined
          isTaken = true
          for (const key of store.keys()) store.objects.delete(key)
          put('a/owner.json', { ...OWNER, uid: 'v' })
          put('a/manifest.json')
          for (let index = 0; index < 30; index += 1) put(`a/c/node-0/${index}`)
          store.begin('a/c/node-0/open')
          return undefined
        })
        t.match(await purge(bucket, target, { survey }), { done: true })
        t.ok(isTaken)
        t.equal(store.keys().length, 32)
        t.equal(store.uploads.size, 1)
      },
    )
  }
}

for (const remaining of [11, 0]) {
  t.test(`owner.json that is deleted during a purge: ${remaining} objects remain`, async (t) => {
    const { s3, bucket, store, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    put('a/manifest.json')
    for (let index = 0; index < 11; index += 1) put(`a/c/node-0/${index}`)
    let deletions = 0
    s3.misbehave(({ operation }) => {
      if (operation !== 'DeleteObjects' || (deletions += 1) > 1) return undefined
      // A user, a lifecycle rule, or another process that ends the purge.
      store.objects.delete('a/owner.json')
      if (remaining === 0) for (const key of store.keys()) store.objects.delete(key)
      return undefined
    })
    const target = { prefix: '', name: 'a', uid: 'u' }
    const others = { count: remaining, example: 'a/c/node-0/0' }
    t.strictSame(await purge(bucket, target), {
      ...{ done: true, deleted: 0 },
      ...(remaining > 0 && { others }),
    })
    t.equal(store.keys().length, remaining)
  })
}

for (const during of ['AbortMultipartUpload', 'DeleteObjects'] as const) {
  t.test(`the backup that takes the folder before ${during} is repeated stays`, async (t) => {
    const { s3, bucket, store, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    for (let index = 0; index < 30; index += 1) put(`a/c/node-0/${index}`)
    const open = store.begin('a/c/node-0/open')
    // The store is busy, and another process ends the purge before the next attempt.
    let isTaken = false
    s3.misbehave(({ operation }) => {
      if (isTaken || operation !== during) return undefined
      isTaken = true
      put('a/owner.json', { ...OWNER, uid: 'v' })
      for (let index = 0; index < 30; index += 1) put(`a/c/node-0/${index}`)
      return { status: 503, code: 'SlowDown' }
    })
    t.strictSame(await purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
      ...{ done: true, deleted: 0 },
    })
    t.ok(isTaken)
    t.equal(store.keys().length, 31)
    t.equal(store.uploads.has(open), during === 'AbortMultipartUpload')
  })
}

t.test(
  'a purge that cannot read owner.json before a repeated deletion ends with that error',
  async (t) => {
    const { s3, bucket, store, put } = await bucketOf(t)
    put('a/owner.json', OWNER)
    put('a/c/node-0/1')
    let isBusy = false
    s3.misbehave(({ operation }) => {
      if (operation === 'DeleteObjects') isBusy = true
      return isBusy ? { status: 503, code: 'SlowDown' } : undefined
    })
    await t.rejects(purge(bucket, { prefix: '', name: 'a', uid: 'u' }), {
      code: 'StorageError',
      message: /^GET s3:\/\/backups\/a\/owner.json answered 503 SlowDown/,
    })
    t.equal(store.keys().length, 2)
    // Two attempts to read it, not two for each attempt to delete.
    const after = s3.calls.findIndex(({ operation }) => operation === 'DeleteObjects') + 1
    t.equal(s3.calls.length - after, 2)
  },
)
