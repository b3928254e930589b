/** `backup run` when the bucket fails: each failure has a clear message, and nothing is left behind. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { S3Call } from '../../doubles/bucket/operations.ts'
import type { S3Misbehaviour } from '../../doubles/bucket/server.ts'
import { snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { instantClock } from '../job-world.ts'
import { MIB, backupFixture, type BackupFixture } from './fixture.ts'

type BucketFault = (
  call: Pick<S3Call, 'operation' | 'key'>,
  count: number,
) => S3Misbehaviour | undefined

/** Permanent errors: the backup fails and says why. */
const PERMANENT: [string, (fixture: BackupFixture) => void, RegExp][] = [
  [
    'a key the store does not know',
    ({ world }) => world.credentials({ CLOUD_ACCESS_KEY_ID: 'x', CLOUD_SECRET_ACCESS_KEY: 'y' }),
    /403 InvalidAccessKeyId.*check the credentials/,
  ],
  [
    'a wrong secret',
    ({ world }) => world.credentials({ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'y' }),
    /403 SignatureDoesNotMatch/,
  ],
  [
    'a Secret without the key',
    ({ world }) => world.credentials({ CLOUD_ACCESS_KEY_ID: 'id' }),
    /Secret keys has no CLOUD_SECRET_ACCESS_KEY/,
  ],
  [
    'a bucket that is missing',
    ({ s3 }) => s3.buckets.clear(),
    /there is no bucket backups at this endpoint/,
  ],
  [
    'a wrong region',
    ({ s3 }) =>
      s3.misbehave(() => ({ status: 301, code: 'PermanentRedirect', message: 'use eu-west-1' })),
    /301 PermanentRedirect: use eu-west-1/,
  ],
]
for (const [what, arrange, words] of PERMANENT) {
  t.test(`${what} fails the backup with the bucket’s name and the reason`, async (t) => {
    const scene = await backupFixture(t)
    arrange(scene)
    const { code, log } = await scene.world.run()
    t.equal(code, EXIT.failed, log)
    const progress = await scene.world.progress()
    t.match(progress, { state: 'Failed', reason: 'BucketFailed', message: words })
    t.match(progress?.backup?.error, words)
    t.notMatch(log + JSON.stringify(progress), /secretsecret/)
    t.equal(snapshotFiles(scene.engine).size, 0)
  })
}

/** Transient errors: the backup completes. */
const TRANSIENT: [string, BucketFault][] = [
  [
    '503 in a burst',
    (_, count) => (count % 3 === 0 ? undefined : { status: 503, code: 'ServiceUnavailable' }),
  ],
  [
    'SlowDown in a burst',
    (_, count) => (count % 3 === 0 ? undefined : { status: 503, code: 'SlowDown' }),
  ],
  [
    'a connection cut in a part',
    ({ operation }, count) =>
      operation === 'UploadPart' && count % 2 === 0 ? { cut: 'in' } : undefined,
  ],
  [
    'a part accepted whose answer is lost',
    ({ operation }, count) =>
      operation === 'UploadPart' && count % 2 === 0 ? { lost: true } : undefined,
  ],
  [
    'a store that is slow to a trickle',
    ({ operation }) => (operation === 'UploadPart' ? { trickle: MIB } : undefined),
  ],
  [
    'an upload completed whose answer is lost',
    ({ operation }, count) =>
      operation === 'CompleteMultipartUpload' && count < 1000 ? { lost: true } : undefined,
  ],
]
for (const [what, bad] of TRANSIENT) {
  t.test(`${what} is waited for or retried, and the backup completes`, async (t) => {
    const { world, s3, store } = await backupFixture(t, { nodes: 1, snapshotBytes: 20 * MIB })
    let count = 0
    let completed = 0
    let faults = 0
    s3.misbehave((call) => {
      count += 1
      const isRepeated = call.operation === 'CompleteMultipartUpload' && completed++ > 0
      const fault = isRepeated ? undefined : bad(call, count)
      if (fault !== undefined) faults += 1
      return fault
    })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(faults > 0, 'the store failed')
    t.equal(store().uploads.size, 0)
    s3.misbehave()
    t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
  })
}

t.test('403 during an upload fails that collection and aborts the upload', async (t) => {
  const { engine, world, s3, store, manifest } = await backupFixture(t, {
    engineCollections: ['a', 'b'],
    nodes: 1,
    snapshotBytes: 20 * MIB,
  })
  s3.misbehave(({ operation, key }) =>
    operation === 'UploadPart' && key.includes('/a/')
      ? { early: true, status: 403, code: 'AccessDenied' }
      : undefined,
  )
  const { code, log } = await world.run()
  t.equal(code, EXIT.failed, log)
  t.match((await world.progress())?.backup, {
    completed: 1,
    failed: 1,
    error: /PUT PART [1-3] s3:\/\/backups\/nightly\/b\/a\/node-0\/.* answered 403 AccessDenied/,
  })
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['b'],
  )
  t.equal(store().uploads.size, 0)
  t.equal(snapshotFiles(engine).size, 0)
})

