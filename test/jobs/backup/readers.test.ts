/** A restore records in the bucket that it reads a backup, for purges that cannot see it otherwise. */
import t, { type Test } from 'tap'
import { findActiveReader, recordReader } from '../../../jobs/backup/readers.ts'
import { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../jobs/log.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'

const RESTORE = { uid: 'uid-r', namespace: 'far', name: 'drill' }
const KEY = 'p/a/readers/uid-r.json'

async function stage(t: Test) {
  const s3 = await startBucketServer()
  const lines: object[] = []
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'FATAL' }),
    attempts: 1,
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  const store = s3.buckets.get('backups')
  if (store === undefined) throw new Error('there is no bucket')
  const clock = { now: new Date('2030-01-01T00:00:00Z') }
  const time = { now: () => clock.now, monotonicMs: () => 0, sleep: async () => undefined }
  let next: () => void = () => undefined
  const signal = new AbortController().signal
  const pause = (aborted: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      next = resolve
      aborted.addEventListener('abort', () => reject(new Error('ended')))
    })
  const log = { warn: (fields: object, words: string) => void lines.push({ ...fields, words }) }
  const reading = {
    bucket,
    folder: 'p/a/',
    restore: RESTORE,
    time,
    log,
    signal,
    waitForNext: pause,
  }
  const renewed = async () => {
    const writes = () => s3.calls.filter(({ operation }) => operation === 'PutObject').length
    const before = writes()
    next()
    while (writes() === before) await new Promise((resolve) => setImmediate(resolve))
  }
  type Options = Parameters<typeof recordReader>[0]
  const recordWith = ({ waitForNext }: Pick<Options, 'waitForNext'>) => {
    const { waitForNext: _, ...others } = reading
    return recordReader({ ...others, ...(waitForNext !== undefined && { waitForNext }) })
  }
  const record = () => recordReader(reading)
  return { s3, bucket, store, clock, lines, renewed, record, recordWith }
}

t.test(
  'the record is written before the first read, renewed, and deleted at the end',
  async (t) => {
    const { bucket, store, clock, renewed, record, lines } = await stage(t)
    const reading = await record()
    const storedRecord = () => JSON.parse(store.text(KEY) ?? '{}') as unknown
    t.strictSame(storedRecord(), { ...RESTORE, at: '2030-01-01T00:00:00.000Z' })
    clock.now = new Date('2030-01-01T00:05:00Z')
    await renewed()
    const active = await findActiveReader(bucket, 'p/a/', new Date('2030-01-01T00:34:59Z'))
    t.strictSame(active, { namespace: 'far', name: 'drill', until: '2030-01-01T00:35:00.000Z' })
    t.equal(await findActiveReader(bucket, 'p/a/', new Date('2030-01-01T00:35:00Z')), undefined)
    t.equal(await findActiveReader(bucket, 'p/a-b/', clock.now), undefined)
    await reading.stop({ hasEnded: true })
    t.strictSame(store.keys(), [])
    t.strictSame(lines, [])
  },
)

t.test('the record of a pod that another one continues stays, and is not renewed', async (t) => {
  const { s3, store, record } = await stage(t)
  const reading = await record()
  await reading.stop({ hasEnded: false })
  t.strictSame(store.keys(), [KEY])
  t.equal(s3.calls.filter(({ operation }) => operation === 'PutObject').length, 1)
})

t.test('without a clock of a test the record is renewed after minutes, not at once', async (t) => {
  const { s3, bucket, recordWith } = await stage(t)
  const reading = await recordWith({})
  // A renewal takes as long as one of these writes.
  for (let number = 0; number < 20; number += 1) await bucket.putJson(`other/${number}`, {})
  const writes = s3.calls.filter(({ operation }) => operation === 'PutObject')
  t.strictSame(
    writes.filter(({ key }) => !key.startsWith('other/')).map(({ key }) => key),
    [KEY],
  )
  await reading.stop({ hasEnded: true })
})

t.test('an error of a renewal that is not of the store is thrown at the end', async (t) => {
  const { store, recordWith } = await stage(t)
  const error = new TypeError('not of the store')
  const reading = await recordWith({ waitForNext: async () => Promise.reject(error) })
  await new Promise((resolve) => setImmediate(resolve))
  await t.rejects(reading.stop({ hasEnded: true }), error)
  t.strictSame(store.keys(), [KEY], 'it expires')
})