t.test('a backup waits for a rotated key, and the status says so', async (t) => {
  const { world, s3 } = await backupFixture(t, { nodes: 1, snapshotBytes: 20 * MIB })
  s3.misbehave(({ operation }) => {
    if (operation === 'CreateMultipartUpload') {
      s3.keys.clear()
      s3.keys.set('new', 'newer')
    }
    return undefined
  })
  const time = instantClock(async () => {
    if (!s3.keys.has('new') || !(await waitForReport(world))) return
    world.credentials({ CLOUD_ACCESS_KEY_ID: 'new', CLOUD_SECRET_ACCESS_KEY: 'newer' })
  })
  const { code, log } = await world.run({}, { time })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /bucket credentials rejected, waiting for renewed ones/)
  t.match((await world.progress())?.message, /^Backed up 1\/1 collections$/)
})

/** The report is in transit while a wait takes no time. */
async function waitForReport(world: BackupFixture['world']): Promise<boolean> {
  for (let look = 0; look < 20; look += 1) {
    if (WAITS.test((await world.progress())?.message ?? '')) return true
    await setTimeout(POLL_MS)
  }
  return false
}

const POLL_MS = 10
const WAITS =
  /^collection 1 of 1 \(docs\), .*; waiting for renewed credentials: CREATE UPLOAD s3:.* answered 403 InvalidAccessKeyId/

t.test('a full store is reported, and the other collections are not attempted', async (t) => {
  const { engine, world, s3 } = await backupFixture(t, { engineCollections: ['a', 'b', 'c'] })
  let isFull = false
  s3.misbehave(({ operation, key }) => {
    isFull ||= key.endsWith('.snapshot')
    return isFull && operation !== 'DeleteObjects'
      ? { status: 507, code: 'XMinioStorageFull' }
      : undefined
  })
  const { code } = await world.run()
  t.equal(code, EXIT.failed)
  t.match((await world.progress())?.message, /507 XMinioStorageFull \(the store is full\)/)
  t.match((await world.progress())?.backup, { failed: 3 })
  const attempted = s3.calls.flatMap(({ key }) => /\/b\/(\w)\/.*\.snapshot$/.exec(key)?.[1] ?? [])
  t.strictSame([...new Set(attempted)], ['a'])
  t.equal(snapshotFiles(engine).size, 0)
})

t.test('AWS_* keys are used only when the default names are configured and absent', async (t) => {
  const { world } = await backupFixture(t, { nodes: 1 })
  world.credentials({ AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secretsecret\n' })
  t.equal((await world.run()).code, EXIT.done)
  const reference = { name: 'keys', accessKeyIdKey: 'mine', secretAccessKeyKey: 'mine-too' }
  const storage = { ...world.plan.storage, credentialsSecretRef: reference }
  const { code } = await world.run({ storage, run: 2 }, { pod: 'pod-2' })
  t.equal(code, EXIT.failed)
  t.match((await world.progress())?.message, /Secret keys has no mine/)
})

t.test(
  'the error of a store without space for the folder is quoted, and is not reported as another owner',
  async (t) => {
    const { world, s3 } = await backupFixture(t)
    const isOwner = (key: string) => key.endsWith('/owner.json')
    s3.misbehave(({ operation, key }) =>
      operation === 'PutObject' && isOwner(key)
        ? { status: 409, code: 'ObjectParentIsFile' }
        : undefined,
    )
    t.equal((await world.run()).code, 1)
    t.match((await world.progress())?.message, /owner\.json answered 409 ObjectParentIsFile/)
  },
)

const OTHER_OWNER = {
  uid: 'other',
  namespace: 'elsewhere',
  name: 'b',
  cluster: { namespace: 'x', name: 'y' },
  startedAt: '2030-01-01T00:00:00Z',
  collections: [],
}

// In a store that ignores If-None-Match the later of two owners replaces the earlier one.
for (const [moment, file, hasManifest] of [
  ['before', 'collection.json', false],
  ['while', 'manifest.json', true],
] as const) {
  t.test(
    `a backup whose owner.json is replaced ${moment} it writes its manifest fails`,
    async (t) => {
      const { world, store, s3 } = await backupFixture(t, { nodes: 1 })
      s3.misbehave(({ operation, key }) => {
        if (operation === 'PutObject' && key.endsWith(`/${file}`))
          store().put('nightly/b/owner.json', Buffer.from(JSON.stringify(OTHER_OWNER)))
        return undefined
      })
      const { code, log } = await world.run()
      t.equal(code, EXIT.failed, log)
      t.match(
        (await world.progress())?.message,
        /prefix holds another backup \(VecBackup elsewhere\/b\)/,
      )
      t.equal(store().keys().includes('nightly/b/manifest.json'), hasManifest)
    },
  )
}

t.test('a prefix with another backup, or with other objects, is not changed', async (t) => {
  const { world, store } = await backupFixture(t)
  store().put('nightly/b/owner.json', Buffer.from(JSON.stringify(OTHER_OWNER)))
  t.equal((await world.run()).code, EXIT.failed)
  t.match(
    (await world.progress())?.message,
    /prefix holds another backup \(VecBackup elsewhere\/b\)/,
  )
  t.strictSame(store().keys(), ['nightly/b/owner.json'])
  store().objects.clear()
  store().put('nightly/b/photo.jpg', Buffer.from('x'))
  t.equal((await world.run({ run: 2 }, { pod: 'pod-2' })).code, EXIT.failed)
  t.match((await world.progress())?.message, /prefix holds another backup, or other objects/)
})