t.test('read-only credentials are enough, and the log says what is missing', async (t) => {
  const { s3, store, record, lines } = await stage(t)
  s3.misbehave(({ operation }) =>
    operation === 'GetObject' ? undefined : { status: 403, code: 'AccessDenied' },
  )
  const reading = await record()
  await reading.stop({ hasEnded: true })
  t.strictSame(store.keys(), [])
  matchWhole(t, lines, [
    {
      reason: /403 AccessDenied/,
      words:
        'cannot record this restore in the bucket: a purge from another Kubernetes cluster does not wait for it',
    },
    { words: 'cannot remove the record of this restore from the bucket' },
  ])
})

const EXPIRED = JSON.stringify({ ...RESTORE, at: '2029-01-01T00:00:00.000Z' })

t.test('a record is found behind any number of expired ones', async (t) => {
  const { s3, bucket, store } = await stage(t)
  const now = new Date()
  const current = JSON.stringify({ ...RESTORE, at: now.toISOString() })
  for (let number = 0; number < 150; number += 1) {
    store.put(`p/a/readers/uid-${number}.json`, Buffer.from(EXPIRED))
  }
  store.put('p/a/readers/uid-z.json', Buffer.from(current))
  t.match(await findActiveReader(bucket, 'p/a/', now), { name: 'drill' })
  for (let number = 0; number < 2500; number += 1) {
    const object = store.put(`p/a/readers/uid-${number}.json`, Buffer.from(EXPIRED))
    object.modified = new Date(now.getTime() - 86_400_000)
  }
  store.listsTimes = true
  s3.calls.length = 0
  t.match(await findActiveReader(bucket, 'p/a/', now), { name: 'drill' })
  const reads = s3.calls.filter(({ operation }) => operation === 'GetObject')
  t.strictSame(
    reads.map(({ key }) => key),
    ['p/a/readers/uid-z.json'],
    'what the store lists as a day old is not read',
  )
})

t.test('with more records than can be read it is not known whether a restore reads', async (t) => {
  const { bucket, store } = await stage(t)
  const now = new Date('2030-01-01T00:00:00Z')
  const put = (number: number) => store.put(`p/a/readers/uid-${number}.json`, Buffer.from(EXPIRED))
  for (let number = 0; number < 1000; number += 1) put(number)
  t.equal(await findActiveReader(bucket, 'p/a/', now), undefined)
  put(1000)
  await t.rejects(findActiveReader(bucket, 'p/a/', now), {
    code: 'StorageError',
    message:
      's3://backups/p/a/readers/ has more than 1000 records of restores: delete those of restores that have ended',
  })
})

t.test('objects of a collection named `readers` do not count as records', async (t) => {
  const { s3, bucket, store } = await stage(t)
  const at = '2030-01-01T00:00:00.000Z'
  for (let number = 0; number < 1001; number += 1) {
    store.put(`p/a/readers/node-0/${number}.json`, Buffer.from('{}'))
  }
  store.put(KEY, Buffer.from(JSON.stringify({ ...RESTORE, at })))
  t.match(await findActiveReader(bucket, 'p/a/', new Date(at)), { name: 'drill' })
  t.equal(s3.calls.filter(({ operation }) => operation === 'GetObject').length, 1)
})

t.test('a record counts for the time of its renewal, before and after it', async (t) => {
  const { bucket, store } = await stage(t)
  const at = Date.parse('2030-01-01T00:00:00Z')
  const record = { ...RESTORE, at: new Date(at).toISOString() }
  store.put(KEY, Buffer.from(JSON.stringify(record)))
  const active = { namespace: 'far', name: 'drill', until: '2030-01-01T00:30:00.000Z' }
  const found = (ms: number) => findActiveReader(bucket, 'p/a/', new Date(at + ms))
  t.strictSame(await found(0), active)
  t.strictSame(await found(1_799_999), active)
  t.equal(await found(1_800_000), undefined)
  t.strictSame(await found(-1_799_999), active, 'the clock of the restore is ahead')
  t.equal(await found(-1_800_000), undefined)
})

t.test('an object of another form is ignored; an error of the store is not', async (t) => {
  const { s3, bucket, store } = await stage(t)
  const at = '2030-01-01T00:00:00.000Z'
  store.put('p/a/readers/a.json', Buffer.from('not JSON'))
  store.put('p/a/readers/b.json', Buffer.from(JSON.stringify({ at })))
  store.put(KEY, Buffer.from(JSON.stringify({ ...RESTORE, at })))
  t.match(await findActiveReader(bucket, 'p/a/', new Date(at)), { name: 'drill' })
  s3.misbehave(({ operation }) =>
    operation === 'GetObject' ? { status: 403, code: 'AccessDenied' } : undefined,
  )
  await t.rejects(findActiveReader(bucket, 'p/a/', new Date(at)), { message: /AccessDenied/ })
})
